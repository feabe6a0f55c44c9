/** Creates, updates, patches and deletes objects. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { invalidValue } from '../kube/field-error.ts';
import { alreadyExists, ApiError, badRequest, conflict, createStatus, invalid, notFound } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import { requireAccess } from './access.ts';
import type { ObjectResult } from './attributes.ts';
import {
  APPLY,
  completeFields,
  createOwnership,
  matchName,
  matchNamespace,
  mediaType,
  readBody,
  readWriteOptions,
  trackFields,
  unsupportedMediaType,
  type WriteParameters,
} from './body.ts';
import { type Call, type Core, createAttributes } from './call.ts';
import { applyConfiguration } from './fields/apply.ts';
import { decodeAppliedObject } from './fields/decode.ts';
import { keepTimes } from './fields/managed-fields.ts';
import { applyPatch, type PatchMediaType } from './fields/patch.ts';
import { randomSuffix, SUFFIX_LENGTH } from './generated-name.ts';
import type { ServedResource } from './resource-info.ts';
import { storageKey, toServed, toStored } from './resources.ts';
import { type ApiObject, editMetadata, getMetadata, textAt, textsAt } from './types.ts';

/** Creates an object. Throws ApiError. */
export async function create(core: Core, call: Call): Promise<ObjectResult> {
  const options = readWriteOptions(call.query);
  const object = decodeNew(core, call, options);
  return { kind: 'object', code: 201, object: await createObject(core, call, object, options), info: call.info };
}

const SERVER_FIELDS = ['uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds', 'selfLink'];

/** Decodes a new object, drops the fields that only the server sets, and assigns field ownership. */
export function decodeNew(core: Core, call: Call, options: WriteParameters): ApiObject {
  const object = readBody(call, options.fieldValidation);
  const metadata = editMetadata(object);
  for (const field of SERVER_FIELDS) Reflect.deleteProperty(metadata, field);
  trackFields(core, call, options, object);
  return object;
}

/**
 * Admits, defaults, validates and stores a new object. The order of the steps determines which error is returned.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/handlers/create.go
 */
async function createObject(core: Core, call: Call, decoded: ApiObject, options: WriteParameters): Promise<ApiObject> {
  const { info, context } = call;
  const change = { operation: 'CREATE', options: options.toObject('CreateOptions'), dryRun: options.dryRun } as const;
  const object =
    (await core.admission.mutate(createAttributes(call, { ...change, object: decoded }), context)) ?? decoded;
  completeNew(core, call, object);
  await core.admission.validate(createAttributes(call, { ...change, object }), context);
  const { resourceVersion = '', name = '' } = getMetadata(object);
  if (resourceVersion !== '') {
    throw new ApiError(
      createStatus(500, 'InternalError', 'resourceVersion should not be set on objects to be created'),
    );
  }
  const key = storageKey(info);
  if (options.dryRun && !core.storage.get(key, call.scope, name)) return object;
  const stored = options.dryRun ? undefined : core.storage.create(key, toStored(info, object));
  if (!stored) throw nameTaken(core, call, name);
  return toServed(info, stored);
}

/** Sets the server-side fields of a new object and validates it. */
function completeNew(core: Core, call: Call, object: ApiObject): void {
  const { info, context } = call;
  const metadata = editMetadata(object);
  metadata['creationTimestamp'] = formatTimestamp(core.clock().getTime());
  metadata['uid'] = randomUUID();
  const { name = '', generateName = '' } = getMetadata(object);
  if (name === '' && generateName !== '') metadata['name'] = freeName(core, call, generateName);
  // Checks the namespace again, because a webhook may have changed it.
  matchNamespace(object, call.scope);
  info.strategy.prepareForCreate(object);
  const errors = info.strategy.validateCreate(object);
  if (errors.length > 0) throw new ApiError(invalid(info, getMetadata(object).name ?? '', errors));
  info.strategy.warnings(object).forEach(context.warn);
}

function freeName(core: Core, { info, scope }: Call, generateName: string): string {
  for (;;) {
    const name = generateName.slice(0, 63 - SUFFIX_LENGTH) + randomSuffix();
    if (!core.storage.get(storageKey(info), scope, name)) return name;
  }
}

function nameTaken(core: Core, call: Call, name: string): ApiError {
  const status = alreadyExists(call.info, name);
  const existing = core.storage.get(storageKey(call.info), call.scope, name);
  const isDeleting = getMetadata(existing).deletionTimestamp !== undefined;
  return new ApiError(isDeleting ? { ...status, message: `object is being deleted: ${status.message}` } : status);
}

interface ObjectChange {
  readonly options: WriteParameters;
  /** Returns the new object. Called again if another request has changed the object in the meantime. */
  next(existing: ApiObject | undefined): ApiObject;
}

/** Replaces an object, or the part of it that belongs to a subresource. */
export async function update(core: Core, call: Call): Promise<ObjectResult> {
  const options = readWriteOptions(call.query);
  const sent = readBody(call, options.fieldValidation);
  matchName(sent, call.name);
  return changeObject(core, call, {
    options,
    next(existing) {
      if (!existing) throw new ApiError(notFound(call.info, call.name));
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
  const options = readWriteOptions(call.query);
  const next = type === APPLY ? applied(core, call, options) : patched(core, call, options, type as PatchMediaType);
  return changeObject(core, call, { options, next });
}

function patched(core: Core, call: Call, options: WriteParameters, mediaType: PatchMediaType): ObjectChange['next'] {
  return (existing) => {
    if (!existing) throw new ApiError(notFound(call.info, call.name));
    const object = applyPatch(existing, call.body, mediaType, call.info.schema);
    completeFields(call, object, options.fieldValidation);
    trackFields(core, call, options, object, existing);
    return object;
  };
}

function applied(core: Core, call: Call, options: WriteParameters): ObjectChange['next'] {
  const { fieldManager, fieldValidation, force } = options;
  const config = decodeAppliedObject(call.body);
  return (existing) => {
    const ownership = createOwnership(core, call, fieldManager);
    const live = existing ? { live: existing } : {};
    const object = applyConfiguration({ ...ownership, ...live, config, force });
    completeFields(call, object, fieldValidation);
    return object;
  };
}

/**
 * Changes a stored object. Retries if another request changes it in the meantime.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/registry/generic/registry/store.go (Update)
 */
async function changeObject(core: Core, call: Call, change: ObjectChange): Promise<ObjectResult> {
  for (;;) {
    const raw = core.storage.get(storageKey(call.info), call.scope, call.name);
    const result = raw ? await changeExisting(core, call, change, raw) : await createMissing(core, call, change);
    if (result) return result;
  }
}

/** Creates the object. Returns `undefined` if another request has created it in the meantime. */
async function createMissing(core: Core, call: Call, change: ObjectChange): Promise<ObjectResult | undefined> {
  const { info, user, namespace, name } = call;
  if (call.subresource) throw new ApiError(notFound(info, name));
  const object = matched(call, change.next(undefined));
  requireAccess(core.access, user, { verb: 'create', apiGroup: info.group, resource: info.resource, name, namespace });
  try {
    return { kind: 'object', code: 201, object: await createObject(core, call, object, change.options), info };
  } catch (error) {
    if (core.storage.get(storageKey(info), call.scope, name)) return undefined;
    throw error;
  }
}

/** Changes an existing object. Returns `undefined` if another request has changed it in the meantime. */
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

function store(core: Core, info: ServedResource, raw: ApiObject, object: ApiObject, old: ApiObject) {
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

/**
 * Checks the resource version. Throws ApiError 409 for an outdated version. Built-in resources accept updates that set
 * no version.
 */
function requireVersion(info: ServedResource, object: ApiObject, existing: ApiObject): void {
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
  // Checks the namespace again, because a webhook may have changed it.
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

/** Returns an object's finalizers, including those in the `spec` of a Namespace. */
function getFinalizers(object: ApiObject): readonly string[] {
  const own = getMetadata(object).finalizers ?? [];
  return object.kind === 'Namespace' ? [...own, ...textsAt(object, 'spec', 'finalizers')] : own;
}

/** Returns true if an update removes the last finalizer of a terminating object. */
function isReleased(object: ApiObject, existing: ApiObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds } = getMetadata(object);
  if (deletionTimestamp === undefined || (deletionGracePeriodSeconds ?? 0) !== 0) return false;
  return getFinalizers(existing).length > 0 && getFinalizers(object).length === 0;
}

type DeleteOptions = ReturnType<typeof readDeleteOptions>;

/**
 * Reads the deletion options from the body or, without a body, from the query. Ignores the propagation policy, because
 * there is no garbage collection. Throws ApiError 400.
 */
function readDeleteOptions({ body, query }: Call) {
  const isInQuery = body.trim() === '';
  const sent = isInQuery ? (query.has('dryRun') ? { dryRun: query.getAll('dryRun') } : {}) : parseOptions(body);
  const dryRun = textsAt(sent, 'dryRun');
  return {
    dryRun: dryRun.length > 0,
    /** UID and resource version that the object must have. Empty if any value is accepted. */
    uid: textAt(sent, 'preconditions', 'uid'),
    resourceVersion: textAt(sent, 'preconditions', 'resourceVersion'),
    /** The options object that webhooks receive. */
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

/** Result of a deletion. An object that has finalizers is not removed immediately. */
interface Deletion {
  readonly object: ApiObject;
  readonly removed: boolean;
}

/** Resources whose deletion returns the object instead of a Status. */
const RETURNED = ['pods', 'podtemplates', 'services', 'serviceaccounts', 'persistentvolumes', 'resourcequotas'];

/** Deletes an object, or marks it as terminating while it has finalizers. */
export async function remove(core: Core, call: Call): Promise<ObjectResult> {
  const { info } = call;
  const { object, removed } = await removeObject(core, call, readDeleteOptions(call));
  const isReturned = !removed || (info.group === '' && RETURNED.includes(info.resource));
  return { kind: 'object', code: 200, ...(isReturned ? { object, info } : { object: successStatus(info, object) }) };
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
    const result = dryRun ? deletion : storeDeletion(core, info, raw, deletion);
    if (result) return result;
  }
}

/** Plans the deletion of an object. Pods and Namespaces are marked as terminating even if they have no finalizers. */
function createDeletion(core: Core, info: ServedResource, existing: ApiObject): Deletion {
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

/** Removes the object, or stores it as terminating. Returns `undefined` if another request has changed it. */
function storeDeletion(
  core: Core,
  info: ServedResource,
  raw: ApiObject,
  { object, removed }: Deletion,
): Deletion | undefined {
  const key = storageKey(info);
  if (!removed && object === raw) return { object, removed };
  const last = toStored(info, object);
  const stored = removed ? core.storage.remove(key, raw, last) : core.storage.replace(key, raw, last);
  return stored && { object: toServed(info, stored), removed };
}

function requirePreconditions({ info, name }: Call, options: DeleteOptions, existing: ApiObject): void {
  const { uid, resourceVersion } = getMetadata(existing);
  const fail = (field: string, sent: string, own = ''): never => {
    const cause = `the ${field} in the precondition (${sent}) does not match the ${field} in record (${own})`;
    throw new ApiError(conflict({ group: info.group, resource: info.kind }, name, cause));
  };
  if (options.uid !== '' && options.uid !== uid) fail('UID', options.uid, uid);
  if (options.resourceVersion !== '' && options.resourceVersion !== resourceVersion) {
    fail('ResourceVersion', options.resourceVersion, resourceVersion);
  }
}

function successStatus({ group, resource }: ServedResource, object: ApiObject): ApiObject {
  const { name, uid } = getMetadata(object);
  const details = { name, ...(group === '' ? {} : { group }), kind: resource, uid };
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details };
}
