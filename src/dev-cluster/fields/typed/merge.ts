import type { FieldType, ListType, ObjectType } from '../types.ts';
import { itemElement, type PathElement } from './path-element.ts';
import { fieldType, itemsOf, membersOf, shapeOf } from './shape.ts';

/**
 * Lays an applied configuration over a live object: leaves are replaced, list items join by their keys, in the order of
 * the configuration where both have them.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/typed/merge.go
 */
export function merge(type: FieldType, live: unknown, applied: unknown): unknown {
  if (applied === undefined) return live;
  const shape = shapeOf(type, applied);
  if (live === undefined || shape.kind === 'leaf' || (isHollow(live) && isHollow(applied))) return applied;
  if (shape.kind === 'list') return mergeItems(shape.type, itemsOf(live), itemsOf(applied));
  return mergeMembers(shape.type, live, applied);
}

function mergeMembers(type: ObjectType, live: unknown, applied: unknown): unknown {
  const [left, right] = [new Map(Object.entries(membersOf(live))), new Map(Object.entries(membersOf(applied)))];
  const names = new Set([...left.keys(), ...right.keys()]);
  return Object.fromEntries(
    [...names].map((name) => [name, merge(fieldType(type, name), left.get(name), right.get(name))]),
  );
}

interface Item {
  readonly element: PathElement;
  readonly value: unknown;
}

function mergeItems(type: ListType, live: readonly unknown[], applied: readonly unknown[]): unknown[] {
  const [left, right] = [itemsWithElements(type, live), itemsWithElements(type, applied)];
  const [leftByElement, rightByElement] = [unique(left), new Map(right.map((item) => [item.element, item.value]))];
  const shared = right.filter(({ element }) => leftByElement.has(element)).map(({ element }) => element);
  const join = ({ element, value }: Item): unknown => merge(type.items, leftByElement.get(element), value);
  const done = new Set<PathElement>();
  const out: unknown[] = [];
  let [l, r, next] = [0, 0, 0];
  const take = (item: Item): void => {
    done.add(item.element);
    out.push(join(item));
    if (shared[next] === item.element) next++;
    r++;
  };
  while (l < left.length || r < right.length) {
    const ours = left[l];
    const theirs = right[r];
    if (ours && theirs?.element === ours.element) {
      take(theirs);
      l++;
    } else if (
      ours &&
      theirs &&
      rightByElement.has(ours.element) &&
      next < shared.length &&
      shared[next] !== ours.element
    ) {
      // Both have it, and the configuration wants another shared item first.
      l++;
    } else if (ours && !rightByElement.has(ours.element)) {
      out.push(ours.value);
      l++;
    } else {
      if (ours && done.has(ours.element)) l++;
      if (theirs) take(theirs);
    }
  }
  return out;
}

function itemsWithElements(type: ListType, items: readonly unknown[]): Item[] {
  return items.flatMap((value): Item[] => {
    const result = itemElement(type, value);
    return 'element' in result ? [{ element: result.element, value }] : [];
  });
}

/** By element; twins cannot be merged with and count as absent values. */
function unique(items: readonly Item[]): Map<PathElement, unknown> {
  const found = new Map<PathElement, unknown>();
  for (const { element, value } of items) found.set(element, found.has(element) ? undefined : value);
  return found;
}

function isHollow(value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.keys(value).length === 0);
}
