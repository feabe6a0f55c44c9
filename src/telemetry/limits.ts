/**
 * Counts the inputs that exceed a limit in this thread. All parts of a replica share the counts, and the metrics expose
 * them.
 */
import type { LimitName } from '../kube/limits.ts';

const counts = new Map<LimitName, number>();

export function countExceeded(limit: LimitName): void {
  counts.set(limit, (counts.get(limit) ?? 0) + 1);
}

/** Returns the number of inputs that exceeded each limit since the process started. */
export function exceededCounts(): ReadonlyMap<LimitName, number> {
  return counts;
}
