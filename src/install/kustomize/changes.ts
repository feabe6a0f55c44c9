import { deepEqual } from '../../kube/equal.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { escapeKey } from '../../kube/json-pointer.ts';
import { isObject } from '../../kube/types.ts';

/**
 * Operations that make one value of another, and that go together with those of others: what a list has more at its
 * end is added to whatever its end is then. Values do not come last: kustomize takes the last line break of a patch away.
 */
export function changes(before: unknown, after: unknown, path = ''): readonly JsonPatchOp[] {
  if (deepEqual(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => memberChanges(before[name], after[name], `${path}/${escapeKey(name)}`));
  }
  if (Array.isArray(before) && Array.isArray(after) && after.length >= before.length) {
    const common = before.flatMap((item, index) => changes(item, after[index], `${path}/${index}`));
    const added = after
      .slice(before.length)
      .map((value: unknown) => ({ op: 'add', value, path: `${path}/-` }) as const);
    return [...common, ...added];
  }
  return [{ op: 'replace', value: after, path }];
}

function memberChanges(before: unknown, after: unknown, path: string): readonly JsonPatchOp[] {
  if (after === undefined) return [{ op: 'remove', path }];
  return before === undefined ? [{ op: 'add', value: after, path }] : changes(before, after, path);
}
