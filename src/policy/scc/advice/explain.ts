/** Explanations of a decision: every SCC with its errors, and plans of pods that do not exist yet. */
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import type { JsonObject, Namespace, Pod } from '../../../kube/types.ts';
import { findSubjectTypes, type SubjectType } from '../access.ts';
import { assignScc, mutableFields } from '../assign.ts';
import { completePod, writePod } from '../complete.ts';
import type { SccPod } from '../pod.ts';
import { bindingError } from '../namespace.ts';
import { findCandidates, getSccSet } from '../order.ts';
import { podAnnotation, readRequest, type SccDecision, type SccInput } from '../request.ts';
import type { PreparedScc } from '../scc.ts';
import {
  createSearch,
  isMutationAllowed,
  prefersUserNamespaces,
  prepareSearch,
  searchScc,
  type SearchInput,
} from '../search.ts';
import { formatErrors } from '../messages.ts';
import { findChanges, type Change } from './changes.ts';
import { findDisallowedFields, findSuggestion, formatDisallowedField, type DisallowedField } from './suggestion.ts';

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

export interface SccExplanation {
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
  /** For a denied pod: the usable SCC with the fewest disallowed fields. If none is usable, the closest of all. */
  readonly closest?: string;
  /** For a denied pod: the least permissive SCC that would admit it if its use were granted. */
  readonly grantable?: string;
  /** Set if `grantable` allows everything: a custom SCC that allows less. */
  readonly suggestedScc?: SuggestedScc;
}

/** A custom SCC that would admit a pod: a copy of an existing SCC with changes. */
export interface SuggestedScc {
  readonly copyOf: string;
  /** Verb phrases: `set allowedCapabilities=NET_ADMIN`, `allow runAsUser 65534`. */
  readonly changes: readonly string[];
}

const CANNOT_CHANGE = 'the SCC would have to change the pod, which an update cannot do';

/** Evaluates every SCC for a pod, whether it is usable or not, and returns the results with the decision. */
export function explainScc(input: SccInput): SccExplanation {
  const decision = assignScc(input);
  const read = readRequest(input);
  if (read.verdict !== 'judge') return { decision, sccs: [] };
  const { pod } = read.request;
  const candidates = findCandidates(getSccSet(input), {
    preferUserNamespaces: prefersUserNamespaces(input, pod),
  });
  const search = createSearch(input, pod, {
    candidates: 'error' in candidates ? [] : candidates.sccs,
    mutable: mutableFields(input),
  });
  const sccs = search.candidates.map((scc) => explain(scc, search));
  return { decision, sccs, ...(decision.allowed ? explainChoice(decision, sccs) : explainDenial(input, pod)) };
}

function explain(scc: PreparedScc, search: SearchInput): ExplainedScc {
  const requiredScc = requiredSccName(search.pod);
  const { name, score, fields } = scc;
  const completion = completePod(scc, search);
  const { errors } = completion;
  const fits = errors.length === 0 && isMutationAllowed(completion, search.mutable);
  const broken = bindingError(scc, search.namespace);
  const usableBy = findSubjectTypes(scc, search.subjects, search.mayUse);
  const [subjectType] = usableBy;
  const annotations = {
    [POD_SCC_ANNOTATIONS.scc]: name,
    ...(subjectType === undefined ? {} : { [POD_SCC_ANNOTATIONS.subjectType]: subjectType }),
  };
  const messages = [...new Set(formatErrors(name, errors))];
  return {
    name,
    priority: fields.priority,
    score,
    isCandidate: requiredScc === '' || requiredScc === name,
    usableBy,
    fits,
    errors: fits || messages.length > 0 ? messages : [CANNOT_CHANGE],
    disallowedFields: findDisallowedFields(search.pod, errors),
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

/** Returns nothing for a request that is denied before SCCs are evaluated. */
function explainDenial(input: SccInput, pod: SccPod): Pick<SccExplanation, 'closest' | 'grantable' | 'suggestedScc'> {
  const requiredScc = requiredSccName(pod);
  const search = prepareSearch(input, pod, { requiredScc, recordedScc: '', mutable: mutableFields(input) });
  if ('error' in search) return {};
  const { closest, grantable, suggestedScc } = findSuggestion(search, searchScc(search));
  return {
    ...(closest ? { closest: closest.scc.name } : {}),
    ...(grantable ? { grantable: grantable.name } : {}),
    ...(suggestedScc ? { suggestedScc: { ...suggestedScc, copyOf: suggestedScc.copyOf.name } } : {}),
  };
}

function requiredSccName({ annotations }: SccPod): string {
  return annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
}

export interface PlannedAdmission {
  readonly outcome: 'admitted';
  readonly scc: string;
  /** The subject that may use the SCC: `serviceaccount` or `user`. */
  readonly subjectType: string;
  /** What the SCC changes in the pod. */
  readonly changes: readonly Change[];
}

/** A pod that SCCs do not apply to. */
export interface PlannedPass {
  readonly outcome: 'ignored';
}

export interface PlannedRefusal {
  readonly outcome: 'refused';
  /** The message of the denial. */
  readonly message: string;
  /** The SCC with the fewest disallowed fields; absent if no SCC was evaluated. */
  readonly closest?: { readonly scc: string; readonly disallowedFields: readonly DisallowedField[] };
  /** The least permissive SCC that would admit the pod if its use were granted. */
  readonly grantable?: string;
  /** Set if `grantable` allows everything: a custom SCC that allows less. */
  readonly suggestedScc?: SuggestedScc;
}

export type PlannedPod = PlannedAdmission | PlannedPass | PlannedRefusal;

/** Decides on the creation of a pod. Only a denial evaluates every SCC. */
export function planPod(input: Omit<SccInput, 'operation' | 'subResource' | 'oldObject'>): PlannedPod {
  const request: SccInput = { ...input, operation: 'CREATE' };
  const decision = assignScc(request);
  if (!decision.allowed) return planRefusal(request, decision.status.message);
  const scc = podAnnotation(decision.object, POD_SCC_ANNOTATIONS.scc);
  if (scc === '' || decision.object === input.object) return { outcome: 'ignored' };
  const subjectType = podAnnotation(decision.object, POD_SCC_ANNOTATIONS.subjectType);
  return { outcome: 'admitted', scc, subjectType, changes: findChanges(input.object, decision.object) };
}

function planRefusal(request: SccInput, message: string): PlannedRefusal {
  const { sccs, closest, grantable, suggestedScc } = explainScc(request);
  const closestScc = sccs.find(({ name }) => name === closest);
  return {
    outcome: 'refused',
    message,
    ...(closestScc ? { closest: { scc: closestScc.name, disallowedFields: closestScc.disallowedFields } } : {}),
    ...(grantable === undefined ? {} : { grantable }),
    ...(suggestedScc === undefined ? {} : { suggestedScc }),
  };
}

/** Returns the fields of a pod, with their values, that an SCC would not allow if the pod were created now. */
export function findSccViolations(pod: Pod, scc: SecurityContextConstraints, namespace: Namespace): readonly string[] {
  const input = { operation: 'CREATE', object: pod, namespace, userInfo: {}, sccs: [scc], canUse: () => true } as const;
  return explainScc(input).sccs.flatMap(({ disallowedFields }) => disallowedFields.map(formatDisallowedField));
}
