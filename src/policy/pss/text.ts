import { sortedSet } from '../../kube/order.ts';
import type { ContainerFields, PodFields, SetterFields } from './fields.ts';

/** The containers that offend: `container "a"` or `containers "a", "b"`; empty if none does. */
export function containersText(pod: PodFields, offends: (container: ContainerFields) => boolean): string {
  let names = '';
  let count = 0;
  for (const container of pod.containers) {
    if (!offends(container)) continue;
    names = count === 0 ? quotedNameOf(container) : `${names}, ${quotedNameOf(container)}`;
    count++;
  }
  if (count === 0) return '';
  return count === 1 ? `container ${names}` : `containers ${names}`;
}

/** Who offends by a security context: `pod`, `container "a"` or `pod and containers "a", "b"`; empty if nobody does. */
export function settersText(pod: PodFields, offends: (setter: SetterFields) => boolean): string {
  return both(offends(pod) ? 'pod' : '', ' and ', containersText(pod, offends));
}

/** Both texts with the separator between them, or the one that is not empty. */
export function both(one: string, separator: string, other: string): string {
  return one === '' || other === '' ? one + other : one + separator + other;
}

/** The items in double quotes, joined with commas; nothing in them is escaped. */
export function quotedList(items: readonly string[]): string {
  let text = '';
  for (const item of items) text = text === '' ? `"${item}"` : `${text}, "${item}"`;
  return text;
}

/** The distinct items sorted by bytes, as a quoted list. */
export function quotedSet(items: readonly string[]): string {
  return quotedList(distinct(items));
}

/** The distinct items sorted by bytes. */
export function distinct(items: readonly string[]): readonly string[] {
  // Mostly there is one value, and a set costs more than all else in a text.
  const first = items[0];
  for (const item of items) {
    if (item !== first) return sortedSet(items);
  }
  return items.length < 2 ? items : items.slice(0, 1);
}

/** The one form for exactly 1, else the other. */
export function plural(count: number, one: string, many: string): string {
  return count === 1 ? one : many;
}

function quotedNameOf(container: ContainerFields): string {
  if (container.quotedName === '') container.quotedName = `"${container.name}"`;
  return container.quotedName;
}
