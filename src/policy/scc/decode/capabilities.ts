import type { JsonObject } from '../../../kube/types.ts';
import { hasName, unionOf } from '../names.ts';
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

/** Returns the container's own if they lack nothing; else both lists without repetitions and sorted. */
export function complete(
  { defaultAdd, requiredDrop }: Pick<CapabilitiesFields, 'defaultAdd' | 'requiredDrop'>,
  own: Capabilities,
): Capabilities {
  const { add, drop } = own;
  const isDropped = (name: string): boolean => hasName(drop, name, defaultAdd.length);
  const lacksAdd = defaultAdd.some((name) => !hasName(add, name, defaultAdd.length) && !isDropped(name));
  const lacksDrop = requiredDrop.some((name) => !hasName(drop, name, requiredDrop.length));
  if (!lacksAdd && !lacksDrop) return own;
  const wanted = drop.length === 0 ? defaultAdd : defaultAdd.filter((name) => !isDropped(name));
  return { add: unionOf(add, wanted), drop: unionOf(drop, requiredDrop) };
}
