import type { RangeAllocation } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import type { Bitmap } from './bitmap.ts';
import { blocksOfNamespaces, blocksOfState } from './state.ts';
import { blockCountOf, type UidRange } from './uid-range.ts';

export interface RepairInput {
  readonly range: UidRange;
  readonly namespaces: readonly Namespace[];
  /** Absent if there is none. */
  readonly state: RangeAllocation | undefined;
  /** By the number of a block: since when it has been known as taken without a namespace that has it. */
  readonly orphans: ReadonlyMap<number, number>;
  readonly nowMs: number;
}

export interface Repair {
  readonly taken: Bitmap;
  readonly orphans: ReadonlyMap<number, number>;
  readonly isFull: boolean;
}

/** For so long a block without a namespace may be one whose namespace is about to be annotated, by whomever. */
export const ORPHANED_MS = 5 * 60_000;

/** Says which blocks are taken: those that namespaces have, and those that may be on their way to one. */
export function planRepair({ range, namespaces, state, orphans: known, nowMs }: RepairInput): Repair {
  const taken = blocksOfNamespaces(namespaces, range);
  const orphans = new Map<number, number>();
  for (const block of state ? blocksOfState(state, range).values() : []) {
    if (taken.has(block)) continue;
    const sinceMs = known.get(block) ?? nowMs;
    if (nowMs - sinceMs < ORPHANED_MS) orphans.set(block, sinceMs);
  }
  for (const block of orphans.keys()) taken.add(block);
  return { taken, orphans, isFull: taken.lowestClear(blockCountOf(range)) === undefined };
}
