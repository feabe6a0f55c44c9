import { compareBytes, sortedSet } from '../../kube/text.ts';
import type { ContainerFields, PodFields, SetterFields } from './fields.ts';

/** Up to here inserting beats sorting. */
const FEW = 8;

/**
 * The containers that offend: `container "a"` or `containers "a", "b"`; empty if none does. Predicates are constants in
 * their files: those V8 inlines here, a function declaration it would call.
 */
export function containersText(pod: PodFields, offends: (container: ContainerFields) => boolean): string {
  let count = 0;
  for (const container of pod.containers) if (offends(container)) count++;
  if (count === 0) return '';
  // Mostly all containers offend alike, by several checks.
  if (count === pod.containers.length) return allContainersText(pod);
  return named('container', pod.containers.filter(offends));
}

/** `volume "v"` or `volumes "v", "w"`. */
export function named(noun: string, items: readonly { readonly name: string }[]): string {
  let text = items.length === 1 ? noun + ' "' : noun + 's "';
  let separator = '';
  for (const { name } of items) {
    text += separator + name;
    separator = '", "';
  }
  return text + '"';
}

/** Who offends by a security context: `pod`, `container "a"` or `pod and containers "a", "b"`; empty if nobody does. */
export function settersText(pod: PodFields, offends: (setter: SetterFields) => boolean): string {
  return both(offends(pod) ? 'pod' : '', ' and ', containersText(pod, offends));
}

/** Both texts with the separator between them, or the one that is not empty. */
export function both(one: string, separator: string, other: string): string {
  if (!one) return other;
  return other ? one + separator + other : one;
}

/** The items in double quotes, joined with commas; nothing in them is escaped. */
export function quotedList(items: readonly string[]): string {
  let text = '';
  for (const item of items) text += (text === '' ? '"' : '", "') + item;
  return text === '' ? '' : text + '"';
}

/** The distinct items sorted by bytes, as a quoted list. */
export function quotedSet(items: readonly string[]): string {
  return quotedList(distinct(items));
}

/** The distinct items sorted by bytes. */
export function distinct(items: readonly string[]): readonly string[] {
  if (items.length < 2) return items;
  if (items.length > FEW) return sortedSet(items);
  const sorted = items.slice(0, 1);
  for (const item of items) insert(sorted, item);
  return sorted;
}

/** Keeps the list sorted and free of repetitions; for a few items that is many times faster than a set and a sort. */
function insert(sorted: string[], item: string): void {
  let place = sorted.length;
  for (let before = sorted[place - 1]; before !== undefined; before = sorted[place - 1]) {
    if (before === item) return;
    if (compareBytes(before, item) < 0) break;
    place--;
  }
  if (place === sorted.length) sorted.push(item);
  else sorted.splice(place, 0, item);
}

/** The one form for exactly 1, else the other. */
export function plural(count: number, one: string, many: string): string {
  return count === 1 ? one : many;
}

function allContainersText(pod: PodFields): string {
  if (!pod.allNames) pod.allNames = named('container', pod.containers);
  return pod.allNames;
}
