import { ApiError, createStatus } from '../../../kube/status.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { goFormat } from '../go-format.ts';
import { plainError } from '../plain-error.ts';

const DIRECTIVE = '$patch';

type MergeItems = (item: JsonObject, change: JsonObject) => JsonObject;

/** Merges two lists: objects by their key, scalars as a set; in the order of the patch where it says something. */
export function mergeLists(
  original: readonly unknown[],
  patch: readonly unknown[],
  mergeKey: string | undefined,
  mergeItems: MergeItems,
): readonly unknown[] {
  const all = [...original, ...patch];
  if (all.some(Array.isArray)) throw unfit();
  if (!all.some(isObject)) return orderBy([...new Set(all)], patch, original, undefined);
  if (mergeKey === undefined || !all.every(isObject)) {
    throw plainError(`list element types are not identical: ${goFormat([original, patch])}`);
  }
  const { items, changes } = followDirectives(original as JsonObject[], patch as JsonObject[], mergeKey);
  const merged = [...items];
  for (const change of changes) {
    const at = merged.findIndex((item) => item[mergeKey] === keyOf(change, mergeKey));
    const item = merged[at];
    if (item) merged[at] = mergeItems(item, change);
    else merged.push(change);
  }
  return orderBy(merged, changes, items, mergeKey);
}

/** Takes the items with directives out of a patch: entries to delete, and the wish to replace the whole list. */
function followDirectives(original: readonly JsonObject[], patch: readonly JsonObject[], mergeKey: string) {
  const changes = patch.filter((change) => !Object.hasOwn(change, DIRECTIVE));
  const directives = patch.filter((change) => Object.hasOwn(change, DIRECTIVE));
  const deleted = new Set<unknown>();
  let replaces = false;
  for (const change of directives) {
    const directive = change[DIRECTIVE];
    if (directive === 'delete') deleted.add(keyOf(change, mergeKey));
    else if (directive === 'replace') replaces = true;
    else if (directive === 'merge') throw plainError('merging lists cannot yet be specified in the patch');
    else throw plainError(`unknown patch type: ${goFormat(directive)} in map: ${goFormat(change)}`);
  }
  if (replaces) return { items: changes, changes: [] };
  return { items: original.filter((item) => !deleted.has(item[mergeKey])), changes };
}

function keyOf(item: JsonObject, mergeKey: string): unknown {
  if (Object.hasOwn(item, mergeKey)) return item[mergeKey];
  throw plainError(`map: ${goFormat(item)} does not contain declared merge key: ${mergeKey}`);
}

/**
 * Sorts a merged list: the items of `order` in that order, the others as the server had them, and between the two the
 * server's order where it knows both.
 */
export function orderBy(
  merged: readonly unknown[],
  order: readonly unknown[],
  server: readonly unknown[],
  mergeKey: string | undefined,
): readonly unknown[] {
  const key = (item: unknown): unknown => (mergeKey !== undefined && isObject(item) ? keyOf(item, mergeKey) : item);
  const [wanted, before] = [order.map(key), server.map(key)];
  const rank = (ranks: readonly unknown[], item: unknown): number => ranks.indexOf(key(item));
  const right = merged.filter((item) => wanted.includes(key(item))).sort((a, b) => rank(wanted, a) - rank(wanted, b));
  const left = merged.filter((item) => !wanted.includes(key(item))).sort((a, b) => rank(before, a) - rank(before, b));
  return zip(left, right, (a, b) => {
    const [x, y] = [rank(before, a), rank(before, b)];
    return x >= 0 && y >= 0 && x < y;
  });
}

/** Joins two lists, taking from the left while its item comes first. */
function zip(
  left: readonly unknown[],
  right: readonly unknown[],
  isFirst: (a: unknown, b: unknown) => boolean,
): unknown[] {
  const out: unknown[] = [];
  let [l, r] = [0, 0];
  while (l < left.length || r < right.length) {
    const takeLeft = l < left.length && (r >= right.length || isFirst(left[l], right[r]));
    out.push(takeLeft ? left[l++] : right[r++]);
  }
  return out;
}

/** 422: lists of lists cannot be merged. */
function unfit(): ApiError {
  const message = 'the server rejected our request due to an error in our request';
  return new ApiError(createStatus(422, 'Invalid', message, {}));
}
