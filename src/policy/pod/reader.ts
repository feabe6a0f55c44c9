/**
 * Reads typed values from unvalidated JSON. The first value that has the wrong type is recorded as a field error, along
 * with the message that Go's decoder would return. Reading continues with the zero value, so decoders need no error
 * handling.
 */
import {
  beyondLimit,
  type FieldError,
  formatFieldError,
  invalidValue,
  unmarshalError,
} from '../../kube/field-error.ts';
import { type LimitName, LIMITS } from '../../kube/limits.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';

/** A field that has the wrong type, or a list that has too many elements. */
export interface DecodeError {
  /**
   * The field path with indexes, such as `spec.containers[0].securityContext.privileged`, and a detail such as `must be
   * a boolean`.
   */
  readonly field: FieldError;
  /** The API server's decoding error, such as `json: cannot unmarshal string into Go struct field … of type bool`. */
  readonly message: string;
}

/** State shared by all sources of one object. */
interface DecodeState {
  /** The first error. Values that are read after an error have the correct type but are meaningless. */
  error: DecodeError | undefined;
  /** Path of the first null in a list of objects, strings or integers. Null is read as the zero value, as in Go. */
  nullElement: string | undefined;
  /** Path of the first null in a list of objects. */
  nullObject: string | undefined;
  /** Total number of list elements read so far. Exceeding LIMITS.podItems is an error. */
  items: number;
}

/**
 * A JSON object to read from, and its position. Paths are computed from the chain of parents only if there is an error.
 */
export interface DecodeSource {
  readonly json: JsonObject;
  readonly state: DecodeState;
  /** Name of the Go type for error messages, such as `Container`. */
  readonly struct: string;
  /** The object that contains this object. `undefined` for the root object. */
  readonly parent: DecodeSource | undefined;
  /** Field name in the parent. Empty for the root object. */
  readonly key: string;
  /** Index in a list, or `undefined` if the source is not in a list. */
  readonly index: number | undefined;
}

/** A type as it appears in Go's decoding errors and in field errors. */
interface ExpectedType {
  /** The name without its package, such as `Container` or `bool`. */
  readonly go: string;
  readonly text: string;
}

const NO_FIELDS: JsonObject = {};
const NO_STRINGS: Readonly<Record<string, string>> = {};
const NO_ITEMS: readonly never[] = [];
const MAX_INT64 = 2 ** 63;

const OBJECT = 'an object';
const BOOLEAN: ExpectedType = { go: 'bool', text: 'a boolean' };
const STRING: ExpectedType = { go: 'string', text: 'a string' };
const INT32: ExpectedType = { go: 'int32', text: 'an integer' };
const INT64: ExpectedType = { go: 'int64', text: 'an integer' };
const STRING_MAP: ExpectedType = { go: 'map[string]string', text: OBJECT };

export function createSource(json: JsonObject, struct: string): DecodeSource {
  const state: DecodeState = { error: undefined, nullElement: undefined, nullObject: undefined, items: 0 };
  return { json, state, struct, parent: undefined, key: '', index: undefined };
}

/** Reads a boolean. Returns `undefined` if it is absent, null or of the wrong type. */
export function booleanAt(source: DecodeSource, key: string): boolean | undefined {
  const value = source.json[key];
  if (typeof value === 'boolean') return value;
  if (value != null) reportType(source, key, value, BOOLEAN);
  return undefined;
}

/** Reads a string. Returns `''` if it is absent, null or of the wrong type. Set `type` if Go uses a named type. */
export function stringAt(source: DecodeSource, key: string, type?: string): string {
  return optionalStringAt(source, key, type) ?? '';
}

/** Like `stringAt`, but returns `undefined` for an absent or null string. */
export function optionalStringAt(source: DecodeSource, key: string, type?: string): string | undefined {
  const value = source.json[key];
  if (typeof value === 'string') return value;
  if (value == null) return undefined;
  reportType(source, key, value, type === undefined ? STRING : { ...STRING, go: type });
  return '';
}

/** Reads a 32-bit integer. Returns `undefined` if it is absent, null or of the wrong type. */
export function int32At(source: DecodeSource, key: string): number | undefined {
  const value = source.json[key];
  if (typeof value === 'number' && (value | 0) === value) return value;
  if (value != null) reportType(source, key, value, INT32);
  return undefined;
}

/** Reads a 64-bit integer. Returns `undefined` if it is absent, null or of the wrong type. */
export function int64At(source: DecodeSource, key: string): number | undefined {
  const value = source.json[key];
  if (isInt64(value)) return value;
  if (value != null) reportType(source, key, value, INT64);
  return undefined;
}

/** Returns true for a 64-bit integer. JSON.parse rounds 2^63-1 up to 2^63, so 2^63 is allowed. */
function isInt64(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= MAX_INT64;
}

/**
 * Returns the object as a source, or `undefined` if it is absent, null or of the wrong type. `struct` is its Go type.
 */
export function objectAt(source: DecodeSource, key: string, struct: string): DecodeSource | undefined {
  const value = source.json[key];
  if (isObject(value)) return { json: value, state: source.state, struct, parent: source, key, index: undefined };
  if (value != null) reportType(source, key, value, { go: struct, text: OBJECT });
  return undefined;
}

/** Returns the elements of a list of objects. Reads a null element as an empty object. */
export function objectsAt(source: DecodeSource, key: string, struct: string): readonly DecodeSource[] {
  const list = listAt(source, key, struct);
  if (list.length === 0) return NO_ITEMS;
  const sources: DecodeSource[] = [];
  for (const item of list) {
    const index = sources.length;
    if (!isObject(item)) reportElement(source, { key, item, index }, { go: struct, text: OBJECT });
    const json = isObject(item) ? item : NO_FIELDS;
    sources.push({ json, state: source.state, struct, parent: source, key, index });
  }
  return sources;
}

/**
 * Returns the elements of a list of strings. Reads a null element as an empty string. `type` is the elements' Go type.
 */
export function stringsAt(source: DecodeSource, key: string, type = 'string'): readonly string[] {
  const list = listAt(source, key, type);
  if (list.every((item) => typeof item === 'string')) return list;
  return list.map((item, index) => {
    if (typeof item === 'string') return item;
    reportElement(source, { key, item, index }, { go: type, text: 'a string' });
    return '';
  });
}

/** Returns the elements of a list of integers. Reads a null element as 0. */
export function int64sAt(source: DecodeSource, key: string): readonly number[] {
  const list = listAt(source, key, 'int64');
  if (list.every(isInt64)) return list;
  return list.map((item, index) => {
    if (isInt64(item)) return item;
    reportElement(source, { key, item, index }, INT64);
    return 0;
  });
}

function listAt(source: DecodeSource, key: string, type: string): readonly unknown[] {
  const value = source.json[key];
  if (value == null) return NO_ITEMS;
  if (!Array.isArray(value)) {
    reportType(source, key, value, { go: `[]${qualifiedType(type)}`, text: 'a list' });
    return NO_ITEMS;
  }
  const { state } = source;
  state.items += value.length;
  if (state.items <= LIMITS.podItems) return value;
  reportTooMany(source, key, 'podItems', state.items);
  return NO_ITEMS;
}

/** Returns a map of strings, such as labels or annotations. Reads a null value as an empty string. */
export function stringMapAt(source: DecodeSource, key: string): Readonly<Record<string, string>> {
  const map = source.json[key];
  if (!isObject(map)) {
    if (map != null) reportType(source, key, map, STRING_MAP);
    return NO_STRINGS;
  }
  let isPlain = true;
  for (const name in map) {
    const value = map[name];
    if (typeof value === 'string') continue;
    isPlain = false;
    if (value != null) reportType(source, key, value, STRING, name);
  }
  if (isPlain) return map as Readonly<Record<string, string>>;
  return Object.fromEntries(Object.entries(map).map(([name, value]) => [name, typeof value === 'string' ? value : '']));
}

/** Returns the path of an object, such as `spec.containers[0]`, or an empty string for the root object. */
function sourcePath({ parent, key, index }: DecodeSource): string {
  if (parent === undefined) return '';
  return index === undefined ? memberPath(parent, key) : elementPath(parent, key, index);
}

/** Records an error for a list with too many elements, unless the object already has an error. */
export function reportTooMany(source: DecodeSource, key: string, limit: LimitName, count: number): void {
  const field = beyondLimit(memberPath(source, key), limit, count);
  source.state.error ??= { field, message: formatFieldError(field) };
}

function reportElement(
  source: DecodeSource,
  { key, item, index }: { key: string; item: unknown; index: number },
  type: ExpectedType,
): void {
  const { state } = source;
  if (item != null) {
    reportType(source, key, item, type, index);
    return;
  }
  state.nullElement ??= elementPath(source, key, index);
  if (type.text === OBJECT) state.nullObject ??= elementPath(source, key, index);
}

/**
 * Records an error for a value that has the wrong type, unless the object already has an error. `element` is the
 * value's index or key in the field.
 */
function reportType(
  source: DecodeSource,
  key: string,
  value: unknown,
  type: ExpectedType,
  element?: number | string,
): void {
  if (source.state.error !== undefined) return;
  const path = element === undefined ? memberPath(source, key) : elementPath(source, key, element);
  source.state.error = {
    field: invalidValue(path, value, `must be ${type.text}`),
    message: unmarshalError(value, `${source.struct}.${goPath(source, key)}`, qualifiedType(type.go)),
  };
}

/** Returns a Go type with its package. API types, whose names start with a capital letter, are in the package `v1`. */
function qualifiedType(type: string): string {
  return /^[A-Z]/.test(type) ? `v1.${type}` : type;
}

function memberPath(source: DecodeSource, key: string): string {
  const path = sourcePath(source);
  return path === '' ? key : `${path}.${key}`;
}

function elementPath(source: DecodeSource, key: string, element: number | string): string {
  return `${memberPath(source, key)}[${element}]`;
}

/** Returns a path as Go's decoder prints it, without indexes. */
function goPath({ parent, key: own }: DecodeSource, key: string): string {
  return parent === undefined ? key : `${goPath(parent, own)}.${key}`;
}

/** Records an error for an invalid field, unless the object already has an error. */
export function reportInvalid(source: DecodeSource, key: string, detail: string): void {
  const field = invalidValue(memberPath(source, key), source.json[key], detail);
  source.state.error ??= { field, message: formatFieldError(field) };
}
