import { ApiError, badRequest } from '../kube/status.ts';
import { requireAccess } from './access.ts';
import { attributesOf, getObject, type ApiResult, type Call, type Core } from './request.ts';
import { textAt, type ApiObject } from './types.ts';

/** The boolean options of each connection to a container. */
const FLAGS: Readonly<Record<string, readonly string[]>> = {
  exec: ['stdin', 'stdout', 'stderr', 'tty'],
  attach: ['stdin', 'stdout', 'stderr', 'tty'],
};

/**
 * Authorizes and admits a connection to a container, then rejects it as the API server does for a pod without a node:
 * the development cluster runs no pods. The log of such a pod is empty.
 */
export async function connect(core: Core, call: Call): Promise<ApiResult> {
  const name = call.subresource?.name ?? '';
  if (name !== 'log') await admitConnection(core, call, name);
  const pod = getObject(core, call);
  const nodeName = textAt(pod, 'spec', 'nodeName');
  if (nodeName === '' && name === 'log') return { kind: 'empty' };
  if (nodeName === '') throw new ApiError(badRequest(`pod ${call.name} does not have a host assigned`));
  throw new ApiError(badRequest(`node ${nodeName} has no kubelet: this is a development cluster, which runs no pods`));
}

/** A GET that is upgraded to a stream requires the verb `create` in addition. */
async function admitConnection(core: Core, call: Call, subresource: string): Promise<void> {
  const { info, namespace, name, context } = call;
  const action = { apiGroup: info.group, resource: info.resource, subresource, namespace, name };
  if (call.verb === 'get') requireAccess(core.access, call.user, { verb: 'create', ...action });
  const object = connectOptions(call, subresource);
  const attributes = attributesOf(call, { operation: 'CONNECT', object, options: {}, dryRun: false });
  const admitted = await core.admission.mutate(attributes, context);
  await core.admission.validate({ ...attributes, object: admitted ?? object }, context);
}

function connectOptions({ query, subresource }: Call, name: string): ApiObject {
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
