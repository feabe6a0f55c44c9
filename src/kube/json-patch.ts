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
    before.forEach((item, index) => compare(item, after[index], `${path}/${index}`, ops));
  } else ops.push({ op: 'replace', path, value: after });
}

function compareObjects(before: JsonObject, after: JsonObject, path: string, ops: JsonPatchOp[]): void {
  for (const key of Object.keys(before)) {
    if (!Object.hasOwn(after, key) || after[key] === undefined)
      ops.push({ op: 'remove', path: `${path}/${escape(key)}` });
    else compare(before[key], after[key], `${path}/${escape(key)}`, ops);
  }
  for (const key of Object.keys(after)) {
    if (!Object.hasOwn(before, key) && after[key] !== undefined) {
      ops.push({ op: 'add', path: `${path}/${escape(key)}`, value: after[key] });
    }
  }
}

function escape(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}
