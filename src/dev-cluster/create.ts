import { randomInt, randomUUID } from 'node:crypto';
import { alreadyExists, ApiError, createStatus, invalid } from '../kube/status.ts';
import { formatTimestamp } from '../kube/units.ts';
import { matchNamespace, readBody, readWriteOptions, trackFields, type WriteOptions } from './body.ts';
import { createAttributes, type Call, type Core, type ObjectResult } from './request.ts';
import { storageKey, toServed, toStored } from './resources.ts';
import { editMetadata, getMetadata, type ApiObject } from './types.ts';

/** Creates an object. Throws ApiError. */
export async function create(core: Core, call: Call): Promise<ObjectResult> {
  const options = readWriteOptions(call.query, 'CreateOptions');
  const object = decodeNew(core, call, options);
  return { kind: 'object', code: 201, object: await createObject(core, call, object, options), info: call.info };
}

const SERVER_FIELDS = ['uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds', 'selfLink'];

/** Decodes a new object without the fields that only the server sets, and assigns the ownership of its fields. */
export function decodeNew(core: Core, call: Call, options: WriteOptions): ApiObject {
  const object = readBody(call, options.fieldValidation);
  const metadata = editMetadata(object);
  for (const field of SERVER_FIELDS) Reflect.deleteProperty(metadata, field);
  trackFields(core, call, options, object);
  return object;
}

/**
 * Admits, completes, validates and stores a new object. The order of the steps determines which error is returned.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/handlers/create.go
 */
export async function createObject(
  core: Core,
  call: Call,
  decoded: ApiObject,
  options: WriteOptions,
): Promise<ApiObject> {
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

/** Sets the fields of a new object that the server sets, and validates it. */
function completeNew(core: Core, call: Call, object: ApiObject): void {
  const { info, context } = call;
  const metadata = editMetadata(object);
  metadata['creationTimestamp'] = formatTimestamp(core.clock().getTime());
  metadata['uid'] = randomUUID();
  const { name = '', generateName = '' } = getMetadata(object);
  if (name === '' && generateName !== '') metadata['name'] = freeName(core, call, generateName);
  // A webhook can have changed the namespace.
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

/** The characters of generated names: no vowels, and none that are easily confused. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789';
const SUFFIX_LENGTH = 5;

/** Returns the random suffix of a generated name. */
export function randomSuffix(): string {
  return Array.from({ length: SUFFIX_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}

function nameTaken(core: Core, call: Call, name: string): ApiError {
  const status = alreadyExists(call.info, name);
  const existing = core.storage.get(storageKey(call.info), call.scope, name);
  const isDeleting = getMetadata(existing).deletionTimestamp !== undefined;
  return new ApiError(isDeleting ? { ...status, message: `object is being deleted: ${status.message}` } : status);
}
