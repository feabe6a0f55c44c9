import type { FieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/quote.ts';
import type { Subjects, SubjectType } from './access.ts';
import { applyScc, extentOf, unchanged, type Attempt } from './apply.ts';
import { bindScc } from './bind.ts';
import type { PodFields } from './decode/pod.ts';
import type { NamespaceRanges } from './namespace-ranges.ts';
import type { PreparedScc } from './prepare.ts';
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
}

/** An SCC that was passed over: not usable, not fitting, or fitting with changes that are not allowed. */
export interface PassedOver {
  readonly scc: PreparedScc;
  readonly because: 'denied' | 'errors' | 'changes';
  /** Empty unless it does not fit. */
  readonly errors: readonly FieldError[];
  /** Made when first asked for, by `textsOf`. */
  texts?: readonly string[];
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
}

/** Containers that are tried, each as often as there are SCCs: more would take seconds. No pod that can run comes near. */
const MAX_TRIED = 1_000_000;

/** Tries the candidates one after the other. */
export function searchScc(input: SearchInput): SearchResult {
  const passedOver: PassedOver[] = [];
  let tried = 0;
  for (const scc of input.candidates) {
    const subjectType = input.subjectTypeOf(scc);
    if (subjectType === undefined) {
      passedOver.push({ scc, because: 'denied', errors: NO_ERRORS });
      continue;
    }
    tried += input.pod.containers.length;
    if (tried > MAX_TRIED) {
      passedOver.push({ scc, because: 'errors', errors: [internalError(scc, 'the pod has too many containers')] });
      continue;
    }
    const attempt = attemptScc(scc, input);
    if (attempt.errors.length > 0) passedOver.push({ scc, because: 'errors', errors: attempt.errors });
    else if (isAllowed(attempt, input.mutable)) return { passedOver, chosen: { scc, attempt, subjectType } };
    else passedOver.push({ scc, because: 'changes', errors: NO_ERRORS });
  }
  return { passedOver, chosen: undefined };
}

/** The next SCC behind the chosen one that is usable and would fit, too. */
export function findNext(input: SearchInput, chosen: PreparedScc): PreparedScc | undefined {
  const { candidates } = input;
  for (let index = candidates.indexOf(chosen) + 1; index < candidates.length; index++) {
    const scc = candidates[index];
    if (scc && input.subjectTypeOf(scc) !== undefined && fitsScc(scc, input)) return scc;
  }
  return undefined;
}

/** The pod under one SCC. An SCC that cannot work in the namespace fits no pod of it. */
export function attemptScc(scc: PreparedScc, { namespace, pod }: Pick<SearchInput, 'namespace' | 'pod'>): Attempt {
  const bound = bindScc(scc, namespace);
  if (!('error' in bound)) return applyScc({ scc: scc.fields, bound: bound.value, pod, stop: 'at the end' });
  return unchanged(pod, [internalError(scc, bound.error)]);
}

function internalError({ name }: PreparedScc, detail: string): FieldError {
  return { type: 'InternalError', path: `provider ${quote(name)}`, detail };
}

/** True if the pod fits the SCC; finds out faster than an attempt. */
export function fitsScc(scc: PreparedScc, { namespace, pod }: Pick<SearchInput, 'namespace' | 'pod'>): boolean {
  const bound = bindScc(scc, namespace);
  return (
    !('error' in bound) &&
    applyScc({ scc: scc.fields, bound: bound.value, pod, stop: 'at the first error' }).errors.length === 0
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
