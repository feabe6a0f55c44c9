import { ApiError, badRequest, conflict, notFound } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { requireDryRun } from './body.ts';
import { formatTimestamp } from '../kube/units.ts';
import { list } from './list.ts';
import { createAttributes, type Call, type Core, type ListResult, type ObjectResult } from './request.ts';
import { storageKey, toServed, toStored } from './resources.ts';
import { getMetadata, textAt, textsAt, type ApiObject, type ResourceInfo } from './types.ts';
import { getFinalizers } from './update.ts';

interface DeleteOptions {
  readonly dryRun: boolean;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The options object that webhooks receive. */
  readonly object: ApiObject;
}

/**
 * Reads the options of a deletion from the body. The propagation policy has no effect, since dependents are not collected.
 * Throws ApiError 400 or 422.
 */
function readDeleteOptions({ body }: Call): DeleteOptions {
  const sent = body.trim() === '' ? {} : parseOptions(body);
  const dryRun = textsAt(sent, 'dryRun');
  requireDryRun('DeleteOptions', dryRun);
  return {
    dryRun: dryRun.length > 0,
    uid: textAt(sent, 'preconditions', 'uid'),
    resourceVersion: textAt(sent, 'preconditions', 'resourceVersion'),
    object: { ...sent, kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1' },
  };
}

function parseOptions(body: string): JsonObject {
  try {
    const value: unknown = JSON.parse(body);
    return isObject(value) ? value : {};
  } catch (error) {
    throw new ApiError(badRequest(`couldn't get version/kind; json parse error: ${String(error)}`), { cause: error });
  }
}

/** The result of a deletion. An object with finalizers is not removed at once. */
interface Deletion {
  readonly object: ApiObject;
  readonly removed: boolean;
}

/** Resources whose deletion returns the object instead of a Status. */
const RETURNED = ['pods', 'podtemplates', 'services', 'serviceaccounts', 'persistentvolumes', 'resourcequotas'];

/** Deletes an object, or marks it as being deleted while it has finalizers. */
export async function remove(core: Core, call: Call): Promise<ObjectResult> {
  const { info } = call;
  const { object, removed } = await removeObject(core, call, readDeleteOptions(call));
  const isReturned = !removed || (info.group === '' && RETURNED.includes(info.resource));
  return { kind: 'object', code: 200, ...(isReturned ? { object, info } : { object: successStatus(info, object) }) };
}

/** Deletes the selected objects of a collection and returns them. */
export async function removeCollection(core: Core, call: Call): Promise<ListResult> {
  const options = readDeleteOptions(call);
  const selected = list(core, call);
  for (const object of selected.items) {
    const { name = '', namespace = '' } = getMetadata(object);
    try {
      await removeObject(core, { ...call, name, namespace, scope: namespace }, options);
    } catch (error) {
      const isGone = error instanceof ApiError && error.status.code === 404;
      if (!isGone) throw error;
    }
  }
  return selected;
}

async function removeObject(core: Core, call: Call, options: DeleteOptions): Promise<Deletion> {
  const { info, context } = call;
  for (;;) {
    const raw = core.storage.get(storageKey(info), call.scope, call.name);
    if (!raw) throw new ApiError(notFound(info, call.name));
    const oldObject = toServed(info, raw);
    requirePreconditions(call, options, oldObject);
    const { dryRun } = options;
    const attributes = createAttributes(call, { operation: 'DELETE', oldObject, options: options.object, dryRun });
    await core.admission.mutate(attributes, context);
    await core.admission.validate(attributes, context);
    const deletion = createDeletion(core, info, oldObject);
    const result = dryRun ? deletion : store(core, info, raw, deletion);
    if (result) return result;
  }
}

/** Pods and Namespaces are marked as being deleted even without finalizers. */
function createDeletion(core: Core, info: ResourceInfo, existing: ApiObject): Deletion {
  const removed = getFinalizers(existing).length === 0;
  const isGraceful = info.group === '' && (info.resource === 'pods' || info.resource === 'namespaces');
  const isMarked = getMetadata(existing).deletionTimestamp !== undefined;
  if ((removed && !isGraceful) || isMarked) return { object: existing, removed };
  return { object: markDeleted(existing, formatTimestamp(core.clock().getTime())), removed };
}

function markDeleted(existing: ApiObject, deletionTimestamp: string): ApiObject {
  const { generation } = getMetadata(existing);
  const isNamespace = existing.kind === 'Namespace';
  const metadata = {
    ...existing.metadata,
    deletionTimestamp,
    ...(isNamespace ? {} : { deletionGracePeriodSeconds: 0 }),
    ...(generation === undefined ? {} : { generation: generation + 1 }),
  };
  const status = isNamespace ? { status: { ...(existing['status'] as object), phase: 'Terminating' } } : {};
  return { ...structuredClone(existing), metadata, ...status };
}

/** Returns `undefined` if another request has changed the object. */
function store(core: Core, info: ResourceInfo, raw: ApiObject, { object, removed }: Deletion): Deletion | undefined {
  const key = storageKey(info);
  if (!removed && object === raw) return { object, removed };
  const last = toStored(info, object);
  const stored = removed ? core.storage.remove(key, raw, last) : core.storage.replace(key, raw, last);
  return stored && { object: toServed(info, stored), removed };
}

function requirePreconditions({ info, name }: Call, options: DeleteOptions, existing: ApiObject): void {
  const own = getMetadata(existing);
  for (const field of ['uid', 'resourceVersion'] as const) {
    const sent = options[field];
    if (sent === '' || sent === own[field]) continue;
    const label = field === 'uid' ? 'UID' : 'ResourceVersion';
    const cause = `the ${label} in the precondition (${sent}) does not match the ${label} in record (${own[field]})`;
    throw new ApiError(conflict({ group: info.group, resource: info.kind }, name, cause));
  }
}

function successStatus({ group, resource }: ResourceInfo, object: ApiObject): ApiObject {
  const { name, uid } = getMetadata(object);
  const details = { name, ...(group === '' ? {} : { group }), kind: resource, uid };
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details };
}
