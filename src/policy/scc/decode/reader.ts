import { invalidValue, tooLong, tooMany, type FieldError } from '../../../kube/field-error.ts';
import { MAX_ANNOTATIONS_BYTES, MAX_FIELDS, MAX_ITEMS } from '../../../kube/pod.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';

/**
 * Reads fields of JSON that nothing has checked and notes the first one of a wrong type. Null is absent. What is
 * returned after an error is of the right type, but worth nothing.
 */
export interface Reader {
  error: FieldError | undefined;
  /** Where texts that return are kept once; absent: each stays as it came. */
  readonly words?: Words;
  /** How many elements the lists have that were read so far; absent: they may have any number. */
  items?: number;
}

/** Gives the same text for equal ones, as long as they are not too many. */
export type Words = (text: string) => string;

const MAX_WORDS = 1000;

export function createWords(): Words {
  const known = new Map<string, string>();
  return (text) => {
    const same = known.get(text);
    if (same !== undefined) return same;
    if (known.size < MAX_WORDS) known.set(text, text);
    return text;
  };
}

/** Stands for an object that is absent. */
export const NOTHING: JsonObject = {};
const NO_ITEMS: readonly never[] = [];

export function objectAt(reader: Reader, owner: JsonObject, key: string, path: string): JsonObject | undefined {
  const value = owner[key];
  if (value == null) return undefined;
  if (isObject(value)) return value;
  mismatch(reader, path, key, value, 'an object');
  return undefined;
}

export function listAt(reader: Reader, owner: JsonObject, key: string, path: string): readonly unknown[] {
  const value = owner[key];
  if (value == null) return NO_ITEMS;
  if (Array.isArray(value)) return value.length === 0 || isOverfull(reader, value.length, key, path) ? NO_ITEMS : value;
  mismatch(reader, path, key, value, 'a list');
  return NO_ITEMS;
}

function isOverfull(reader: Reader, count: number, key: string, path: string): boolean {
  if (reader.items === undefined) return false;
  reader.items += count;
  if (reader.items <= MAX_ITEMS) return false;
  reader.error ??= tooMany(fieldOf(path, key), reader.items, MAX_ITEMS);
  return true;
}

/** An element of a list that must hold objects. */
export function elementAt(reader: Reader, list: readonly unknown[], index: number, path: string): JsonObject {
  const value = list[index];
  if (isObject(value)) return value;
  mismatch(reader, `${path}[${index}]`, '', value, 'an object');
  return NOTHING;
}

export function stringAt(reader: Reader, owner: JsonObject, key: string, path: string): string {
  const value = owner[key];
  if (typeof value === 'string') return reader.words ? reader.words(value) : value;
  if (value != null) mismatch(reader, path, key, value, 'a string');
  return '';
}

export function booleanAt(reader: Reader, owner: JsonObject, key: string, path: string): boolean | undefined {
  const value = owner[key];
  if (typeof value === 'boolean') return value;
  if (value != null) mismatch(reader, path, key, value, 'a boolean');
  return undefined;
}

export function integerAt(reader: Reader, owner: JsonObject, key: string, path: string): number | undefined {
  const value = owner[key];
  if (typeof value === 'number' && Number.isInteger(value)) return value;
  if (value != null) mismatch(reader, path, key, value, 'an integer');
  return undefined;
}

/** Bounds of integers: those of the API, and those up to which every integer is told from the next. */
export const INT32 = { min: -(2 ** 31), max: 2 ** 31 - 1 };
export const INT53 = { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER };

/** Returns an integer between bounds. */
export function boundedAt(
  reader: Reader,
  owner: JsonObject,
  key: string,
  { path, min, max }: { readonly path: string; readonly min: number; readonly max: number },
): number | undefined {
  const value = integerAt(reader, owner, key, path);
  if (value === undefined || (value >= min && value <= max)) return value;
  mismatch(reader, path, key, value, `from ${min} to ${max}`);
  return undefined;
}

export function stringsAt(reader: Reader, owner: JsonObject, key: string, path: string): readonly string[] {
  const list = listAt(reader, owner, key, path);
  if (list.every((item) => typeof item === 'string')) return reader.words ? list.map(reader.words) : list;
  mismatch(reader, path, key, list, 'a list of strings');
  return NO_ITEMS;
}

export function integersAt(reader: Reader, owner: JsonObject, key: string, path: string): readonly number[] {
  const list = listAt(reader, owner, key, path);
  if (list.every((item) => typeof item === 'number' && Number.isInteger(item))) return list as readonly number[];
  mismatch(reader, path, key, list, 'a list of integers');
  return NO_ITEMS;
}

/** The annotations of an object; null among them is the empty string. */
export function annotationsOf(reader: Reader, metadata: JsonObject): Readonly<Record<string, string>> {
  const map = objectAt(reader, metadata, 'annotations', 'metadata') ?? NOTHING;
  let isPlain = true;
  let length = 0;
  for (const name of Object.keys(map)) {
    const value = map[name];
    length += name.length;
    if (typeof value === 'string') {
      length += value.length;
      continue;
    }
    isPlain = false;
    if (value != null) mismatch(reader, `metadata.annotations[${name}]`, '', value, 'a string');
  }
  if (length > MAX_ANNOTATIONS_BYTES) reader.error ??= tooLong('metadata.annotations', MAX_ANNOTATIONS_BYTES);
  if (isPlain) return map as Readonly<Record<string, string>>;
  return Object.fromEntries(Object.entries(map).map(([name, value]) => [name, typeof value === 'string' ? value : '']));
}

/** Notes an object that is more than any of the API, for it may have to be copied; its path must not be empty. */
export function checkFields(reader: Reader, object: JsonObject, path: string): void {
  const count = Object.keys(object).length;
  if (count > MAX_FIELDS) reader.error ??= tooMany(path, count, MAX_FIELDS);
}

function mismatch(reader: Reader, path: string, key: string, value: unknown, expected: string): void {
  reader.error ??= invalidValue(fieldOf(path, key), value, `must be ${expected}`);
}

function fieldOf(path: string, key: string): string {
  return key === '' || path === '' ? path + key : `${path}.${key}`;
}
