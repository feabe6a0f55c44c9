import { ApiError, badRequest, notFound } from '../kube/status.ts';
import { attributesOf } from './attributes.ts';
import type { ApiResult, Call, Core } from './core.ts';
import { requireAccess } from './access.ts';
import { getObject } from './read.ts';
import { itemsAt, textAt } from './tables/cells.ts';
import type { ApiObject } from './types.ts';

/** The options of each way into a container, as admission sees them. */
const FLAGS: Readonly<Record<string, readonly string[]>> = {
  exec: ['stdin', 'stdout', 'stderr', 'tty'],
  attach: ['stdin', 'stdout', 'stderr', 'tty'],
  portforward: [],
};

/**
 * Asks for a stream into a container: it is authorized and admitted, then refused as the API server refuses it for a pod
 * without a node; only its log is empty.
 */
export async function connect(core: Core, call: Call): Promise<ApiResult> {
  const name = call.subresource?.name ?? '';
  if (name !== 'log') await admit(core, call, name);
  const pod = getObject(core, call);
  if (name !== 'portforward') requireContainer(pod, call.query.get('container') ?? '');
  const nodeName = textAt(pod, 'spec', 'nodeName');
  // Who has not started has said nothing yet.
  if (nodeName === '' && name === 'log') return { kind: 'nothing' };
  if (nodeName === '') throw new ApiError(badRequest(`pod ${call.name} does not have a host assigned`));
  const node = core.storage.get({ group: '', resource: 'nodes' }, '', nodeName);
  if (!node) throw new ApiError(notFound({ group: '', resource: 'nodes' }, nodeName));
  throw new ApiError(badRequest(`node ${nodeName} runs no kubelet: this is a development cluster, which runs no pods`));
}

/** Whoever upgrades a GET to a stream needs the right to create as well. */
async function admit(core: Core, call: Call, name: string): Promise<void> {
  const { info, namespace } = call;
  const action = { apiGroup: info.group, resource: info.resource, subresource: name, namespace, name: call.name };
  if (call.verb === 'get') requireAccess(core.access, call.user, { verb: 'create', ...action });
  const object = optionsOf(call, name);
  const subject = { operation: 'CONNECT', object, options: {}, dryRun: false } as const;
  const attributes = attributesOf(call, subject);
  const admitted = await core.admission.mutate(attributes, call.context);
  await core.admission.validate({ ...attributes, object: admitted ?? object }, call.context);
}

function optionsOf({ query, subresource }: Call, name: string): ApiObject {
  const flags = (FLAGS[name] ?? []).filter((flag) => ['true', '1'].includes(query.get(flag) ?? ''));
  const container = query.get('container') ?? '';
  const command = query.getAll('command');
  const ports = query.getAll('ports').flatMap((port) => port.split(',').map(Number));
  return {
    kind: subresource?.kind.kind ?? '',
    apiVersion: 'v1',
    ...Object.fromEntries(flags.map((flag) => [flag, true])),
    ...(container === '' ? {} : { container }),
    ...(command.length === 0 ? {} : { command }),
    ...(ports.length === 0 ? {} : { ports }),
  };
}

/** Throws ApiError 400 unless the container exists, or is the only one. */
function requireContainer(pod: ApiObject, container: string): void {
  const name = textAt(pod, 'metadata', 'name');
  const lists = ['initContainers', 'containers', 'ephemeralContainers'];
  const names = lists.flatMap((list) => itemsAt(pod, 'spec', list).map((item) => textAt(item, 'name')));
  if (container === '') {
    if (itemsAt(pod, 'spec', 'containers').length === 1) return;
    const choice = `choose one of: [${names.join(' ')}]`;
    throw new ApiError(badRequest(`a container name must be specified for pod ${name}, ${choice}`));
  }
  if (!names.includes(container)) {
    throw new ApiError(badRequest(`container ${container} is not valid for pod ${name}`));
  }
}
