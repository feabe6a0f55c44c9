import type { CONTAINER_LISTS } from '../../../kube/pod.ts';

type ContainerList = (typeof CONTAINER_LISTS)[number];

const MAX_KNOWN = 4096;
let count = 0;
const paths = new Map<string, Map<string, string>>();

/**
 * `owner.field`. The paths in messages are always the same ones: each is made once and kept in one piece, which spares
 * putting it together again for each comparison.
 */
export function pathTo(owner: string, field: string): string {
  const known = paths.get(owner)?.get(field);
  if (known !== undefined) return known;
  const path = [owner, field].join('.');
  if (count++ < MAX_KNOWN) remember(owner, field, path);
  return path;
}

function remember(owner: string, field: string, path: string): void {
  const fields = paths.get(owner) ?? new Map<string, string>();
  paths.set(owner, fields.set(field, path));
}

const MAX_INDEX = 64;
const places: Readonly<Record<ContainerList, readonly string[]>> = {
  initContainers: placesIn('initContainers'),
  containers: placesIn('containers'),
  ephemeralContainers: placesIn('ephemeralContainers'),
};

/** `list[index]`. */
export function placeOf(list: ContainerList, index: number): string {
  return places[list][index] ?? `${list}[${index}]`;
}

function placesIn(list: ContainerList): readonly string[] {
  return Array.from({ length: MAX_INDEX }, (_, index) => `${list}[${index}]`);
}
