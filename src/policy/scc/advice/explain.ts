/**
 * Evaluates a pod that does not exist yet. Returns the verdict, the ways to admit a denied pod, and the result of each
 * SCC.
 */
import { defined } from '../../../kube/defined.ts';
import { type PodFieldChange, findChanges } from '../../../kube/pod-changes.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import { findAllSimilar } from '../../../kube/text.ts';
import { type JsonObject, type Namespace, objectMember, type Pod } from '../../../kube/types.ts';
import type { PodFields } from '../../pod/index.ts';
import type { SubjectType } from '../access.ts';
import { evaluateScc, type SccEvaluation } from '../assign.ts';
import { completePod, writePod } from '../complete.ts';
import { type SccDecision, formatErrors } from '../decision.ts';
import { bindingError } from '../namespace.ts';
import { toSccSet } from '../order.ts';
import type { SccInput } from '../request.ts';
import type { PreparedScc } from '../scc.ts';
import { createSearch, type Search } from '../search.ts';
import { createCopy } from './custom-scc.ts';
import { type DisallowedField, findDisallowedFields, formatDisallowedField } from './disallowed-fields.ts';
import { findSuggestedCopy, findSuggestion, type Suggestion } from './suggestion.ts';

/** Input for evaluating the creation of a pod. */
export type PodInput = Omit<SccInput, 'operation' | 'subResource' | 'oldObject'>;

interface PodAdmission {
  readonly outcome: 'admitted';
  readonly scc: string;
  /** Type of the subject that may use the SCC, which is `serviceaccount` or `user`. */
  readonly subjectType: string;
  /** The fields that the SCC changes in the pod. */
  readonly changes: readonly PodFieldChange[];
}

export interface PodDenial extends Suggestion {
  readonly outcome: 'denied';
  /** The denial message. */
  readonly message: string;
}

/** The verdict of SCC admission on a pod. `ignored` means that SCCs do not apply to the pod. */
export type PodVerdict = PodAdmission | PodDenial | { readonly outcome: 'ignored' };

/** Returns the verdict on creating a pod. */
export function decidePod(input: PodInput): PodVerdict {
  return getVerdict(input, evaluateCreation(input));
}

function evaluateCreation(input: PodInput): SccEvaluation {
  return evaluateScc({ ...input, operation: 'CREATE' }, 'assign');
}

function getVerdict(input: PodInput, { decision, pod, search, result }: SccEvaluation): PodVerdict {
  if (!decision.allowed) {
    const suggestion = search && result ? findSuggestion(search, result) : findRequiredScc(input, pod);
    return { outcome: 'denied', message: decision.status.message, ...suggestion };
  }
  const { facts, object } = decision;
  if (facts === undefined) return { outcome: 'ignored' };
  const { scc, subjectType } = facts;
  return { outcome: 'admitted', scc, subjectType, changes: findChanges(input.object, object) };
}

/**
 * Finds the SCC to which a misspelled name in the pod's annotation probably refers. Prefers an SCC that would admit the
 * pod.
 */
function findRequiredScc(input: PodInput, pod: PodFields | undefined): Suggestion {
  const key = POD_SCC_ANNOTATIONS.requiredScc;
  const required = pod?.annotations[key] ?? '';
  const { sccs, byName } = toSccSet(input.sccs);
  if (pod === undefined || required === '' || byName.has(required)) return {};
  const similar = findAllSimilar(
    required,
    sccs.map(({ name }) => name),
  );
  const admitted = similar.find((name) => {
    const annotations = { ...pod.annotations, [key]: name };
    const object = { ...pod.json, metadata: { ...objectMember(pod.json, 'metadata'), annotations } };
    return evaluateCreation({ ...input, object }).decision.allowed;
  });
  const requiredScc = admitted ?? similar[0];
  return requiredScc === undefined ? {} : { requiredScc };
}

/** The result of evaluating one SCC for a pod. */
interface ExplainedScc {
  readonly name: string;
  readonly priority: number;
  /** A measure of how permissive the SCC is. SCCs that have a lower score are tried first. */
  readonly score: number;
  /** False if an annotation of the pod requires a different SCC. */
  readonly isCandidate: boolean;
  /** All subjects that may use the SCC, starting with the service account. */
  readonly usableBy: readonly SubjectType[];
  /** True if the SCC allows the pod. */
  readonly fits: boolean;
  /** The denial messages. Empty if the SCC allows the pod. */
  readonly errors: readonly string[];
  readonly disallowedFields: readonly DisallowedField[];
  /** The reason why the SCC cannot be used in the namespace. */
  readonly broken?: string;
  /** The pod that the SCC would admit. Set only if the SCC allows the pod. */
  readonly object?: JsonObject;
}

/** A verdict with the decision of `assignScc` and the result of each SCC. */
export interface ExplainedPod {
  readonly verdict: PodVerdict;
  readonly decision: SccDecision;
  /** All SCCs in evaluation order. Empty if the decision does not depend on SCCs. */
  readonly sccs: readonly ExplainedScc[];
  /** For an admitted pod, the next SCC that would admit it. */
  readonly next?: string;
}

/** Returns the verdict on creating a pod with the result of every SCC, including SCCs that are not usable. */
export function explainPod(input: PodInput): ExplainedPod {
  const evaluation = evaluateCreation(input);
  const { decision, pod } = evaluation;
  const verdict = getVerdict(input, evaluation);
  if (!pod) return { verdict, decision, sccs: [] };
  const search = createSearch({ ...input, operation: 'CREATE' }, pod, { mutable: 'everything' });
  const sccs = search.candidates.map((scc) => explainScc(scc, search));
  if (verdict.outcome !== 'admitted') return { verdict, decision, sccs };
  const next = sccs
    .slice(sccs.findIndex(({ name }) => name === verdict.scc) + 1)
    .find(({ isCandidate, usableBy, fits }) => isCandidate && usableBy.length > 0 && fits);
  return { verdict, decision, sccs, ...(next ? { next: next.name } : {}) };
}

function explainScc(scc: PreparedScc, search: Search): ExplainedScc {
  const { pod, subjects, mayUse, namespace } = search;
  const { name, score, fields } = scc;
  const completion = completePod(scc, search);
  const { errors } = completion;
  const fits = errors.length === 0;
  const broken = bindingError(scc, namespace);
  const usableBy: SubjectType[] = [];
  if (subjects.serviceAccount && mayUse(subjects.serviceAccount, scc)) usableBy.push('serviceaccount');
  if (mayUse(subjects.user, scc)) usableBy.push('user');
  const annotations = {
    [POD_SCC_ANNOTATIONS.scc]: name,
    ...defined({ [POD_SCC_ANNOTATIONS.subjectType]: usableBy[0] }),
  };
  return {
    name,
    priority: fields.priority,
    score,
    isCandidate: (pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] || name) === name,
    usableBy,
    fits,
    errors: [...new Set(formatErrors(name, errors))],
    disallowedFields: findDisallowedFields(pod, errors),
    ...defined({ broken }),
    ...(fits ? { object: writePod(completion, annotations) } : {}),
  };
}

/** Describes whether an SCC allows a pod, and the reasons if it does not. */
export function describeFit({ name, fits, broken, errors }: ExplainedScc) {
  const prefix = `provider ${name}: `;
  return {
    fits: fits ? 'yes' : broken === undefined ? 'no' : 'broken',
    reasons:
      broken === undefined
        ? errors.map((error) => (error.startsWith(prefix) ? error.slice(prefix.length) : error))
        : [broken],
  };
}

/** Returns the custom SCC that `decidePod` suggests for a denied pod. Returns `undefined` if there is no suggestion. */
export function createCustomScc(
  input: PodInput & { readonly sccs: readonly SecurityContextConstraints[] },
  name: string,
): CustomScc | undefined {
  const { search, result } = evaluateCreation(input);
  const found = search && result && findSuggestedCopy(search, result);
  if (!found) return undefined;
  const { copy, corrections } = found;
  return { scc: createCopy(copy, name), original: copy.original, corrections: corrections?.changes ?? [] };
}

interface CustomScc {
  readonly scc: SecurityContextConstraints;
  readonly original: SecurityContextConstraints;
  /** Verb phrases that describe the changes to the pod without which the SCC does not admit it. */
  readonly corrections: readonly string[];
}

/** Returns the fields and values that an SCC would not allow if the pod were created now. */
export function findSccViolations(pod: Pod, scc: SecurityContextConstraints, namespace: Namespace): readonly string[] {
  const { sccs } = explainPod({ object: pod, namespace, userInfo: {}, sccs: [scc], access: { canUse: () => true } });
  return sccs.flatMap(({ disallowedFields }) => disallowedFields.map(formatDisallowedField));
}
