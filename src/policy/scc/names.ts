import { compareBytes, sortedSet } from '../../kube/text.ts';

/** Lists up to this length are searched faster than sets, longer ones too if they are searched only a few times. */
const MAX_SEARCHED = 16;
const MAX_SEARCHES = 4;

const sets = new WeakMap<readonly string[], ReadonlySet<string>>();

/**
 * True if a list of an SCC or of a container has the name. Of a long list that is asked for many names a set is kept, for
 * as long as the list lives, which must not change.
 */
export function hasName(list: readonly string[], name: string, searches: number): boolean {
  if (list.length <= MAX_SEARCHED || searches <= MAX_SEARCHES) return list.includes(name);
  let set = sets.get(list);
  if (set === undefined) sets.set(list, (set = new Set(list)));
  return set.has(name);
}

const MAX_INSERTED = 32;

/** Both lists as one, without repetitions and sorted. */
export function unionOf(a: readonly string[], b: readonly string[]): readonly string[] {
  return a.length + b.length > MAX_INSERTED ? merge(sortedOf(a), sortedOf(b)) : insertAll(insertAll([], a), b);
}

/** Lists of capabilities are short: names are put in their places one by one. */
function insertAll(names: string[], added: readonly string[]): string[] {
  for (const name of added) {
    if (names.includes(name)) continue;
    let index = names.length;
    while (index > 0 && compareBytes(names[index - 1] ?? '', name) > 0) index--;
    names.splice(index, 0, name);
  }
  return names;
}

const sorted = new WeakMap<readonly string[], readonly string[]>();

/** A container's list is joined with those of every SCC: it is sorted once. */
function sortedOf(list: readonly string[]): readonly string[] {
  let known = sorted.get(list);
  if (known === undefined) sorted.set(list, (known = sortedSet(list)));
  return known;
}

function merge(a: readonly string[], b: readonly string[]): readonly string[] {
  const names: string[] = [];
  let [next, other] = [0, 0];
  while (next < a.length || other < b.length) {
    const [x, y] = [a[next], b[other]];
    const order = x === undefined ? 1 : y === undefined ? -1 : compareBytes(x, y);
    if (order <= 0) next++;
    if (order >= 0) other++;
    names.push((order <= 0 ? x : y) ?? '');
  }
  return names;
}
