import { applyOp } from './json-patch-op.ts';
import { escapeKey } from './json-pointer.ts';
import { isObject, type JsonObject } from './types.ts';

/**
 * One operation of a JSON patch.
 * @see https://www.rfc-editor.org/rfc/rfc6902
 */
export type JsonPatchOp =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly path: string; readonly from: string };

/**
 * The operations that turn one document into the other. Lists go element by element when equally long, else they are
 * replaced as a whole.
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
    for (let index = 0; index < before.length; index++) {
      if (before[index] !== after[index]) compare(before[index], after[index], `${path}/${index}`, ops);
    }
  } else ops.push({ op: 'replace', path, value: after });
}

function compareObjects(before: JsonObject, after: JsonObject, path: string, ops: JsonPatchOp[]): void {
  let shared = 0;
  for (const key of Object.keys(before)) {
    const was = before[key];
    // What nothing has touched is the same in both, which most members are; nothing that is inherited is ever the same.
    if (was === after[key] && was !== undefined) shared++;
    else compareMembers(was, memberOf(after, key), `${path}/${escapeKey(key)}`, ops);
  }
  const keys = Object.keys(after);
  if (keys.length === shared) return;
  for (const key of keys) {
    const is = after[key];
    if (is === before[key] || is === undefined || memberOf(before, key) !== undefined) continue;
    ops.push({ op: 'add', path: `${path}/${escapeKey(key)}`, value: is });
  }
}

function compareMembers(was: unknown, is: unknown, path: string, ops: JsonPatchOp[]): void {
  if (was === undefined) return;
  if (is === undefined) ops.push({ op: 'remove', path });
  else compare(was, is, path, ops);
}

/** A member that is undefined is not in the JSON. */
function memberOf(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/**
 * Returns the patched document; what was given is not changed. Operations may come from anywhere and need not be well
 * formed. Throws a RangeError with the text that the API server shows if one does not apply.
 *
 * Like the API server, it lets a replace make a missing member, takes a missing member for null in test and copy, and
 * counts negative indexes from the end of a list.
 * @see https://github.com/evanphx/json-patch/blob/v4.12.0/patch.go
 */
export function apply(document: unknown, ops: readonly JsonObject[]): unknown {
  const state = { root: structuredClone(document), copiedBytes: 0 };
  for (const op of ops) applyOp(state, op);
  return state.root;
}
