/** Explanations of a decision: every SCC with its errors, and plans of pods that do not exist yet. */
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import type { JsonObject, Namespace, Pod } from '../../../kube/types.ts';
import type { SubjectType } from '../access.ts';
import { evaluate, mutableFields, type Evaluation } from '../assign.ts';
import { completePod, writePod } from '../complete.ts';
import { formatErrors } from '../messages.ts';
import { bindingError } from '../namespace.ts';
import { podAnnotation, type SccDecision, type SccInput } from '../request.ts';
import type { PreparedScc } from '../scc.ts';
import { createSearch, isMutationAllowed, type Search } from '../search.ts';
import { findChanges, type Change } from './changes.ts';
import {
  copyScc,
  findCustomScc,
  findDisallowedFields,
  findSuggestion,
  formatDisallowedField,
  type DisallowedField,
  type Suggestion,
} from './suggestion.ts';

/** The result of one SCC for a pod. */
export interface ExplainedScc {
  readonly name: string;
  readonly priority: number;
  /** The permissiveness in points: SCCs with fewer points are tried first. */
  readonly score: number;
  /** False if the pod requires another SCC by its annotation. */
  readonly isCandidate: boolean;
  /** All subjects that may use the SCC, the service account first. */
  readonly usableBy: readonly SubjectType[];
  readonly fits: boolean;
  /** The messages of the denial; empty if the pod fits. */
  readonly errors: readonly string[];
  readonly disallowedFields: readonly DisallowedField[];
  /** Why the SCC cannot be used in the namespace. */
  readonly broken?: string;
  /** The pod that the SCC would admit, if it fits. */
  readonly object?: JsonObject;
}

/** A decision with the reasons of each SCC. The suggestion applies to a denied pod. */
export interface SccExplanation extends Omit<Suggestion, 'closest'> {
  /** The decision of `assignScc`. */
  readonly decision: SccDecision;
  /** All SCCs in the order of evaluation; empty if the decision does not depend on SCCs. */
  readonly sccs: readonly ExplainedScc[];
  /** The SCC that admits the pod. */
  readonly chosen?: string;
  /** The next SCC that would admit the pod. */
  readonly next?: string;
  /** Why the chosen SCC is ordered before the next. */
  readonly reason?: string;
  /** The name of the closest SCC of the suggestion. */
  readonly closest?: string;
}

const CANNOT_CHANGE = 'the SCC would have to change the pod, which an update cannot do';

/** Evaluates every SCC for a pod, whether it is usable or not, and returns the results with the decision. */
export function explainScc(input: SccInput): SccExplanation {
  const evaluation = evaluate(input, 'assign');
  const { decision, pod } = evaluation;
  if (!pod) return { decision, sccs: [] };
  const search = createSearch(input, pod, { mutable: mutableFields(input) });
  const sccs = search.candidates.map((scc) => explain(scc, search));
  if (decision.allowed) return { decision, sccs, ...explainChoice(decision, sccs) };
  const { closest, ...suggestion } = suggest(evaluation);
  return { decision, sccs, ...(closest ? { closest: closest.scc } : {}), ...suggestion };
}

function explain(scc: PreparedScc, search: Search): ExplainedScc {
  const { pod, subjects, mayUse, namespace, mutable } = search;
  const { name, score, fields } = scc;
  const completion = completePod(scc, search);
  const { errors } = completion;
  const fits = errors.length === 0 && isMutationAllowed(completion, mutable);
  const broken = bindingError(scc, namespace);
  const usableBy: SubjectType[] = [];
  if (subjects.serviceAccount && mayUse(subjects.serviceAccount, scc)) usableBy.push('serviceaccount');
  if (mayUse(subjects.user, scc)) usableBy.push('user');
  const annotations = {
    [POD_SCC_ANNOTATIONS.scc]: name,
    ...(usableBy[0] === undefined ? {} : { [POD_SCC_ANNOTATIONS.subjectType]: usableBy[0] }),
  };
  const messages = [...new Set(formatErrors(name, errors))];
  return {
    name,
    priority: fields.priority,
    score,
    isCandidate: (pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] || name) === name,
    usableBy,
    fits,
    errors: fits || messages.length > 0 ? messages : [CANNOT_CHANGE],
    disallowedFields: findDisallowedFields(pod, errors),
    ...(broken === undefined ? {} : { broken }),
    ...(fits ? { object: writePod(completion, annotations) } : {}),
  };
}

function explainChoice(
  { facts, auditAnnotations }: SccDecision,
  sccs: readonly ExplainedScc[],
): Pick<SccExplanation, 'chosen' | 'next' | 'reason'> {
  const index = sccs.findIndex(({ name }) => name === facts?.scc);
  // The update of a pod without a recorded SCC is admitted without any.
  if (facts === undefined || index < 0) return {};
  const next = sccs
    .slice(index + 1)
    .find(({ isCandidate, usableBy, fits }) => isCandidate && usableBy.length > 0 && fits);
  const reason = auditAnnotations['reason'];
  return { chosen: facts.scc, ...(next ? { next: next.name } : {}), ...(reason === undefined ? {} : { reason }) };
}

function suggest({ search, result }: Evaluation): Suggestion {
  return search && result ? findSuggestion(search, result) : {};
}

export interface PlannedAdmission {
  readonly outcome: 'admitted';
  readonly scc: string;
  /** The subject that may use the SCC: `serviceaccount` or `user`. */
  readonly subjectType: string;
  /** The changes of the SCC in the pod. */
  readonly changes: readonly Change[];
}

export interface PlannedDenial extends Suggestion {
  readonly outcome: 'denied';
  /** The message of the denial. */
  readonly message: string;
}

/** A planned pod. SCCs do not apply to an ignored one. */
export type PlannedPod = PlannedAdmission | PlannedDenial | { readonly outcome: 'ignored' };

/** Decides on the creation of a pod. */
export function planPod(input: Omit<SccInput, 'operation' | 'subResource' | 'oldObject'>): PlannedPod {
  const evaluation = evaluate({ ...input, operation: 'CREATE' }, 'assign');
  const { decision } = evaluation;
  if (!decision.allowed) return { outcome: 'denied', message: decision.status.message, ...suggest(evaluation) };
  const scc = podAnnotation(decision.object, POD_SCC_ANNOTATIONS.scc);
  if (scc === '' || decision.object === input.object) return { outcome: 'ignored' };
  const subjectType = podAnnotation(decision.object, POD_SCC_ANNOTATIONS.subjectType);
  return { outcome: 'admitted', scc, subjectType, changes: findChanges(input.object, decision.object) };
}

/**
 * Returns the custom SCC that `planPod` suggests for a denied pod; `undefined` if it suggests none, or if the pod would still
 * be denied.
 */
export function createCustomScc(
  input: Parameters<typeof planPod>[0] & { readonly sccs: readonly SecurityContextConstraints[] },
  name: string,
): SecurityContextConstraints | undefined {
  const { search, result } = evaluate({ ...input, operation: 'CREATE' }, 'assign');
  const custom = search && result && findCustomScc(search, result);
  const original = custom && input.sccs.find(({ metadata }) => metadata?.name === custom.original);
  if (custom === undefined || original === undefined) return undefined;
  const scc = copyScc(original, name, custom.edits);
  return planPod({ ...input, sccs: [scc], canUse: () => true }).outcome === 'admitted' ? scc : undefined;
}

/** Returns the fields of a pod, with their values, that an SCC would not allow if the pod were created now. */
export function findSccViolations(pod: Pod, scc: SecurityContextConstraints, namespace: Namespace): readonly string[] {
  const input = { operation: 'CREATE', object: pod, namespace, userInfo: {}, sccs: [scc], canUse: () => true } as const;
  return explainScc(input).sccs.flatMap(({ disallowedFields }) => disallowedFields.map(formatDisallowedField));
}
