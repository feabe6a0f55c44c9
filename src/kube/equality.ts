import { isObject, type JsonObject } from './types.ts';

/** Returns true if both values are equal as JSON, regardless of member order. */
export function deepEqual(a: unknown, b: unknown): boolean {
  return isEqual(a, b, EXACT);
}

/**
 * Returns true if the API server treats both values as equal. Absent values, null and empty lists are equal, and so is
 * `{}` for maps and structs. For pointers to structs, such as `emptyDir: {}`, `{}` is a value. Quantities and times are
 * compared as strings because the API server sends them in canonical form.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/api/equality/semantic.go
 */
export function semanticEqual(a: unknown, b: unknown): boolean {
  return (SEMANTIC(a, '') && SEMANTIC(b, '')) || isEqual(a, b, SEMANTIC);
}

/** Returns true if a member is treated as absent. */
type IsAbsent = (value: unknown, key: string) => boolean;

const EXACT: IsAbsent = (value) => value === undefined;
const SEMANTIC: IsAbsent = (value, key) => isSemanticallyAbsent(value, key);

/**
 * Returns true if the API server treats an object member as absent when it compares objects, as `semanticEqual` does.
 */
export function isSemanticallyAbsent(value: unknown, key: string): boolean {
  return isEmpty(value, key, MAX_EMPTY_LEVELS);
}

/** Maximum nesting depth of empty maps and structs in the API. */
const MAX_EMPTY_LEVELS = 8;

function isEmpty(value: unknown, key: string, levels: number): boolean {
  if (value == null || (Array.isArray(value) && value.length === 0)) return true;
  if (levels === 0 || !isObject(value) || !MAPS_AND_STRUCTS.has(key)) return false;
  return Object.entries(value).every(([name, item]) => isEmpty(item, name, levels - 1));
}

/** Fields of pods, metadata and RBAC objects whose Go type is a map or a struct rather than a pointer. */
const MAPS_AND_STRUCTS: ReadonlySet<string> = new Set([
  'annotations',
  'labels',
  'limits',
  'matchLabels',
  'metadata',
  'nodeSelector',
  'options',
  'overhead',
  'requests',
  'resources',
  'spec',
  'volumeAttributes',
]);

/** Maximum recursion depth. Values that are nested more deeply are treated as different. */
const MAX_LEVELS = 500;

function isEqual(a: unknown, b: unknown, isAbsent: IsAbsent, levels = MAX_LEVELS): boolean {
  if (a === b) return true;
  if (levels === 0) return false;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => isEqual(item, b[index], isAbsent, levels - 1));
  }
  return isObject(a) && isObject(b) ? areMembersEqual(a, b, isAbsent, levels - 1) : false;
}

function areMembersEqual(a: JsonObject, b: JsonObject, isAbsent: IsAbsent, levels: number): boolean {
  const getMember = (object: JsonObject, key: string): unknown =>
    Object.hasOwn(object, key) && !isAbsent(object[key], key) ? object[key] : undefined;
  let shared = 0;
  for (const key of Object.keys(a)) {
    // Fast path, because most members are identical. `b[key]` may be an inherited property, which never equals a
    // member.
    if (a[key] === b[key] && a[key] !== undefined) shared++;
    else if (!isEqual(getMember(a, key), getMember(b, key), isAbsent, levels)) return false;
  }
  const keys = Object.keys(b);
  return keys.length === shared || keys.every((key) => Object.hasOwn(a, key) || getMember(b, key) === undefined);
}

/** Removes null object members at any depth. Keeps null list items. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([key, member]) => [key, withoutNulls(member)]));
}
