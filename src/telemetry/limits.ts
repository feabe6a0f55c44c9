/** Counts inputs beyond a limit in this thread. All parts of a replica share the counts, which the metrics contain. */
import type { LimitName } from '../kube/limits.ts';

const counts = new Map<LimitName, number>();

export function countExceeded(limit: LimitName): void {
  counts.set(limit, (counts.get(limit) ?? 0) + 1);
}

/** Returns the number of inputs beyond each limit since the start of the process. */
export function exceededCounts(): ReadonlyMap<LimitName, number> {
  return counts;
}
