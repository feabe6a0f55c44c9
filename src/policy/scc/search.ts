/** The search for the first SCC that is usable and allows a pod. */
import type { FieldError } from '../../kube/field-error.ts';
import {
  createMayUse,
  createSubjectTypeOf,
  podSubjects,
  type Subject,
  type Subjects,
  type SubjectType,
} from './access.ts';
import { createBudget, createBudgetError, MAX_ERRORS, spendErrors, spendEvaluation, type Budget } from './budget.ts';
import { allowsPod, completePod, findExtent, type Completion, type Extent } from './complete.ts';
import { aggregate, formatErrors, notUsableMessage, omittedErrorsMessage } from './messages.ts';
import { resolveCompatibility } from './mode.ts';
import { bindingError, readNamespaceRanges, type NamespaceRanges } from './namespace.ts';
import { findCandidates, getSccSet } from './order.ts';
import type { SccPod } from './pod.ts';
import type { SccInput } from './request.ts';
import type { PreparedScc } from './scc.ts';

export interface SearchInput {
  /** In the order of evaluation. */
  readonly candidates: readonly PreparedScc[];
  readonly namespace: NamespaceRanges;
  readonly pod: SccPod;
  readonly subjects: Subjects;
  readonly mayUse: (subject: Subject, scc: PreparedScc) => boolean;
  /** The subject that may use the SCC; `undefined` if it is not usable. */
  readonly subjectTypeOf: (scc: PreparedScc) => SubjectType | undefined;
  /** What the SCC may change in the pod. */
  readonly mutable: Extent;
  readonly budget: Budget;
}

/** An SCC that does not admit the pod. */
export interface Rejection {
  readonly scc: PreparedScc;
  /** `denied`: not usable. `errors`: does not allow the pod. `changes`: would have to change what may not change. */
  readonly reason: 'denied' | 'errors' | 'changes';
  readonly errors: readonly FieldError[];
  /** The messages of the denial; empty for `changes`. */
  readonly messages: readonly string[];
  /** True if errors are omitted. */
  readonly isCut: boolean;
}

/** The SCC that admits the pod. */
export interface Admission {
  readonly scc: PreparedScc;
  readonly completion: Completion;
  readonly subjectType: SubjectType;
}

export interface SearchResult {
  readonly rejections: readonly Rejection[];
  readonly admission: Admission | undefined;
  /** Set if the search was aborted because the pod is too large to evaluate the remaining SCCs. */
  readonly budgetError?: FieldError;
}

/** Evaluates the candidates in order until one admits the pod. */
export function searchScc(input: SearchInput): SearchResult {
  const { budget, candidates, mutable } = input;
  const rejections: Rejection[] = [];
  let maxErrors = MAX_ERRORS;
  for (const scc of candidates) {
    const subjectType = input.subjectTypeOf(scc);
    if (subjectType === undefined) {
      const messages = [notUsableMessage(scc.name)];
      rejections.push({ scc, reason: 'denied', errors: [], messages, isCut: false });
      continue;
    }
    if (!spendEvaluation(budget, scc, input)) {
      return { rejections, admission: undefined, budgetError: createBudgetError(scc, input, candidates.length) };
    }
    const completion = completePod(scc, input, maxErrors);
    const { errors } = completion;
    if (errors.length > 0) {
      const isCut = maxErrors === 1;
      const messages = isCut ? [omittedErrorsMessage(scc.name)] : formatErrors(scc.name, errors);
      rejections.push({ scc, reason: 'errors', errors, messages, isCut });
      if (!spendErrors(budget, errors)) maxErrors = 1;
    } else if (isMutationAllowed(completion, mutable)) {
      return { rejections, admission: { scc, completion, subjectType } };
    } else rejections.push({ scc, reason: 'changes', errors: [], messages: [], isCut: false });
  }
  return { rejections, admission: undefined };
}

/** Returns the next SCC after the chosen one that would admit the pod; `'unknown'` if the budget does not suffice. */
export function findNextAdmitting(input: SearchInput, chosen: PreparedScc): PreparedScc | 'unknown' | undefined {
  for (const scc of input.candidates.slice(input.candidates.indexOf(chosen) + 1)) {
    if (input.subjectTypeOf(scc) === undefined) continue;
    if (!spendEvaluation(input.budget, scc, input)) return 'unknown';
    if (allowsPod(scc, input)) return scc;
  }
  return undefined;
}

/** True if the SCC would admit the pod if it were usable. */
export function admits(scc: PreparedScc, input: SearchInput): boolean {
  if (input.mutable === 'everything') return allowsPod(scc, input);
  const completion = completePod(scc, input);
  return completion.errors.length === 0 && isMutationAllowed(completion, input.mutable);
}

export function isMutationAllowed(completion: Completion, mutable: Extent): boolean {
  if (mutable === 'everything') return true;
  const extent = findExtent(completion);
  return extent === 'nothing' || extent === mutable;
}

/** The parameters of the mutating or the validating pass. */
interface Pass {
  readonly requiredScc: string;
  readonly recordedScc: string;
  readonly mutable: Extent;
}

/** Creates the search for a pass. The error is the message of the denial if no SCC can be evaluated. */
export function prepareSearch(
  input: SccInput,
  pod: SccPod,
  { requiredScc, recordedScc, mutable }: Pass,
): SearchInput | { readonly error: string } {
  const { brokenScc, requiredSccs } = resolveCompatibility(input.compatibility);
  const preferUserNamespaces = prefersUserNamespaces(input, pod);
  const options = { requiredSccs, requiredScc, recordedScc, preferUserNamespaces };
  const candidates = findCandidates(getSccSet(input), options);
  if ('error' in candidates) return candidates;
  const search = createSearch(input, pod, { candidates: candidates.sccs, mutable });
  const { namespace } = search;
  if (namespace.problem !== undefined) return { error: namespace.problem };
  if (brokenScc === 'refuse') {
    const errors = candidates.sccs.map((scc) => bindingError(scc, namespace)).filter((error) => error !== undefined);
    if (errors.length > 0) return { error: aggregate(errors) };
  }
  return search;
}

export function prefersUserNamespaces({ preferUserNamespaces }: SccInput, { hostUsers }: SccPod): boolean {
  return preferUserNamespaces === true && hostUsers === false;
}

/** Creates a search among these SCCs without the checks of `prepareSearch`. */
export function createSearch(
  input: SccInput,
  pod: SccPod,
  { candidates, mutable }: Pick<SearchInput, 'candidates' | 'mutable'>,
): SearchInput {
  const { userInfo, canUse, compatibility } = input;
  const namespace = readNamespaceRanges(input.namespace);
  const { name: namespaceName } = namespace;
  const { identity } = resolveCompatibility(compatibility);
  const subjects = podSubjects({ userInfo, serviceAccountName: pod.serviceAccountName, namespaceName, identity });
  return {
    candidates,
    namespace,
    pod,
    subjects,
    mayUse: createMayUse(canUse, namespaceName),
    subjectTypeOf: createSubjectTypeOf(canUse, namespaceName, subjects),
    mutable,
    budget: createBudget(),
  };
}
