/** Searches for the first usable SCC that allows a pod. */
import type { FieldError } from '../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../pod/index.ts';
import { createMayUse, findSubjectType, type MayUse, podSubjects, type Subjects, type SubjectType } from './access.ts';
import { type Budget, createBudget, createBudgetError, MAX_ERRORS, spendErrors, spendEvaluation } from './budget.ts';
import { allowsPod, type ChangeExtent, completePod, type Completion, findExtent } from './complete.ts';
import { aggregate, formatErrors, notUsableMessage, omittedErrorsMessage } from './decision.ts';
import { bindingError, type NamespaceRanges, readNamespaceRanges } from './namespace.ts';
import { type CandidatesInput, findCandidates, toSccSet } from './order.ts';
import type { SccInput } from './request.ts';
import type { PreparedScc } from './scc.ts';

export interface Search {
  readonly input: SccInput;
  /** The SCCs in the order in which they are evaluated. */
  readonly candidates: readonly PreparedScc[];
  readonly candidatesError: string | undefined;
  readonly namespace: NamespaceRanges;
  readonly pod: PodFields;
  readonly subjects: Subjects;
  readonly mayUse: MayUse;
  /** The parts of the pod that an SCC may change. */
  readonly mutable: ChangeExtent;
  readonly budget: Budget;
}

interface SearchOptions extends Omit<CandidatesInput, 'preferUserNamespaces'> {
  readonly mutable: ChangeExtent;
}

/**
 * Creates the search for a pod. If the candidates cannot be determined, the list is empty and `candidatesError` is set.
 */
export function createSearch(input: SccInput, pod: PodFields, { mutable, ...options }: SearchOptions): Search {
  const { userInfo, access, compatibility } = input;
  const namespace = input.namespaceRanges ?? readNamespaceRanges(input.namespace);
  const { serviceAccountName } = pod;
  const preferUserNamespaces = input.preferUserNamespaces === true && pod.hostUsers === false;
  const candidates = findCandidates(toSccSet(input.sccs), { ...options, preferUserNamespaces });
  return {
    input,
    candidates: 'error' in candidates ? [] : candidates.sccs,
    candidatesError: 'error' in candidates ? candidates.error : undefined,
    namespace,
    pod,
    subjects: podSubjects({ userInfo, serviceAccountName, namespaceName: namespace.name, compatibility }),
    mayUse: createMayUse(access, namespace.name),
    mutable,
    budget: createBudget(),
  };
}

/** Returns the denial message if SCCs cannot be evaluated, or `undefined` otherwise. */
export function findProblem({ input, candidates, candidatesError, namespace }: Search): string | undefined {
  const problem = candidatesError ?? namespace.problem;
  if (problem !== undefined || input.compatibility !== 'openshift') return problem;
  // OpenShift denies every pod if one of the SCCs cannot be used.
  const errors = candidates.map((scc) => bindingError(scc, namespace)).filter((error) => error !== undefined);
  return errors.length === 0 ? undefined : aggregate(errors);
}

/** An SCC that does not admit the pod. */
export interface Rejection {
  readonly scc: PreparedScc;
  /**
   * `denied` means that the SCC is not usable, and `errors` means that it does not allow the pod. `changes` means that
   * the SCC would have to change immutable parts of the pod.
   */
  readonly reason: 'denied' | 'errors' | 'changes';
  /** The values that the SCC does not allow. Empty once the error budget is exhausted. */
  readonly errors: readonly FieldError[];
  /** The denial messages. Empty if the reason is `changes`. */
  readonly messages: readonly string[];
}

export interface SccAdmission {
  readonly scc: PreparedScc;
  readonly completion: Completion;
  readonly subjectType: SubjectType;
}

export interface SearchResult {
  readonly rejections: readonly Rejection[];
  readonly admission?: SccAdmission;
  /** Set if the search stopped because the pod is too large for evaluating the remaining SCCs. */
  readonly budgetError?: FieldError;
}

/** Evaluates the candidates in order until one of them admits the pod. */
export function searchScc(search: Search): SearchResult {
  const { budget, candidates, mutable } = search;
  const rejections: Rejection[] = [];
  let maxErrors = MAX_ERRORS;
  for (const scc of candidates) {
    const subjectType = findSubjectType(scc, search);
    if (subjectType === undefined) {
      rejections.push({ scc, reason: 'denied', errors: [], messages: [notUsableMessage(scc.name)] });
      continue;
    }
    if (!spendEvaluation(budget, scc, search)) {
      return { rejections, budgetError: createBudgetError(scc, search, candidates.length) };
    }
    const completion = completePod(scc, search, maxErrors);
    const { errors } = completion;
    if (errors.length > 0) {
      rejections.push(
        maxErrors === 1
          ? { scc, reason: 'errors', errors: [], messages: [omittedErrorsMessage(scc.name)] }
          : { scc, reason: 'errors', errors, messages: formatErrors(scc.name, errors) },
      );
      if (!spendErrors(budget, errors)) maxErrors = 1;
    } else if (isMutationAllowed(completion, mutable)) {
      return { rejections, admission: { scc, completion, subjectType } };
    } else rejections.push({ scc, reason: 'changes', errors: [], messages: [] });
  }
  return { rejections };
}

/** Returns the next SCC after the chosen one that would admit the pod, or `unknown` if the budget is exhausted. */
export function findNextAdmitting(search: Search, chosen: PreparedScc): PreparedScc | 'unknown' | undefined {
  let isNext = false;
  for (const scc of search.candidates) {
    if (!isNext) {
      isNext = scc === chosen;
      continue;
    }
    if (findSubjectType(scc, search) === undefined) continue;
    if (!spendEvaluation(search.budget, scc, search)) return 'unknown';
    if (allowsPod(scc, search)) return scc;
  }
  return undefined;
}

/**
 * Returns true if the SCC would admit the pod and the API server would accept the result. The user may lack permission
 * to use the SCC.
 */
export function admits(scc: PreparedScc, search: Search): boolean {
  const completion = completePod(scc, search, 1);
  const { errors } = completion;
  return errors.length === 0 && isMutationAllowed(completion, search.mutable) && !findContradiction(completion);
}

/**
 * Returns a container because of which the API server rejects the defaulted pod. Containers that are privileged or add
 * CAP_SYS_ADMIN cannot disallow privilege escalation.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go
 */
export function findContradiction({ pod, containerValues }: Completion): ContainerFields | undefined {
  return pod.containers.find(({ privileged }, index) => {
    const { allowPrivilegeEscalation, capabilities } = containerValues[index] ?? {};
    return allowPrivilegeEscalation === false && (privileged || capabilities?.add.includes('CAP_SYS_ADMIN') === true);
  });
}

function isMutationAllowed(completion: Completion, mutable: ChangeExtent): boolean {
  if (mutable === 'everything') return true;
  const extent = findExtent(completion);
  return extent === 'nothing' || extent === mutable;
}
