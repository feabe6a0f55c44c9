import { compareBytes, sortedSet } from '../../../kube/order.ts';
import type { JsonObject } from '../../../kube/types.ts';
import type { Capabilities } from './container.ts';
import { stringsAt, type Reader } from './reader.ts';

/** What an SCC says of capabilities. */
export interface CapabilitiesFields {
  readonly defaultAdd: readonly string[];
  readonly requiredDrop: readonly string[];
  readonly allowed: readonly string[];
  /** What a container gets that has none; `undefined`: none. */
  readonly ofNone: Capabilities | undefined;
}

export function readSccCapabilities(reader: Reader, scc: JsonObject): CapabilitiesFields {
  const lists = {
    defaultAdd: stringsAt(reader, scc, 'defaultAddCapabilities', ''),
    requiredDrop: stringsAt(reader, scc, 'requiredDropCapabilities', ''),
  };
  const isAnyDemanded = lists.defaultAdd.length > 0 || lists.requiredDrop.length > 0;
  return {
    ...lists,
    allowed: stringsAt(reader, scc, 'allowedCapabilities', ''),
    ofNone: isAnyDemanded ? complete(lists, { add: [], drop: [] }) : undefined,
  };
}

const MAX_INSERTED = 32;

/** Returns the container's own if they lack nothing; else both lists without repetitions and sorted. */
export function complete(
  { defaultAdd, requiredDrop }: Pick<CapabilitiesFields, 'defaultAdd' | 'requiredDrop'>,
  own: Capabilities,
): Capabilities {
  const { add, drop } = own;
  const lacksAdd = defaultAdd.some((name) => !add.includes(name) && !drop.includes(name));
  const lacksDrop = requiredDrop.some((name) => !drop.includes(name));
  if (!lacksAdd && !lacksDrop) return own;
  const wanted = defaultAdd.filter((name) => !drop.includes(name));
  return { add: union(add, wanted), drop: union(drop, requiredDrop) };
}

/** Lists of capabilities are short: names are put in their places one by one. */
function union(a: readonly string[], b: readonly string[]): readonly string[] {
  if (a.length + b.length > MAX_INSERTED) return sortedSet([...a, ...b]);
  const names: string[] = [];
  for (const name of a) insert(names, name);
  for (const name of b) insert(names, name);
  return names;
}

function insert(names: string[], name: string): void {
  if (names.includes(name)) return;
  let index = names.length;
  while (index > 0 && compareBytes(names[index - 1] ?? '', name) > 0) index--;
  names.splice(index, 0, name);
}
