/**
 * Decodes request bodies. Unlike the API server, it checks only the types of metadata fields, and keeps unknown fields.
 */
import { defined } from '../../kube/defined.ts';
import { unmarshalError } from '../../kube/field-error.ts';
import { metadataProblem } from '../../kube/names.ts';
import { formatApiVersion, parseApiVersion } from '../../kube/resources.ts';
import { ApiError, badRequest } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { type GroupVersionKind, isObject } from '../../kube/types.ts';
import { type ApiObject, textAt } from '../types.ts';
import type { Schema } from './schema.ts';

interface Decoding {
  readonly object: ApiObject;
  /** The error in the wording of Go's JSON decoder. */
  readonly error?: string;
}

/** Returns an ApiError 500 without a reason, which is the API server's response to an error that has no Status. */
export function plainError(message: string): ApiError {
  return new ApiError({ metadata: {}, status: 'Failure', message, code: 500 });
}

/**
 * Decodes a request body as an object of a kind. Throws ApiError 400.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
 */
export function decodeBody(text: string, { schema, ...expected }: GroupVersionKind & { schema: Schema }): ApiObject {
  const parsed = parseJson(text);
  const sent = 'error' in parsed ? parsed : readKind(parsed.value, expected);
  if ('error' in sent) {
    const subject = `the object provided is unrecognized (must be of type ${expected.kind})`;
    throw new ApiError(badRequest(`${subject}: ${sent.error}`));
  }
  const decoding = decodeValue('value' in parsed ? parsed.value : {}, schema);
  const error = findKindError(sent, expected) ?? decoding.error;
  if (error !== undefined) {
    const subject = `${sent.kind} in version ${quote(sent.version)} cannot be handled as a ${expected.kind}`;
    throw new ApiError(badRequest(`${subject}: ${error}`));
  }
  const typeMeta = { kind: sent.kind, apiVersion: formatApiVersion(sent) };
  return Object.assign({ ...typeMeta }, decoding.object, typeMeta);
}

/**
 * Decodes the body of a server-side apply, which kubectl sends as JSON. Throws ApiError 400.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go
 */
export function decodeAppliedObject(text: string): ApiObject {
  const parsed = parseJson(text);
  if ('error' in parsed) throw new ApiError(badRequest(`error decoding YAML: ${parsed.error}`));
  const { value } = parsed;
  const error = isObject(value) ? findTypeError(value) : unmarshalError(value, '', 'map[string]interface {}');
  if (error !== undefined) throw new ApiError(badRequest(`error decoding YAML: ${error}`));
  return value as ApiObject;
}

type Parsed = { readonly value: unknown } | { readonly error: string };

function parseJson(text: string): Parsed {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: `couldn't get version/kind; json parse error: ${(error as Error).message}` };
  }
}

/** Returns the API version and kind of a body, which default to those of the URL. */
function readKind(value: unknown, expected: GroupVersionKind): GroupVersionKind | { readonly error: string } {
  if (value !== null && !isObject(value)) {
    return { error: `couldn't get version/kind; json parse error: ${unmarshalError(value, '', 'struct')}` };
  }
  const { group, version } = parseApiVersion(textAt(value, 'apiVersion'));
  const kind = textAt(value, 'kind') || expected.kind;
  return version === '' ? { ...expected, kind } : { group, version, kind };
}

function findKindError(sent: GroupVersionKind, expected: GroupVersionKind): string | undefined {
  const isExpected = (['group', 'version', 'kind'] as const).every((field) => sent[field] === expected[field]);
  if (isExpected) return undefined;
  return `no kind ${quote(sent.kind)} is registered for version ${quote(formatApiVersion(sent))} in scheme "pkg/api/legacyscheme/scheme.go:30"`;
}

/**
 * Normalizes parsed JSON in the same way as decoding into Go structs. Drops `null` fields, empty lists and empty maps,
 * and converts quantities to strings. In custom resources, drops only `null` fields, unless the schema allows them.
 */
export function decodeValue(value: unknown, schema: Schema): Decoding {
  if (!isObject(value)) return { object: {}, error: unmarshalError(value, '', 'map[string]interface {}') };
  if (isTooDeep(value, 0)) return { object: {}, error: 'exceeded max depth' };
  const object = normalize(value, schema, '') as ApiObject;
  const error = findTypeError(object);
  return { object, ...defined({ error }) };
}

/** Maximum nesting depth, so recursive functions do not overflow the stack. Go's limit is 10,000. */
const MAX_DEPTH = 500;

function isTooDeep(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return depth > MAX_DEPTH || Object.values(value).some((member) => isTooDeep(member, depth + 1));
}

/** Fields that contain maps from resource names to quantities. */
const QUANTITIES = new Set(['limits', 'requests', 'overhead', 'capacity', 'allocatable', 'hard', 'used']);
/** Fields that are maps with `omitempty` in Go. */
const MAPS = new Set([...QUANTITIES, 'labels', 'annotations', 'matchLabels', 'nodeSelector', 'data', 'binaryData']);

/** Returns the normalized value, or `undefined` to drop it. `name` is the field that contains the value. */
function normalize(value: unknown, schema: Schema, name: string): unknown {
  if (typeof value !== 'object' || value === null) {
    return value === null && schema.nullable !== true ? undefined : value;
  }
  const isCustom = schema.nullable !== undefined;
  if (Array.isArray(value)) {
    if (value.length === 0 && !isCustom) return undefined;
    return value.map((item) => normalize(item, schema.item(), '') ?? null);
  }
  const entries = Object.entries(value).flatMap(([field, member]): [string, unknown][] => {
    if (QUANTITIES.has(name) && typeof member === 'number' && !isCustom) return [[field, String(member)]];
    const normalized = normalize(member, schema.field(field), field);
    return normalized === undefined ? [] : [[field, normalized]];
  });
  return entries.length === 0 && MAPS.has(name) && !isCustom ? undefined : Object.fromEntries(entries);
}

/** Returns the error for the first metadata field that has the wrong type. */
function findTypeError({ metadata }: { readonly metadata?: unknown }): string | undefined {
  if (metadata == null) return undefined;
  if (!isObject(metadata)) return unmarshalError(metadata, '.metadata', 'v1.ObjectMeta');
  return metadataProblem(metadata)?.message;
}
