import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject } from '../../kube/types.ts';
import { assignScc } from './assign.ts';
import { changesOf, type Change } from './changes.ts';
import { explainScc, type ProposedScc } from './explain.ts';
import type { Obstacle } from './obstacles.ts';
import type { SccInput } from './types.ts';

/** A pod that an SCC admits. */
export interface PlannedAdmission {
  readonly outcome: 'admitted';
  readonly scc: string;
  /** Who was allowed to use the SCC: `serviceaccount` or `user`. */
  readonly subjectType: string;
  /** What the SCC changes. */
  readonly changes: readonly Change[];
}

/** A pod that SCCs have nothing to do with. */
export interface PlannedPass {
  readonly outcome: 'ignored';
}

/** A pod that is refused. */
export interface PlannedRefusal {
  readonly outcome: 'refused';
  /** The text of the refusal. */
  readonly message: string;
  /** The SCC that the fewest fields stand in the way of; none where no SCC was tried. */
  readonly nearest?: { readonly scc: string; readonly obstacles: readonly Obstacle[] };
  /** The least permissive SCC that would admit the pod, if its use were granted; none: no SCC ever could. */
  readonly grantable?: string;
  /** Where that one allows everything, though no container is privileged: a better one, which would have to be written. */
  readonly ownScc?: ProposedScc;
}

export type PlannedPod = PlannedAdmission | PlannedPass | PlannedRefusal;

/** What would become of a pod that is created. */
export function planPod(input: Omit<SccInput, 'operation' | 'subResource' | 'oldObject'>): PlannedPod {
  const request: SccInput = { ...input, operation: 'CREATE' };
  const decision = assignScc(request);
  if (!decision.allowed) return refusalOf(request, decision.status.message);
  const scc = annotationOf(decision.object, POD_SCC_ANNOTATIONS.scc);
  if (scc === undefined || decision.object === input.object) return { outcome: 'ignored' };
  const subjectType = annotationOf(decision.object, POD_SCC_ANNOTATIONS.subjectType) ?? '';
  return { outcome: 'admitted', scc, subjectType, changes: changesOf(input.object, decision.object) };
}

/** Only refusals are worth the attempt of every SCC. */
function refusalOf(request: SccInput, message: string): PlannedRefusal {
  const { sccs, nearest, grantable, ownScc } = explainScc(request);
  const found = sccs.find(({ name }) => name === nearest);
  return {
    outcome: 'refused',
    message,
    ...(found ? { nearest: { scc: found.name, obstacles: found.obstacles } } : {}),
    ...(grantable === undefined ? {} : { grantable }),
    ...(ownScc === undefined ? {} : { ownScc }),
  };
}

function annotationOf(pod: unknown, key: string): string | undefined {
  const metadata = isObject(pod) ? pod['metadata'] : undefined;
  const annotations = isObject(metadata) ? metadata['annotations'] : undefined;
  const value = isObject(annotations) ? annotations[key] : undefined;
  return typeof value === 'string' ? value : undefined;
}
