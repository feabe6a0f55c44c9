import { type LimitName, LIMITS } from './limits.ts';
import { printJson, quote, truncate } from './text.ts';
import { isObject } from './types.ts';

/** Titles of field errors by type. The type is also the reason in the cause of a Status. */
const TITLES = {
  FieldValueRequired: 'Required value',
  FieldValueDuplicate: 'Duplicate value',
  FieldValueInvalid: 'Invalid value',
  FieldValueNotFound: 'Not found',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueTooMany: 'Too many',
  FieldValueTypeInvalid: 'Invalid value',
  InternalError: 'Internal error',
};

type FieldErrorType = keyof typeof TITLES;

/**
 * A validation error for one field.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go
 */
export interface FieldError {
  readonly type: FieldErrorType;
  readonly path: string;
  /**
   * The invalid value. It is not printed if it is absent, or if the error is of the required, forbidden, too long or
   * internal type.
   */
  readonly value?: unknown;
  readonly detail: string;
  /** The limit that the value exceeds. */
  readonly limit?: LimitName;
}

const WITHOUT_VALUE: ReadonlySet<FieldErrorType> = new Set([
  'FieldValueRequired',
  'FieldValueForbidden',
  'FieldValueTooLong',
  'InternalError',
]);

/** Formats the error without its path, as in the causes of a Status. */
export function describeFieldError(error: FieldError): string {
  const title = TITLES[error.type];
  const hidden = WITHOUT_VALUE.has(error.type) || !Object.hasOwn(error, 'value');
  const head = hidden ? title : `${title}: ${printValue(error.value)}`;
  return error.detail === '' ? head : `${head}: ${truncate(error.detail)}`;
}

/** Formats the error with its path, such as `path: Invalid value: "x": detail`. */
export function formatFieldError(error: FieldError): string {
  return `${truncate(error.path)}: ${describeFieldError(error)}`;
}

/** Formats the errors without duplicates, in brackets if there are several. */
export function formatFieldErrors(errors: readonly FieldError[]): string {
  const texts = [...new Set(errors.map(formatFieldError))];
  return texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`;
}

export function requiredField(path: string, detail: string): FieldError {
  return { type: 'FieldValueRequired', path, detail };
}

export function invalidValue(path: string, value: unknown, detail: string): FieldError {
  return { type: 'FieldValueInvalid', path, value, detail };
}

export function duplicateValue(path: string, value: unknown): FieldError {
  return { type: 'FieldValueDuplicate', path, value, detail: '' };
}

/** Returns the error for a field that refers to an object that does not exist. */
export function notFound(path: string, value: unknown): FieldError {
  return { type: 'FieldValueNotFound', path, value, detail: '' };
}

/** Returns the error for a list that has too many items. */
export function tooMany(path: string, count: number, max: number): FieldError {
  return { type: 'FieldValueTooMany', path, value: count, detail: `must have at most ${max} items` };
}

/** Returns the error for a list or a value that exceeds one of the `LIMITS`. */
export function beyondLimit(path: string, limit: LimitName, count?: number): FieldError {
  return { ...(count === undefined ? tooLong(path, LIMITS[limit]) : tooMany(path, count, LIMITS[limit])), limit };
}

/** Returns the error for a value that has too many bytes. */
export function tooLong(path: string, maxBytes: number): FieldError {
  return { type: 'FieldValueTooLong', path, detail: `may not be more than ${maxBytes} bytes` };
}

export function forbiddenField(path: string, detail: string): FieldError {
  return { type: 'FieldValueForbidden', path, detail };
}

/** Returns the error for an unsupported value. */
export function notSupported(path: string, value: unknown, supported: readonly string[]): FieldError {
  const values = supported.map(quote).join(', ');
  return { type: 'FieldValueNotSupported', path, value, detail: values === '' ? '' : `supported values: ${values}` };
}

function printValue(value: unknown): string {
  if (typeof value === 'string') return quote(truncate(value));
  if (value == null) return 'null';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return truncate(printJson(value)).replaceAll(/[<>&\u2028\u2029]/g, escapeUnit);
}

/** Escapes a character as Go does, which makes JSON safe to embed in HTML. */
function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * Formats the error that the API server returns for a value that has the wrong type. It comes from Go's JSON decoder.
 * `field` is the name of the Go struct followed by a dot and the path, or `''` for the whole value.
 * @see https://pkg.go.dev/encoding/json#UnmarshalTypeError
 */
export function unmarshalError(value: unknown, field: string, type: string): string {
  const target = field === '' ? 'value' : `struct field ${field}`;
  // For integer types, the message includes the number.
  const found = typeof value === 'number' && type.startsWith('int') ? `number ${value}` : jsonTypeName(value);
  return `json: cannot unmarshal ${found} into Go ${target} of type ${type}`;
}

/** Returns Go's name for the JSON type: `string`, `number`, `bool`, `array`, `object` or `null`. */
function jsonTypeName(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}

/** Returns an error unless the value is an object that has the given kind or, as list items do, omits its kind. */
export function findKindError(value: unknown, kind: string, path = ''): FieldError | undefined {
  if (!isObject(value)) return invalidValue(path, value, 'must be an object');
  const { kind: found } = value;
  if (found == null || found === kind) return undefined;
  return notSupported(path === '' ? 'kind' : `${path}.kind`, found, [kind]);
}
