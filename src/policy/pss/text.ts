import { sortedSet } from '../../kube/order.ts';
import type { ContainerFields, Setter, VolumeFields } from './fields.ts';

/** The items in double quotes, joined with commas; nothing in them is escaped. */
export function quotedList(items: readonly string[]): string {
  let text = '';
  for (const item of items) text = append(text, item);
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

/** `container "a"` or `containers "a", "b"`. */
export function namesOf(containers: readonly ContainerFields[]): string {
  return named('container', containers);
}

/** `volume "v"` or `volumes "v", "w"`. */
export function volumeNames(volumes: readonly VolumeFields[]): string {
  return named('volume', volumes);
}

/** Who sets something, joined with `and`: the pod, its containers, then whatever else the caller names. */
export function settersText(setters: readonly Setter[], other = ''): string {
  let names = '';
  let containers = 0;
  for (const setter of setters) {
    if (setter.list === undefined) continue;
    names = append(names, setter.name);
    containers++;
  }
  const pod = containers < setters.length ? 'pod' : '';
  const all = containers === 0 ? '' : `${plural(containers, 'container', 'containers')} ${names}`;
  return both(both(pod, all), other);
}

/** The one form for exactly 1, else the other. */
export function plural(count: number, one: string, many: string): string {
  return count === 1 ? one : many;
}

function named(noun: string, items: readonly { readonly name: string }[]): string {
  let names = '';
  for (const { name } of items) names = append(names, name);
  return `${noun}${items.length === 1 ? '' : 's'} ${names}`;
}

function append(list: string, item: string): string {
  return list === '' ? `"${item}"` : `${list}, "${item}"`;
}

function both(one: string, other: string): string {
  return one === '' || other === '' ? one + other : `${one} and ${other}`;
}
