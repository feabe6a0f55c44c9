import { isObject } from './types.ts';

/**
 * The schema of a field, which is a scalar type, the schema of list items, or the schemas of an object's fields. In a
 * map, the field `*` is the schema of every value.
 */
export type FieldShape = PlainType | readonly [FieldShape] | FieldShapes;

export interface FieldShapes {
  readonly [name: string]: FieldShape;
}

type PlainType =
  | 'any'
  | 'string'
  | 'boolean'
  | 'number'
  | 'int32'
  | 'int64'
  | 'intOrString'
  | 'quantity'
  | 'time'
  | 'microTime'
  | 'bytes';

/** The type of JSON values that have the shape. Null is treated as absent. */
export type ShapeValue<Shape> = Shape extends 'string'
  ? string
  : Shape extends 'boolean'
    ? boolean
    : Shape extends PlainType
      ? number
      : Shape extends readonly [infer Item]
        ? readonly ShapeValue<Item>[]
        : { readonly [Name in keyof Shape]?: ShapeValue<Shape[Name]> | null };

type Path = readonly (string | number)[];

/** An unknown field with the known fields of its object, or a value whose type does not match its shape. */
type ShapeError =
  | { readonly path: Path; readonly known: readonly string[] }
  | { readonly path: Path; readonly value: unknown; readonly shape: FieldShape };

/**
 * Returns unknown fields and values of the wrong type, in the order in which they occur in the object. Null is treated
 * as absent. A null list item is an error unless `nullItems` is true. Go decodes null items as the zero value.
 */
export function findShapeErrors(value: unknown, shape: FieldShape, nullItems = false): readonly ShapeError[] {
  const errors: ShapeError[] = [];
  visit(value, shape, { path: [], errors, nullItems });
  return errors;
}

interface Visit {
  readonly path: (string | number)[];
  readonly errors: ShapeError[];
  readonly nullItems: boolean;
}

function visit(value: unknown, shape: FieldShape, state: Visit): void {
  if (value == null) return;
  const { path, errors, nullItems } = state;
  const visitMember = (
    step: string | number,
    member: unknown,
    own: FieldShape | undefined,
    known: FieldShapes,
  ): void => {
    path.push(step);
    if (own === undefined) errors.push({ path: [...path], known: Object.keys(known) });
    else if (member === null && typeof step === 'number' && !nullItems)
      errors.push({ path: [...path], value: member, shape: own });
    else visit(member, own, state);
    path.pop();
  };
  if (typeof shape === 'string' && IS_OF_TYPE[shape](value)) return;
  if (typeof shape !== 'string' && isList(shape) && Array.isArray(value)) {
    for (const [index, item] of value.entries()) visitMember(index, item, shape[0], {});
  } else if (typeof shape !== 'string' && !isList(shape) && isObject(value)) {
    for (const [name, member] of Object.entries(value)) {
      visitMember(name, member, Object.hasOwn(shape, name) ? shape[name] : shape['*'], shape);
    }
  } else errors.push({ path: [...path], value, shape });
}

export function isList(shape: FieldShape): shape is readonly [FieldShape] {
  return Array.isArray(shape);
}

function isInt32(value: unknown): boolean {
  return typeof value === 'number' && (value | 0) === value;
}

function isInteger(value: unknown, max: number): boolean {
  return typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= max;
}

const QUANTITY = /^ *(?! )[-+]?\d*(?:\.\d*)?(?:[KMGTPE]i|[numkMGTPE]|[eE][-+]?\d{1,18})? *$/;

/**
 * Returns true for a value that Go parses as a quantity. Go does not require digits, and parses the text of JSON
 * numbers.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.2/pkg/api/resource/quantity.go
 */
function isQuantity(value: unknown): boolean {
  if (typeof value !== 'string' && typeof value !== 'number') return false;
  const text = String(value);
  return text.trim() !== '' && QUANTITY.test(text);
}

const TIME = /^(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):[0-5]\d:[0-5]\d([.,]\d+)?(?:Z|[-+](?:[01]\d|2[0-4]):(?:[0-5]\d|60))$/;

/**
 * Returns true for a time that Go parses in the RFC 3339 layout, with six fractional digits if `hasMicroseconds`.
 * @see https://pkg.go.dev/time#Parse
 */
function isTime(value: unknown, hasMicroseconds = false): boolean {
  const match = typeof value === 'string' ? TIME.exec(value) : null;
  if (match === null) return false;
  const [year = 0, month = 0, day = 0, hour = 0] = match.slice(1, 5).map(Number);
  const daysInMonth = new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
  const isDate = month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth && hour <= 23;
  return isDate && (!hasMicroseconds || match[5]?.length === 7);
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Returns true for a value that Go decodes as bytes, which is padded base64 (line breaks are ignored) or a list of
 * numbers.
 */
function isBytes(value: unknown): boolean {
  if (typeof value === 'string') return BASE64.test(value.replaceAll(/[\r\n]/g, ''));
  return Array.isArray(value) && value.every((item) => item == null || isByte(item));
}

function isByte(value: unknown): boolean {
  return typeof value === 'number' && (value & 0xff) === value;
}

const IS_OF_TYPE: Readonly<Record<PlainType, (value: unknown) => boolean>> = {
  any: () => true,
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  number: (value) => typeof value === 'number',
  int32: isInt32,
  // JSON.parse rounds 2^63-1 up to 2^63, so 2^63 is allowed.
  int64: (value) => isInteger(value, 2 ** 63),
  intOrString: (value) => typeof value === 'string' || isInt32(value),
  quantity: isQuantity,
  time: (value) => isTime(value),
  microTime: (value) => isTime(value, true),
  bytes: isBytes,
};

/** Describes the required type, such as `must be a 32-bit integer`. */
export function describeShape(shape: FieldShape): string {
  if (typeof shape !== 'string') return isList(shape) ? 'must be a list' : 'must be an object';
  return `must be ${NAMES[shape]}`;
}

const NAMES: Readonly<Record<PlainType, string>> = {
  any: 'a value',
  string: 'a string',
  boolean: 'a boolean',
  number: 'a number',
  int32: 'a 32-bit integer',
  int64: 'a 64-bit integer',
  intOrString: 'a 32-bit integer or a string',
  quantity: 'a quantity, such as 500m or 1Gi',
  time: 'a time in RFC 3339 format, such as 2026-01-31T15:04:05Z',
  microTime: 'a time in RFC 3339 format with microseconds, such as 2026-01-31T15:04:05.000000Z',
  bytes: 'text in base64',
};
