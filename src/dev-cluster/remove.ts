import { ApiError, conflict, notFound } from '../kube/status.ts';
import { attributesOf } from './attributes.ts';
import type { ApiResult, Call, Core } from './core.ts';
import { readDeleteOptions, type DeleteOptions } from './delete-options.ts';
import { readListOptions } from './list-options.ts';
import { listObjects } from './list.ts';
import { timestamp } from './metadata.ts';
import { orphan } from './orphan.ts';
import { returnsDeleted } from './traits.ts';
import { metadataOf, type ApiObject, type ResourceInfo } from './types.ts';
import { present, storageKey, toStored } from './views.ts';

/** What a deletion has come to: gone, or waiting for its finalizers. */
interface Deletion {
  readonly object: ApiObject;
  readonly gone: boolean;
}

/** Deletes an object, or marks it as being deleted while finalizers hold it. */
export async function remove(core: Core, call: Call): Promise<ApiResult> {
  const options = readDeleteOptions(call.query, call.body);
  const { object, gone } = await removeObject(core, call, options);
  if (!gone || returnsDeleted(call.info)) return { kind: 'object', code: 200, object, info: call.info };
  return { kind: 'object', code: 200, object: success(call.info, object) };
}

/** Deletes every selected object of a collection and answers with what was deleted. */
export async function removeCollection(core: Core, call: Call): Promise<ApiResult> {
  const options = readDeleteOptions(call.query, call.body);
  const listed = listObjects(core, call, readListOptions(call.query, call.info, 'list'));
  for (const object of listed.items) {
    const { name = '', namespace = '' } = metadataOf(object);
    try {
      await removeObject(core, { ...call, name, namespace, scope: namespace }, options);
    } catch (error) {
      // What has gone in the meantime need not be deleted.
      if (!(error instanceof ApiError && error.status.code === 404)) throw error;
    }
  }
  return listed;
}

/**
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/registry/generic/registry/store.go (Delete)
 */
export async function removeObject(core: Core, call: Call, options: DeleteOptions): Promise<Deletion> {
  const { info } = call;
  for (;;) {
    const raw = core.storage.get(storageKey(info), call.scope, call.name);
    if (!raw) throw new ApiError(notFound(info, call.name));
    const existing = present(info, raw);
    requirePreconditions(call, options, existing);
    const leaving = leavingOf(core, info, existing);
    await admit(core, call, options, existing);
    if (options.orphan && !options.dryRun) orphan(core, existing);
    const done = options.dryRun ? { object: leaving.object, gone: leaving.gone } : store(core, info, raw, leaving);
    if (done) return done;
  }
}

async function admit(core: Core, call: Call, options: DeleteOptions, oldObject: ApiObject): Promise<void> {
  const subject = { operation: 'DELETE', oldObject, options: options.object, dryRun: options.dryRun } as const;
  const attributes = attributesOf(withoutSubresource(call), subject);
  await core.admission.mutate(attributes, call.context);
  await core.admission.validate(attributes, call.context);
}

/** An eviction deletes the pod itself. */
function withoutSubresource(call: Call): Call {
  return { ...call, subresource: undefined };
}

/** An object as its deletion leaves it. Pods are marked on the way out; nothing runs them, so nothing has to stop. */
function leavingOf(core: Core, info: ResourceInfo, existing: ApiObject): Deletion {
  const held = finalizersOf(existing).length > 0;
  const graceful = info.group === '' && (info.resource === 'pods' || info.resource === 'namespaces');
  if (!held && !graceful) return { object: existing, gone: true };
  return { object: marked(existing, timestamp(core.clock())), gone: !held };
}

/** `metadata.finalizers`, and those of a Namespace's `spec`. */
function finalizersOf(object: ApiObject): readonly unknown[] {
  const spec = object.kind === 'Namespace' ? (object['spec'] as { finalizers?: unknown[] } | undefined) : undefined;
  return [...(metadataOf(object).finalizers ?? []), ...(spec?.finalizers ?? [])];
}

function marked(existing: ApiObject, now: string): ApiObject {
  const { deletionTimestamp, generation } = metadataOf(existing);
  if (deletionTimestamp !== undefined) return existing;
  const object = structuredClone(existing);
  const isNamespace = existing.kind === 'Namespace';
  object.metadata = {
    ...object.metadata,
    deletionTimestamp: now,
    ...(isNamespace ? {} : { deletionGracePeriodSeconds: 0 }),
    ...(generation === undefined ? {} : { generation: generation + 1 }),
  };
  if (isNamespace) object['status'] = { ...(object['status'] as object | undefined), phase: 'Terminating' };
  return object;
}

/** Writes a deletion; `undefined` if somebody else has written in between. */
function store(core: Core, info: ResourceInfo, raw: ApiObject, { object, gone }: Deletion): Deletion | undefined {
  const key = storageKey(info);
  if (!gone && object === raw) return { object, gone };
  const last = toStored(info, object);
  const stored = gone ? core.storage.remove(key, raw, last) : core.storage.replace(key, raw, last);
  return stored && { object: present(info, stored), gone };
}

function requirePreconditions({ info, name }: Call, { preconditions }: DeleteOptions, existing: ApiObject): void {
  const { uid, resourceVersion } = metadataOf(existing);
  const resource = { group: info.group, resource: info.kind };
  if (preconditions.uid !== undefined && preconditions.uid !== uid) {
    const cause = `the UID in the precondition (${preconditions.uid}) does not match the UID in record (${uid ?? ''}). The object might have been deleted and then recreated`;
    throw new ApiError(conflict(resource, name, cause));
  }
  if (preconditions.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion) {
    const cause = `the ResourceVersion in the precondition (${preconditions.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion ?? ''}). The object might have been modified`;
    throw new ApiError(conflict(resource, name, cause));
  }
}

function success(info: ResourceInfo, object: ApiObject): ApiObject {
  const { name, uid } = metadataOf(object);
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Success',
    details: { name, ...(info.group === '' ? {} : { group: info.group }), kind: info.resource, uid },
  };
}
