import type { RangeAllocation } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import { emptyBitmap, type Bitmap } from './bitmap.ts';
import { blocksOfNamespaces, blocksOfState } from './state.ts';
import { blockCountOf, type UidRange } from './uid-range.ts';

/** Blocks that are taken without a namespace that has them, by the time since when that has been known. */
export type Orphans = ReadonlyMap<number, Bitmap>;

export interface RepairInput {
  readonly range: UidRange;
  readonly namespaces: readonly Namespace[];
  /** Absent if there is none. */
  readonly state: RangeAllocation | undefined;
  readonly orphans: Orphans;
  readonly nowMs: number;
}

export interface Repair {
  readonly taken: Bitmap;
  readonly orphans: Orphans;
  readonly isFull: boolean;
}

/** For so long a block without a namespace may be one whose namespace is about to be annotated, by whomever. */
export const ORPHANED_MS = 5 * 60_000;

/** Says which blocks are taken: those that namespaces have, and those that may be on their way to one. */
export function planRepair({ range, namespaces, state, orphans: known, nowMs }: RepairInput): Repair {
  const taken = blocksOfNamespaces(namespaces, range);
  const fresh = state ? blocksOfState(state, range) : emptyBitmap();
  fresh.removeAll(taken);
  const orphans = new Map<number, Bitmap>();
  for (const [sinceMs, blocks] of known) {
    const still = blocks.intersection(fresh);
    if (nowMs - sinceMs < ORPHANED_MS && !still.isEmpty()) orphans.set(sinceMs, still);
    fresh.removeAll(blocks);
  }
  if (!fresh.isEmpty()) {
    fresh.addAll(orphans.get(nowMs) ?? emptyBitmap());
    orphans.set(nowMs, fresh);
  }
  for (const blocks of orphans.values()) taken.addAll(blocks);
  return { taken, orphans, isFull: taken.lowestClear(blockCountOf(range)) === undefined };
}
