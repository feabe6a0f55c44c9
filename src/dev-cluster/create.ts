import { alreadyExists, ApiError, invalid } from '../kube/status.ts';
import { attributesOf } from './attributes.ts';
import { applyDefaults, readBody } from './body.ts';
import type { ApiResult, Call, Core } from './core.ts';
import { refuseEscalation } from './escalation.ts';
import { fillSystemFields, matchNamespace, wipeSystemFields } from './metadata.ts';
import { readWriteOptions, type WriteOptions } from './options.ts';
import { track } from './tracking.ts';
import { metadataOf, type ApiObject } from './types.ts';
import { present, storageKey, toStored } from './views.ts';

/**
 * Creates an object, in the order of the API server: whichever step fails first words the answer.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/handlers/create.go
 */
export async function create(core: Core, call: Call): Promise<ApiResult> {
  const options = readWriteOptions(call.query, 'CreateOptions');
  const object = decodeNew(core, call, options);
  track(core, call, options.fieldManager, object);
  const created = await createObject(core, call, object, options);
  return { kind: 'object', code: 201, object: created, info: call.info };
}

/** Reads a new object from the body, with defaults and without what only the server sets. */
export function decodeNew(core: Core, call: Call, options: WriteOptions): ApiObject {
  const object = readBody(core, call, options.fieldValidation);
  applyDefaults(call, object);
  wipeSystemFields(object);
  matchNamespace(object, call.scope);
  return object;
}

/** Admits, completes, checks and stores a new object. */
export async function createObject(
  core: Core,
  call: Call,
  decoded: ApiObject,
  options: WriteOptions,
): Promise<ApiObject> {
  const { info, context } = call;
  const subject = { operation: 'CREATE', options: options.as('CreateOptions'), dryRun: options.dryRun } as const;
  const object = (await core.admission.mutate(attributesOf(call, { ...subject, object: decoded }), context)) ?? decoded;
  refuseEscalation(core, call, object);
  completeNew(core, call, object);
  await core.admission.validate(attributesOf(call, { ...subject, object }), context);
  const { resourceVersion = '' } = metadataOf(object);
  if (resourceVersion !== '') {
    const message = 'resourceVersion should not be set on objects to be created';
    throw new ApiError({ metadata: {}, status: 'Failure', message, code: 500 });
  }
  const name = metadataOf(object).name ?? '';
  const key = storageKey(info);
  if (options.dryRun && !core.storage.get(key, call.scope, name)) return object;
  const stored = options.dryRun ? undefined : core.storage.create(key, toStored(info, object));
  if (!stored) throw takenName(core, call, name);
  return present(info, stored);
}

/** Gives a new object what the server sets, then checks it. */
function completeNew(core: Core, call: Call, object: ApiObject): void {
  const { info, context } = call;
  const taken = (name: string): boolean => core.storage.get(storageKey(info), call.scope, name) !== undefined;
  fillSystemFields(object, core.clock(), taken);
  // A webhook may have changed it.
  matchNamespace(object, call.scope);
  info.strategy.prepareForCreate(object);
  const errors = info.strategy.validateCreate(object);
  if (errors.length > 0) throw new ApiError(invalid(info, metadataOf(object).name ?? '', errors));
  for (const warning of info.strategy.warnings(object)) context.warn(warning);
}

function takenName(core: Core, call: Call, name: string): ApiError {
  const status = alreadyExists(call.info, name);
  const existing = core.storage.get(storageKey(call.info), call.scope, name);
  const leaving = metadataOf(existing).deletionTimestamp !== undefined;
  return new ApiError(leaving ? { ...status, message: `object is being deleted: ${status.message}` } : status);
}
