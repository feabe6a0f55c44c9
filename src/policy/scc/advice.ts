import type { FieldError } from '../../kube/field-error.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { changesOf } from './changes.ts';
import { obstaclesOf, type Obstacle } from './obstacles.ts';
import { ownSccFor, type OwnScc } from './own-scc.ts';
import type { PreparedScc } from './prepare.ts';
import { admits, attemptScc, type SearchInput, type SearchResult } from './search.ts';
import { writePod } from './write.ts';

/** What would help a pod that no SCC admits. */
export interface Advice {
  /**
   * Of the SCCs that may be used, the one that the fewest fields stand in the way of, of several the first; where none may
   * be used, and none would admit the pod, of all. Absent if they are broken.
   */
  readonly nearest?: Nearest;
  /**
   * Of the SCCs that may not be used but would admit the pod, the least permissive, whatever its priority: what is granted
   * lasts.
   */
  readonly grantable?: PreparedScc;
  /** Where that one allows everything: a better one, which would have to be written. */
  readonly ownScc?: OwnScc;
  /** The first SCC that would admit the pod if it were allowed to change it, with the fields; nothing else helps then. */
  readonly changing?: { readonly scc: PreparedScc; readonly paths: readonly string[] };
}

/** An SCC with what stands in its way: at least one field. */
export interface Nearest {
  readonly scc: PreparedScc;
  readonly obstacles: readonly Obstacle[];
}

/** Finds what would help a pod for which a search found nothing. */
export function adviceOn(search: SearchInput, { passedOver }: SearchResult): Advice {
  const changing = passedOver.find(({ because }) => because === 'changes')?.scc;
  if (changing) return { changing: { scc: changing, paths: changedPaths(changing, search) } };
  const denied = passedOver.filter(({ because }) => because === 'denied').map(({ scc }) => scc);
  const grantable = findGrantable(search, denied);
  const isAnyUsable = denied.length < passedOver.length;
  const misfits = isAnyUsable || grantable ? passedOver : denied.map((scc) => attempted(scc, search));
  const nearest = findNearest(search, misfits);
  const ownScc = grantable && ownSccFor(search, grantable);
  return {
    ...(nearest ? { nearest } : {}),
    ...(grantable ? { grantable } : {}),
    ...(ownScc ? { ownScc } : {}),
  };
}

interface Misfit {
  readonly scc: PreparedScc;
  readonly errors: readonly FieldError[];
  /** True if it may have more errors than these. */
  readonly isCut?: true;
}

function attempted(scc: PreparedScc, search: SearchInput): Misfit {
  return { scc, errors: attemptScc(scc, search).errors };
}

function findNearest({ pod }: SearchInput, misfits: readonly Misfit[]): Nearest | undefined {
  let nearest: Nearest | undefined;
  for (const { scc, errors, isCut } of misfits) {
    if (errors.length === 0 || isCut === true) continue;
    const best = nearest?.obstacles.length;
    const obstacles = obstaclesOf(pod, errors, best);
    if (obstacles.length > 0 && obstacles.length < (best ?? Infinity)) nearest = { scc, obstacles };
    if (nearest?.obstacles.length === 1) break;
  }
  return nearest;
}

function findGrantable(search: SearchInput, denied: readonly PreparedScc[]): PreparedScc | undefined {
  let best: PreparedScc | undefined;
  for (const scc of denied) {
    if (scc.score < (best?.score ?? Infinity) && admits(scc, search)) best = scc;
  }
  return best;
}

function changedPaths(scc: PreparedScc, search: SearchInput): readonly string[] {
  const changed = writePod(attemptScc(scc, search), { [POD_SCC_ANNOTATIONS.scc]: scc.name });
  return changesOf(search.pod.json, changed).map(({ path }) => path);
}
