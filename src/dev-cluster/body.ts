import { ApiError, badRequest, createStatus } from '../kube/status.ts';
import { quote } from '../kube/text.ts';
import type { Call, Core } from './call.ts';
import { decodeBody } from './fields/decode.ts';
import { fieldManagerName, trackUpdate } from './fields/managed-fields.ts';
import { type ApiObject, editMetadata, getMetadata } from './types.ts';

export const APPLY = 'application/apply-patch+yaml';

/** Query parameters of a create, update or patch. */
export type WriteParameters = ReturnType<typeof readWriteOptions>;

/** Parses the query of a write. The only supported dry-run value is `All`. */
export function readWriteOptions(query: URLSearchParams) {
  const dryRun = query.getAll('dryRun');
  const fieldManager = query.get('fieldManager') ?? '';
  const fieldValidation = query.get('fieldValidation') ?? '';
  const sent = {
    ...(dryRun.length > 0 ? { dryRun } : {}),
    ...(fieldManager === '' ? {} : { fieldManager }),
    ...(fieldValidation === '' ? {} : { fieldValidation }),
  };
  return {
    dryRun: dryRun.length > 0,
    fieldManager,
    /** Determines how unknown fields are handled (`Ignore`, `Warn` or `Strict`). */
    fieldValidation: fieldValidation === '' ? 'Warn' : fieldValidation,
    /** True if a server-side apply takes over fields from other managers. */
    force: readBoolean(query, 'force'),
    /** Returns the options object that webhooks receive. */
    toObject: (name: 'CreateOptions' | 'UpdateOptions'): ApiObject => ({
      kind: name,
      apiVersion: 'meta.k8s.io/v1',
      ...sent,
    }),
  };
}

/** Reads a boolean parameter. A parameter that has no value is true. */
export function readBoolean(query: URLSearchParams, name: string): boolean {
  const value = query.get(name);
  return value !== null && value.toLowerCase() !== 'false' && value !== '0';
}

/** Reads an integer parameter. Returns `undefined` if it is absent. Throws ApiError 400 for invalid values. */
export function readInteger(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name);
  if (value === null || value === '') return undefined;
  if (/^[+-]?\d+$/.test(value)) return Number(value);
  throw new ApiError(badRequest(`strconv.ParseInt: parsing ${quote(value)}: invalid syntax`));
}

/** Returns a media type without its parameters. */
export function mediaType(contentType: string): string {
  return (contentType.split(';')[0] ?? '').trim().toLowerCase();
}

export function unsupportedMediaType(accepted: readonly string[]): ApiError {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`;
  return new ApiError(createStatus(415, 'UnsupportedMediaType', message));
}

/** Accepted media types. The server has already decoded protobuf at this point. */
const READABLE = ['application/json', 'application/vnd.kubernetes.protobuf'];

/** Decodes the body of a create or update and sets defaults. Throws ApiError 400 or 415. */
export function readBody(call: Call, fieldValidation: string): ApiObject {
  const contentType = mediaType(call.contentType) || 'application/json';
  if (!READABLE.includes(contentType)) throw unsupportedMediaType(READABLE);
  const object = decodeBody(call.body, call.info);
  completeFields(call, object, fieldValidation);
  matchNamespace(object, call.scope);
  return object;
}

/** Reports and removes unknown fields, and sets defaults. In strict mode, throws ApiError 400 for unknown fields. */
export function completeFields(call: Call, object: ApiObject, fieldValidation: string): void {
  const { kind, version, strategy } = call.info;
  const errors = strategy.prune(object).map((path) => `unknown field ${quote(path)}`);
  if (errors.length > 0 && fieldValidation === 'Strict') {
    const subject = `${kind} in version ${quote(version)} cannot be handled as a ${kind}`;
    throw new ApiError(badRequest(`${subject}: strict decoding error: ${errors.join(', ')}`));
  }
  if (fieldValidation === 'Warn') errors.forEach(call.context.warn);
  strategy.defaults(object);
}

/** Sets the object's namespace to that of the request. Throws ApiError 400 if the object has a different namespace. */
export function matchNamespace(object: ApiObject, namespace: string): void {
  const own = getMetadata(object).namespace ?? '';
  if (own === namespace) return;
  const metadata = editMetadata(object);
  if (namespace === '') Reflect.deleteProperty(metadata, 'namespace');
  else if (own === '') metadata['namespace'] = namespace;
  else {
    const message = 'the namespace of the provided object does not match the namespace sent on the request';
    throw new ApiError(badRequest(message));
  }
}

/** Checks the name of an object. Throws ApiError 400 if it does not match the URL. */
export function matchName(object: ApiObject, name: string): void {
  const own = getMetadata(object).name ?? '';
  if (own === name) return;
  const message =
    own === ''
      ? `the name of the object (${name} based on URL) was undeterminable: name must be provided`
      : `the name of the object (${own}) does not match the name on the URL (${name})`;
  throw new ApiError(badRequest(message));
}

/** Returns the field manager of a request and the fields that it can own. */
export function createOwnership(core: Core, call: Call, fieldManager: string) {
  return {
    resource: call.info,
    subresource: call.subresource?.name ?? '',
    manager: fieldManagerName(fieldManager, call.userAgent),
    now: core.clock(),
  };
}

/** Updates `metadata.managedFields` of an object that a request creates or changes. */
export function trackFields(
  core: Core,
  call: Call,
  options: WriteParameters,
  object: ApiObject,
  live?: ApiObject,
): void {
  trackUpdate({ ...createOwnership(core, call, options.fieldManager), object, ...(live ? { live } : {}) });
}
