import type { StoredChange } from '../history.ts';
import type { Registry } from '../registry.ts';
import type { Reader, Writer } from '../types.ts';

/** Something that the cluster does by itself whenever what is stored asks for it. */
export interface Chore {
  readonly name: string;
  /** What has to be looked after because of a change; `undefined` if nothing. */
  keyOf(change: StoredChange): string | undefined;
  /** Looks after it. May be repeated; what it rejects with makes it run again later. */
  run(key: string): Promise<void>;
}

/** What chores work with. */
export interface Tools {
  readonly reader: Reader;
  readonly registry: Pick<Registry, 'list' | 'byKind'>;
  readonly writer: Writer;
}

/** True if a change is of a resource. */
export function isOf(
  change: StoredChange,
  { group, resource }: { readonly group: string; readonly resource: string },
): boolean {
  return change.resource.group === group && change.resource.resource === resource;
}
