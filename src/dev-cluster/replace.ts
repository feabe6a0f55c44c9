import { isDeepStrictEqual } from 'node:util';
import { ApiError, conflict, invalid, notFound } from '../kube/status.ts';
import { invalidValue } from '../kube/field-error.ts';
import { attributesOf } from './attributes.ts';
import { requireAccess } from './access.ts';
import type { Call, Core, ObjectResult } from './core.ts';
import { createObject } from './create.ts';
import { modified } from './errors.ts';
import { refuseEscalation } from './escalation.ts';
import { keepTimes } from './fields/index.ts';
import { keyOf } from './keys.ts';
import { matchName, matchNamespace, editMetadata } from './metadata.ts';
import type { WriteOptions } from './options.ts';
import { allowsUnconditionalUpdate } from './traits.ts';
import { metadataOf, type ApiObject, type ResourceInfo } from './types.ts';
import { present, storageKey, toStored } from './views.ts';

/** How a request makes the new object from the one that is stored. */
export interface Change {
  readonly options: WriteOptions;
  /** Called again when somebody else has written in between. */
  next(existing: ApiObject | undefined): ApiObject;
  readonly createsMissing: boolean;
  /** The uid that the stored object must have. */
  readonly uid?: string;
}

/**
 * Replaces a stored object by what a PUT or PATCH makes of it.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/registry/generic/registry/store.go (Update)
 */
export async function replaceObject(core: Core, call: Call, change: Change): Promise<ObjectResult> {
  for (;;) {
    const raw = core.storage.get(storageKey(call.info), call.scope, call.name);
    const done = raw ? await replaceExisting(core, call, change, raw) : await createMissing(core, call, change);
    if (done) return done;
  }
}

async function createMissing(core: Core, call: Call, change: Change): Promise<ObjectResult> {
  const { info, user, namespace, name } = call;
  if (!change.createsMissing || call.subresource) throw new ApiError(notFound(info, name));
  const object = checked(call, change.next(undefined));
  const { uid = '' } = metadataOf(object);
  if (uid !== '') {
    const cause = `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`;
    throw new ApiError(conflict(info, name, cause));
  }
  requireAccess(core.access, user, { verb: 'create', apiGroup: info.group, resource: info.resource, name, namespace });
  return { kind: 'object', code: 201, object: await createObject(core, call, object, change.options), info };
}

async function replaceExisting(
  core: Core,
  call: Call,
  change: Change,
  raw: ApiObject,
): Promise<ObjectResult | undefined> {
  const { info, context } = call;
  const existing = present(info, raw);
  requireUid(call, change, existing);
  const { options } = change;
  const subject = { operation: 'UPDATE', options: options.as('UpdateOptions'), dryRun: options.dryRun } as const;
  const next = checked(call, change.next(existing));
  const admitted = await core.admission.mutate(
    attributesOf(call, { ...subject, object: next, oldObject: existing }),
    context,
  );
  const object = admitted ?? next;
  refuseEscalation(core, call, object, existing);
  requireVersion(info, object, existing);
  completeChanged(call, object, existing);
  await core.admission.validate(attributesOf(call, { ...subject, object, oldObject: existing }), context);
  const answer = (stored: ApiObject): ObjectResult => ({
    kind: 'object',
    code: 200,
    object: present(info, stored),
    info,
  });
  if (options.dryRun) return answer(object);
  if (isReleased(object, existing)) {
    const removed = core.storage.remove(storageKey(info), raw, toStored(info, object));
    return removed && answer(removed);
  }
  if (isDeepStrictEqual(object, existing)) return answer(raw);
  const stored = core.storage.replace(storageKey(info), raw, toStored(info, object));
  return stored && answer(stored);
}

function checked(call: Call, object: ApiObject): ApiObject {
  matchNamespace(object, call.scope);
  matchName(object, call.name);
  return object;
}

function requireUid({ info, scope, name }: Call, { uid = '' }: Change, existing: ApiObject): void {
  const { uid: own = '' } = metadataOf(existing);
  if (uid === '' || uid === own) return;
  const key = `/registry/${info.resource}/${keyOf(scope, name)}`;
  const cause = `StorageError: invalid object, Code: 4, Key: ${key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${own}`;
  throw new ApiError(conflict(info, name, cause));
}

/** Without a version the request stands for the latest one, if the resource allows that. */
export function requireVersion(info: ResourceInfo, object: ApiObject, existing: ApiObject): void {
  const { resourceVersion = '' } = metadataOf(object);
  const { resourceVersion: current = '', name = '' } = metadataOf(existing);
  if (resourceVersion === current) return;
  if (resourceVersion !== '' && resourceVersion !== '0') throw modified(info, name);
  if (!allowsUnconditionalUpdate(info)) {
    const missing = invalidValue('metadata.resourceVersion', 0, 'must be specified for an update');
    throw new ApiError(invalid({ group: info.group, kind: info.resource }, name, [missing]));
  }
  editMetadata(object)['resourceVersion'] = current;
}

/** Keeps what an update cannot change, then checks the object. */
export function completeChanged(call: Call, object: ApiObject, existing: ApiObject): void {
  const { info, context } = call;
  const subresource = call.subresource?.name ?? '';
  const metadata = editMetadata(object);
  const old = existing.metadata ?? {};
  // A webhook may have changed it.
  matchNamespace(object, call.scope);
  keep(metadata, old, 'generation');
  info.strategy.prepareForUpdate(object, existing, subresource);
  if ((metadata['uid'] ?? '') === '') keep(metadata, old, 'uid');
  keep(metadata, old, 'creationTimestamp');
  keep(metadata, old, 'deletionTimestamp');
  if (metadata['deletionGracePeriodSeconds'] == null) keep(metadata, old, 'deletionGracePeriodSeconds');
  const errors = info.strategy.validateUpdate(object, existing, subresource);
  if (errors.length > 0) throw new ApiError(invalid(info, call.name, errors));
  if (subresource === '') for (const warning of info.strategy.warnings(object)) context.warn(warning);
  keepTimes(object, existing);
}

function keep(metadata: Record<string, unknown>, old: Readonly<Record<string, unknown>>, field: string): void {
  if (old[field] === undefined) Reflect.deleteProperty(metadata, field);
  else metadata[field] = old[field];
}

/** True if the object was being deleted and nothing holds it any longer. */
function isReleased(object: ApiObject, existing: ApiObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = metadataOf(object);
  if (deletionTimestamp === undefined || (deletionGracePeriodSeconds ?? 0) !== 0) return false;
  if ((finalizers ?? []).length > 0) return false;
  const held = [metadataOf(existing).finalizers ?? [], namespaceFinalizers(existing)].some((list) => list.length > 0);
  return held && namespaceFinalizers(object).length === 0;
}

function namespaceFinalizers(object: ApiObject): readonly unknown[] {
  const spec = object.kind === 'Namespace' ? object['spec'] : undefined;
  const finalizers = (spec as { finalizers?: unknown } | undefined)?.finalizers;
  return Array.isArray(finalizers) ? finalizers : [];
}
