import { isObject, type JsonObject, ownMember } from './types.ts';

/**
 * A JSON patch operation.
 * @see https://www.rfc-editor.org/rfc/rfc6902
 */
export type JsonPatchOp =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly path: string; readonly from: string };

/**
 * Escapes a key for use in a JSON pointer.
 * @see https://www.rfc-editor.org/rfc/rfc6901
 */
export function escapeKey(key: string): string {
  // Fast path, because most keys contain neither character.
  return key.includes('~') || key.includes('/') ? key.replaceAll('~', '~0').replaceAll('/', '~1') : key;
}

/**
 * Computes the operations that transform one document into the other. Lists of equal length are compared item by item,
 * and other lists are replaced as a whole. Unlike a general-purpose diff, skips objects that both documents share by
 * reference.
 */
export function diff(before: unknown, after: unknown): JsonPatchOp[] {
  const ops: JsonPatchOp[] = [];
  compare(before, after, '', ops);
  return ops;
}

function compare(before: unknown, after: unknown, path: string, ops: JsonPatchOp[]): void {
  if (before === after) return;
  if (isObject(before) && isObject(after)) compareObjects(before, after, path, ops);
  else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    for (let index = 0; index < before.length; index++) compare(before[index], after[index], `${path}/${index}`, ops);
  } else ops.push({ op: 'replace', path, value: after });
}

function compareObjects(before: JsonObject, after: JsonObject, path: string, ops: JsonPatchOp[]): void {
  const keys = Object.keys(after);
  /** Number of leading keys that both objects have in the same order. If only values changed, these are all keys. */
  let common = 0;
  for (const key of Object.keys(before)) {
    const was = before[key];
    if (key === keys[common] && was !== undefined) common++;
    // Fast path, because most members are shared. `after[key]` may be an inherited property, which never equals a
    // member.
    if (was !== after[key] || was === undefined)
      compareMember(was, ownMember(after, key), `${path}/${escapeKey(key)}`, ops);
  }
  for (let index = common; index < keys.length; index++) {
    const key = keys[index] ?? '';
    const value = after[key];
    if (value === undefined || ownMember(before, key) !== undefined) continue;
    ops.push({ op: 'add', path: `${path}/${escapeKey(key)}`, value });
  }
}

/** Compares a member. Treats an undefined member as absent, because JSON does not contain undefined. */
function compareMember(before: unknown, after: unknown, path: string, ops: JsonPatchOp[]): void {
  if (before === undefined) return;
  if (after === undefined) ops.push({ op: 'remove', path });
  else compare(before, after, path, ops);
}
