import type { FieldError } from '../../kube/field-error.ts';
import type { PodFields } from './decode/pod.ts';
import { obstaclesOf, type Obstacle } from './obstacles.ts';
import type { PreparedScc } from './prepare.ts';
import { admits, type SearchInput } from './search.ts';

/** An SCC that a pod does not fit. */
interface Misfit {
  readonly scc: PreparedScc;
  readonly errors: readonly FieldError[];
}

/** An SCC with what stands in its way. */
export interface Nearest {
  readonly scc: PreparedScc;
  readonly obstacles: readonly Obstacle[];
}

/** Finds the SCC that the fewest fields of the pod stand in the way of, of several the first; none where all are broken. */
export function findNearest(pod: PodFields, misfits: readonly Misfit[]): Nearest | undefined {
  let nearest: Nearest | undefined;
  for (const { scc, errors } of misfits) {
    const obstacles = obstaclesOf(pod, errors);
    if (obstacles.length === 0 || obstacles.length >= (nearest?.obstacles.length ?? Infinity)) continue;
    nearest = { scc, obstacles };
  }
  return nearest;
}

/**
 * Finds the SCC whose use should be granted, out of those that nobody concerned may use: of all that would admit the pod
 * the least permissive, whatever its priority.
 */
export function findGrantable(search: SearchInput, denied: readonly PreparedScc[]): PreparedScc | undefined {
  let best: PreparedScc | undefined;
  for (const scc of denied) {
    if (scc.score < (best?.score ?? Infinity) && admits(scc, search)) best = scc;
  }
  return best;
}
