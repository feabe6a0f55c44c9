import type { FieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import type { Subjects, SubjectType } from './access.ts';
import { applyScc, extentOf, unchanged, type Attempt } from './apply.ts';
import { bindScc } from './bind.ts';
import type { PodFields } from './decode/pod.ts';
import { excessOf, spendErrors, spendLooks, type Effort } from './effort.ts';
import type { NamespaceRanges } from './namespace-ranges.ts';
import type { PreparedScc } from './prepare.ts';
import { MAX_ERRORS } from './strategies/types.ts';
import { misfitText } from './texts.ts';
import type { Subject } from './types.ts';

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
