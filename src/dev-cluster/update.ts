import { isDeepStrictEqual } from 'node:util';
import { invalidValue } from '../kube/field-error.ts';
import { ApiError, conflict, invalid, notFound } from '../kube/status.ts';
import { requireAccess } from './access.ts';
import {
  APPLY,
  completeFields,
  matchName,
  matchNamespace,
  mediaType,
  createOwnership,
  readBody,
  readWriteOptions,
  trackFields,
  unsupportedMediaType,
  type WriteOptions,
} from './body.ts';
import { createObject } from './create.ts';
import { applyConfiguration } from './fields/apply.ts';
import { applyPatch, type PatchMediaType } from './fields/patch.ts';
import { decodeConfiguration } from './fields/decode.ts';
import { keepTimes } from './fields/managed-fields.ts';
import { createAttributes, type Call, type Core, type ObjectResult } from './request.ts';
import { storageKey, toServed, toStored } from './resources.ts';
import { editMetadata, getMetadata, textsAt, type ApiObject, type ResourceInfo } from './types.ts';

/** A change of one object. */
interface ObjectChange {
  readonly options: WriteOptions;
  /** Returns the new object. Called again if another request has changed the object in the meantime. */
  next(existing: ApiObject | undefined): ApiObject;
}

/** Replaces an object or, with a subresource, the part that it stands for. */
export async function update(core: Core, call: Call): Promise<ObjectResult> {
  const options = readWriteOptions(call.query, 'UpdateOptions');
  const sent = readBody(call, options.fieldValidation);
  matchName(sent, call.name);
  const { uid } = getMetadata(sent);
  return changeObject(core, call, {
    options,
    next(existing) {
      if (!existing) throw new ApiError(notFound(call.info, call.name));
      requireUid(call, uid ?? '', existing);
      const object = structuredClone(sent);
      trackFields(core, call, options, object, existing);
      return object;
    },
  });
}

const JSON_PATCHES = ['application/json-patch+json', 'application/merge-patch+json'];
const STRATEGIC_MERGE_PATCH = 'application/strategic-merge-patch+json';

/** Patches an object, or applies a configuration to it. */
export async function patch(core: Core, call: Call): Promise<ObjectResult> {
  const type = mediaType(call.contentType);
  const accepted = [...JSON_PATCHES, ...(call.info.custom ? [] : [STRATEGIC_MERGE_PATCH]), APPLY];
  if (!accepted.includes(type)) throw unsupportedMediaType(accepted);
  const options = readWriteOptions(call.query, 'PatchOptions');
  const next = type === APPLY ? applied(core, call, options) : patched(core, call, options, type as PatchMediaType);
  return changeObject(core, call, { options, next });
}

function patched(core: Core, call: Call, options: WriteOptions, mediaType: PatchMediaType): ObjectChange['next'] {
  return (existing) => {
    if (!existing) throw new ApiError(notFound(call.info, call.name));
    const object = applyPatch(existing, call.body, mediaType, call.info.schema);
    completeFields(call, object, options.fieldValidation);
    trackFields(core, call, options, object, existing);
    return object;
  };
}

function applied(core: Core, call: Call, options: WriteOptions): ObjectChange['next'] {
  const { fieldManager, fieldValidation, force } = options;
  const config = decodeConfiguration(call.body);
  return (existing) => {
    const ownership = createOwnership(core, call, fieldManager);
    const live = existing ? { live: existing } : {};
    const object = applyConfiguration({ ...ownership, ...live, config, force });
    completeFields(call, object, fieldValidation);
    return object;
  };
}

/**
 * Changes a stored object, and retries if another request changes it in the meantime.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/registry/generic/registry/store.go (Update)
 */
async function changeObject(core: Core, call: Call, change: ObjectChange): Promise<ObjectResult> {
  for (;;) {
    const raw = core.storage.get(storageKey(call.info), call.scope, call.name);
    const result = raw ? await changeExisting(core, call, change, raw) : await createMissing(core, call, change);
    if (result) return result;
  }
}

async function createMissing(core: Core, call: Call, change: ObjectChange): Promise<ObjectResult> {
  const { info, user, namespace, name } = call;
  if (call.subresource) throw new ApiError(notFound(info, name));
  const object = matched(call, change.next(undefined));
  requireAccess(core.access, user, { verb: 'create', apiGroup: info.group, resource: info.resource, name, namespace });
  return { kind: 'object', code: 201, object: await createObject(core, call, object, change.options), info };
}

/** Returns `undefined` if another request has changed the object. */
async function changeExisting(
  core: Core,
  call: Call,
  { options, next }: ObjectChange,
  raw: ApiObject,
): Promise<ObjectResult | undefined> {
  const { info, context } = call;
  const oldObject = toServed(info, raw);
  const change = {
    operation: 'UPDATE',
    oldObject,
    options: options.toObject('UpdateOptions'),
    dryRun: options.dryRun,
  } as const;
  const sent = matched(call, next(oldObject));
  const object = (await core.admission.mutate(createAttributes(call, { ...change, object: sent }), context)) ?? sent;
  requireVersion(info, object, oldObject);
  completeChanged(call, object, oldObject);
  await core.admission.validate(createAttributes(call, { ...change, object }), context);
  const stored = options.dryRun ? object : store(core, info, raw, object, oldObject);
  return stored && { kind: 'object', code: 200, object: toServed(info, stored), info };
}

function store(core: Core, info: ResourceInfo, raw: ApiObject, object: ApiObject, old: ApiObject) {
  if (isDeepStrictEqual(object, old)) return raw;
  const key = storageKey(info);
  const stored = toStored(info, object);
  return isReleased(object, old) ? core.storage.remove(key, raw, stored) : core.storage.replace(key, raw, stored);
}

function matched(call: Call, object: ApiObject): ApiObject {
  matchNamespace(object, call.scope);
  matchName(object, call.name);
  return object;
}

function requireUid({ info, name }: Call, uid: string, existing: ApiObject): void {
  const { uid: own = '' } = getMetadata(existing);
  if (uid === '' || uid === own) return;
  const cause = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${own}`;
  throw new ApiError(conflict(info, name, cause));
}

/** Throws ApiError 409 for an outdated resource version. Built-in resources accept updates without a version. */
function requireVersion(info: ResourceInfo, object: ApiObject, existing: ApiObject): void {
  const { resourceVersion = '' } = getMetadata(object);
  const { resourceVersion: current = '', name = '' } = getMetadata(existing);
  if (resourceVersion === current) return;
  if (resourceVersion !== '' && resourceVersion !== '0') {
    const cause = 'the object has been modified; please apply your changes to the latest version and try again';
    throw new ApiError(conflict(info, name, cause));
  }
  if (info.custom) {
    const missing = invalidValue('metadata.resourceVersion', 0, 'must be specified for an update');
    throw new ApiError(invalid({ group: info.group, kind: info.resource }, name, [missing]));
  }
  editMetadata(object)['resourceVersion'] = current;
}

/** Restores the fields that an update cannot change, and validates the object. */
function completeChanged(call: Call, object: ApiObject, existing: ApiObject): void {
  const { info } = call;
  const subresource = call.subresource?.name ?? '';
  const metadata = editMetadata(object);
  const restore = (field: string): void => {
    const value = existing.metadata?.[field];
    if (value === undefined) Reflect.deleteProperty(metadata, field);
    else metadata[field] = value;
  };
  // A webhook can have changed the namespace.
  matchNamespace(object, call.scope);
  restore('generation');
  info.strategy.prepareForUpdate(object, existing, subresource);
  if ((metadata['uid'] ?? '') === '') restore('uid');
  restore('creationTimestamp');
  restore('deletionTimestamp');
  if (metadata['deletionGracePeriodSeconds'] == null) restore('deletionGracePeriodSeconds');
  const errors = info.strategy.validateUpdate(object, existing, subresource);
  if (errors.length > 0) throw new ApiError(invalid(info, call.name, errors));
  keepTimes(object, existing);
}

/** Returns the finalizers of an object, for a Namespace including those of its `spec`. */
export function getFinalizers(object: ApiObject): readonly string[] {
  const own = getMetadata(object).finalizers ?? [];
  return object.kind === 'Namespace' ? [...own, ...textsAt(object, 'spec', 'finalizers')] : own;
}

/** Returns true if an update removes the last finalizer of an object that is being deleted. */
function isReleased(object: ApiObject, existing: ApiObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds } = getMetadata(object);
  if (deletionTimestamp === undefined || (deletionGracePeriodSeconds ?? 0) !== 0) return false;
  return getFinalizers(existing).length > 0 && getFinalizers(object).length === 0;
}
