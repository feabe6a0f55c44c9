import type { FieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { type Subjects, type SubjectType, createMayUse, createSubjectTypeOf, subjectsOf } from './access.ts';
import { applyScc, extentOf, unchanged, type Attempt } from './attempt.ts';
import { bindScc, type NamespaceRanges, bindingError, namespaceRangesOf } from './namespace.ts';
import type { PodFields } from './decode/pod.ts';
import { excessOf, spendErrors, spendLooks, type Effort, createEffort } from './budget.ts';
import type { PreparedScc } from './scc.ts';
import { MAX_ERRORS } from './strategies/index.ts';
import { misfitText, aggregate } from './messages.ts';
import type { Subject, SccInput } from './request.ts';
import { findCandidates } from './order.ts';
import { resolveCompatibility } from './mode.ts';

const NO_ERRORS: readonly FieldError[] = [];

export interface SearchInput {
  /** In the order in which they are tried. */
  readonly candidates: readonly PreparedScc[];
  readonly namespace: NamespaceRanges;
  readonly pod: PodFields;
  readonly subjects: Subjects;
  /** By the SCC itself or the authorizer. */
  readonly mayUse: (subject: Subject, scc: PreparedScc) => boolean;
  /** As who of the two the SCC may be used. */
  readonly subjectTypeOf: (scc: PreparedScc) => SubjectType | undefined;
  /** What the SCC may change in the pod. */
  readonly mutable: 'everything' | 'ephemeralContainers' | 'nothing';
  readonly effort: Effort;
}

/** An SCC that was passed over: not usable, not fitting, or fitting with changes that are not allowed. */
export interface PassedOver {
  readonly scc: PreparedScc;
  readonly because: 'denied' | 'errors' | 'changes';
  /** Empty unless it does not fit. */
  readonly errors: readonly FieldError[];
  /** Made when first asked for, by `textsOf`. */
  texts?: readonly string[];
  /** True if it may have more errors, which nobody would read. */
  readonly isCut?: true;
}

export interface Chosen {
  readonly scc: PreparedScc;
  readonly attempt: Attempt;
  readonly subjectType: SubjectType;
}

export interface SearchResult {
  readonly passedOver: readonly PassedOver[];
  /** The first that is usable and fits. */
  readonly chosen: Chosen | undefined;
  /** Why the search was given up: nothing is known of the SCCs that are left. */
  readonly excess?: FieldError;
}

/** Tries the candidates one after the other. */
export function searchScc(input: SearchInput): SearchResult {
  const passedOver: PassedOver[] = [];
  const { effort, candidates } = input;
  let maxErrors = MAX_ERRORS;
  for (const scc of candidates) {
    const subjectType = input.subjectTypeOf(scc);
    if (subjectType === undefined) {
      passedOver.push({ scc, because: 'denied', errors: NO_ERRORS });
      continue;
    }
    if (!spendLooks(effort, scc, input)) {
      return { passedOver, chosen: undefined, excess: excessOf(scc, input, candidates.length) };
    }
    const attempt = attemptScc(scc, input, maxErrors);
    const { errors } = attempt;
    if (errors.length > 0) {
      passedOver.push(maxErrors > 1 ? { scc, because: 'errors', errors } : cutShort(scc, errors));
      if (!spendErrors(effort, errors)) maxErrors = 1;
    } else if (isAllowed(attempt, input.mutable)) return { passedOver, chosen: { scc, attempt, subjectType } };
    else passedOver.push({ scc, because: 'changes', errors: NO_ERRORS });
  }
  return { passedOver, chosen: undefined };
}

/** Of so many errors that no more are told. */
function cutShort(scc: PreparedScc, errors: readonly FieldError[]): PassedOver {
  return { scc, because: 'errors', errors: errors.slice(0, 1), texts: [misfitText(scc.name)], isCut: true };
}

/** The next SCC behind the chosen one that is usable and would fit, too; `'unknown'` where it takes too long to find. */
export function findNext(input: SearchInput, chosen: PreparedScc): PreparedScc | 'unknown' | undefined {
  const { candidates } = input;
  for (let index = candidates.indexOf(chosen) + 1; index < candidates.length; index++) {
    const scc = candidates[index];
    if (scc === undefined || input.subjectTypeOf(scc) === undefined) continue;
    if (!spendLooks(input.effort, scc, input)) return 'unknown';
    if (fitsScc(scc, input)) return scc;
  }
  return undefined;
}

/** The pod under one SCC. An SCC that cannot work in the namespace fits no pod of it. */
export function attemptScc(
  scc: PreparedScc,
  { namespace, pod }: Pick<SearchInput, 'namespace' | 'pod'>,
  maxErrors = MAX_ERRORS,
): Attempt {
  const bound = bindScc(scc, namespace);
  if (!('error' in bound)) return applyScc({ scc: scc.fields, bound: bound.value, pod, maxErrors });
  return unchanged(pod, [internalError(scc, bound.error)]);
}

function internalError({ name }: PreparedScc, detail: string): FieldError {
  return { type: 'InternalError', path: `provider ${quote(name)}`, detail };
}

/** True if the pod fits the SCC; finds out faster than an attempt. */
export function fitsScc(scc: PreparedScc, { namespace, pod }: Pick<SearchInput, 'namespace' | 'pod'>): boolean {
  const bound = bindScc(scc, namespace);
  return (
    !('error' in bound) && applyScc({ scc: scc.fields, bound: bound.value, pod, maxErrors: 1 }).errors.length === 0
  );
}

/** True if the SCC would admit the pod whoever may use it: the pod fits, and nothing is changed that may not be. */
export function admits(scc: PreparedScc, input: SearchInput): boolean {
  if (input.mutable === 'everything') return fitsScc(scc, input);
  const attempt = attemptScc(scc, input);
  return attempt.errors.length === 0 && isAllowed(attempt, input.mutable);
}

/** True if the attempt changes no more than what may change. */
export function isAllowed(attempt: Attempt, mutable: SearchInput['mutable']): boolean {
  if (mutable === 'everything') return true;
  const extent = extentOf(attempt);
  return extent === 'nothing' || extent === mutable;
}

/** What one of the two passes is after. */
interface Pass {
  readonly requiredScc: string;
  readonly recordedScc: string;
  readonly mutable: SearchInput['mutable'];
}

/** Gathers what the search works on, or says why no pod can be judged. */
export function prepareSearch(
  input: SccInput,
  pod: PodFields,
  { requiredScc, recordedScc, mutable }: Pass,
): SearchInput | { readonly error: string } {
  const { brokenScc, requiredSccs } = resolveCompatibility(input.compatibility);
  const userNamespaces = userNamespacesIn(input, pod);
  const candidates = findCandidates({ sccs: input.sccs, requiredSccs, requiredScc, recordedScc, userNamespaces });
  if ('error' in candidates) return candidates;
  const namespace = namespaceRangesOf(input.namespace);
  if (namespace.problem !== undefined) return { error: namespace.problem };
  if (brokenScc === 'refuse') {
    const errors = bindingErrors(candidates.sccs, namespace);
    if (errors.length > 0) return { error: aggregate([...new Set(errors)]) };
  }
  return createSearch(input, pod, { candidates: candidates.sccs, mutable });
}

/** What a user namespace of the pod means for the order of the SCCs. */
export function userNamespacesIn({ preferUserNamespaces }: SccInput, { hostUsers }: PodFields): 'prefer' | 'ignore' {
  return preferUserNamespaces && hostUsers === false ? 'prefer' : 'ignore';
}

/** The search among these SCCs, whatever speaks against judging the pod. */
export function createSearch(
  input: SccInput,
  pod: PodFields,
  { candidates, mutable }: Pick<SearchInput, 'candidates' | 'mutable'>,
): SearchInput {
  const namespace = namespaceRangesOf(input.namespace);
  const subjects = subjectsOf({
    userInfo: input.userInfo,
    serviceAccountName: pod.serviceAccountName,
    namespaceName: namespace.name,
    identity: resolveCompatibility(input.compatibility).identity,
  });
  const mayUse = createMayUse(input.canUse, namespace.name);
  return {
    candidates,
    namespace,
    pod,
    subjects,
    mayUse,
    subjectTypeOf: createSubjectTypeOf(input.canUse, namespace.name, subjects),
    mutable,
    effort: createEffort(),
  };
}

/** Why SCCs cannot work in the namespace. */
function bindingErrors(sccs: readonly PreparedScc[], namespace: NamespaceRanges): readonly string[] {
  return sccs.map((scc) => bindingError(scc, namespace)).filter((error) => error !== undefined);
}
