import { invalidValue, type FieldError } from '../../../kube/field-error.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';

/**
 * Reads fields of JSON that nothing has checked and notes the first one of a wrong type. Null is absent. What is
 * returned after an error is of the right type, but worth nothing.
 */
export interface Reader {
  error: FieldError | undefined;
  /** Where texts that return are kept once; absent: each stays as it came. */
  readonly words?: Words;
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
  if (Array.isArray(value)) return value.length === 0 ? NO_ITEMS : value;
  mismatch(reader, path, key, value, 'a list');
  return NO_ITEMS;
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

/** A map of strings, such as annotations; null in it is the empty string. */
export function stringMapAt(
  reader: Reader,
  owner: JsonObject,
  key: string,
  path: string,
): Readonly<Record<string, string>> {
  const map = objectAt(reader, owner, key, path) ?? NOTHING;
  let isPlain = true;
  for (const name of Object.keys(map)) {
    if (typeof map[name] === 'string') continue;
    isPlain = false;
    if (map[name] != null) mismatch(reader, `${path}.${key}[${name}]`, '', map[name], 'a string');
  }
  if (isPlain) return map as Readonly<Record<string, string>>;
  return Object.fromEntries(Object.entries(map).map(([name, value]) => [name, typeof value === 'string' ? value : '']));
}

function mismatch(reader: Reader, path: string, key: string, value: unknown, expected: string): void {
  const field = key === '' || path === '' ? path + key : `${path}.${key}`;
  reader.error ??= invalidValue(field, value, `must be ${expected}`);
}
