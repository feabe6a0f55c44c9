/**
 * Semantic equality of the API server, in which an absent field is equal to an empty list or map, but not to an empty
 * object. False values need no rule, because the API server omits them.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/api/equality/semantic.go
 */
import { isObject, type JsonObject, memoize } from './json.ts';

/** Maps, and the members of every object. */
const EMPTY_IS_ABSENT = [
  'metadata',
  'spec',
  'status',
  'labels',
  'annotations',
  'nodeSelector',
  'limits',
  'requests',
  'overhead',
  'matchLabels',
];

/** Maps of strings, in which null is read as the empty string. */
const STRING_MAPS = ['labels', 'annotations', 'nodeSelector', 'matchLabels'];

export function areEqual(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

/** Returns a string that is identical for equal values. */
export function canonical(value: unknown): string {
  return isObject(value) ? formatObject(value) : formatValue(value);
}

const formatObject = memoize(formatValue);

function formatValue(value: unknown): string {
  return JSON.stringify(normal(value)) ?? 'absent';
}

function normal(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normal);
  if (!isObject(value)) return value;
  const members = Object.entries(value)
    .filter(([key, member]) => !isAbsent(key, member))
    .map(([key, member]) => [key, STRING_MAPS.includes(key) ? withoutNulls(member) : member] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return members.map(([key, member]) => [key, isObject(member) ? { object: normal(member) } : normal(member)]);
}

function withoutNulls(map: unknown): unknown {
  return isObject(map) ? Object.fromEntries(Object.entries(map).map(([key, text]) => [key, text ?? ''])) : map;
}

function isAbsent(key: string, value: unknown): boolean {
  if (value == null) return true;
  if (Array.isArray(value)) return value.length === 0;
  if (isObject(value)) return EMPTY_IS_ABSENT.includes(key) && Object.keys(value).length === 0;
  return false;
}

export function without(object: unknown, ...keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(isObject(object) ? object : {}).filter(([key]) => !keys.includes(key)));
}
