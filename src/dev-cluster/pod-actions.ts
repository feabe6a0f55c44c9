import { ApiError, badRequest, conflict, notFound } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { attributesOf } from './attributes.ts';
import { applyDefaults } from './body.ts';
import type { ApiResult, Call, Core } from './core.ts';
import { decodeNew } from './create.ts';
import { readDeleteOptions } from './delete-options.ts';
import { editMetadata } from './metadata.ts';
import { omit } from './omit.ts';
import { readWriteOptions, type WriteOptions } from './options.ts';
import { removeObject } from './remove.ts';
import { itemsAt, textAt } from './tables/cells.ts';
import { metadataOf, type ApiObject } from './types.ts';
import { storageKey } from './views.ts';

/** Evicts a pod. Disruption budgets are not counted: nothing runs, so nothing is disrupted. */
export async function createEviction(core: Core, call: Call): Promise<ApiResult> {
  const options = readWriteOptions(call.query, 'CreateOptions');
  const eviction = await admitted(core, call, options);
  if (metadataOf(eviction).name !== call.name) {
    throw new ApiError(badRequest('name in URL does not match name in Eviction object'));
  }
  const given = isObject(eviction['deleteOptions']) ? eviction['deleteOptions'] : {};
  const deleteOptions = { ...omit(given, 'kind'), ...(options.dryRun ? { dryRun: ['All'] } : {}) };
  await removeObject(core, call, readDeleteOptions(new URLSearchParams(), JSON.stringify(deleteOptions)));
  return created();
}

/** Binds a pod to a node, as a scheduler does. */
export async function createBinding(core: Core, call: Call): Promise<ApiResult> {
  const options = readWriteOptions(call.query, 'CreateOptions');
  const binding = await admitted(core, call, options);
  const nodeName = textAt(binding, 'target', 'name');
  if (nodeName === '') throw new ApiError(badRequest('Binding target name is required'));
  for (;;) {
    const pod = core.storage.get(storageKey(call.info), call.scope, call.name);
    if (!pod) throw new ApiError(notFound(call.info, call.name));
    const problem = obstacle(pod);
    if (problem !== undefined)
      throw new ApiError(conflict({ group: '', resource: 'pods/binding' }, call.name, problem));
    const bound = bind(pod, nodeName, metadataOf(binding).annotations ?? {});
    if (options.dryRun || core.storage.replace(storageKey(call.info), pod, bound)) return created();
  }
}

async function admitted(core: Core, call: Call, options: WriteOptions): Promise<ApiObject> {
  const object = decodeNew(core, call, options);
  applyDefaults(call, object);
  const subject = {
    operation: 'CREATE',
    object,
    options: options.as('CreateOptions'),
    dryRun: options.dryRun,
  } as const;
  const attributes = attributesOf(call, subject);
  const mutated = (await core.admission.mutate(attributes, call.context)) ?? object;
  await core.admission.validate({ ...attributes, object: mutated }, call.context);
  return mutated;
}

function obstacle(pod: ApiObject): string | undefined {
  const { name = '', deletionTimestamp } = metadataOf(pod);
  if (deletionTimestamp !== undefined) return `pod ${name} is being deleted, cannot be assigned to a host`;
  const nodeName = textAt(pod, 'spec', 'nodeName');
  if (nodeName !== '') return `pod ${name} is already assigned to node ${JSON.stringify(nodeName)}`;
  if (itemsAt(pod, 'spec', 'schedulingGates').length > 0) return `pod ${name} has non-empty .spec.schedulingGates`;
  return undefined;
}

function bind(pod: ApiObject, nodeName: string, annotations: JsonObject): ApiObject {
  const bound = structuredClone(pod);
  const metadata = editMetadata(bound);
  if (Object.keys(annotations).length > 0) metadata['annotations'] = { ...metadataOf(pod).annotations, ...annotations };
  bound['spec'] = { ...(bound['spec'] as object | undefined), nodeName };
  const conditions = itemsAt(pod, 'status', 'conditions').filter(({ type }) => type !== 'PodScheduled');
  bound['status'] = {
    ...(bound['status'] as object | undefined),
    conditions: [...conditions, { type: 'PodScheduled', status: 'True' }],
  };
  return bound;
}

function created(): ApiResult {
  return {
    kind: 'object',
    code: 201,
    object: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 },
  };
}
