import { sortedSet } from '../../kube/order.ts';
import type { ContainerFields, Setter, VolumeFields } from './fields.ts';

/** The items in double quotes, joined with commas; nothing in them is escaped. */
export function quotedList(items: readonly string[]): string {
  return items.length === 0 ? '' : `"${items.join('", "')}"`;
}

/** The distinct items sorted by bytes, as a quoted list. */
export function quotedSet(items: readonly string[]): string {
  return quotedList(items.length < 2 ? items : sortedSet(items));
}

/** `container "a"` or `containers "a", "b"`. */
export function namesOf(containers: readonly ContainerFields[]): string {
  return containersNamed(containers.map(({ name }) => name));
}

export function containersNamed(names: readonly string[]): string {
  return `${plural(names.length, 'container', 'containers')} ${quotedList(names)}`;
}

/** `volume "v"` or `volumes "v", "w"`. */
export function volumeNames(volumes: readonly VolumeFields[]): string {
  return `${plural(volumes.length, 'volume', 'volumes')} ${quotedList(volumes.map(({ name }) => name))}`;
}

/** Who sets something, joined with `and`: the pod, its containers, then whatever else the caller names. */
export function settersText(setters: readonly Setter[], ...others: readonly string[]): string {
  const containers = setters.filter((setter) => setter.list !== undefined);
  const parts = containers.length < setters.length ? ['pod'] : [];
  if (containers.length > 0) parts.push(namesOf(containers));
  return [...parts, ...others].join(' and ');
}

/** The one form for exactly 1, else the other. */
export function plural(count: number, one: string, many: string): string {
  return count === 1 ? one : many;
}
