/** Stores the evaluations of namespaces, which the namespace evaluator publishes and other controllers read. */
import type { Store } from '../cluster/store.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { type CompletedSweep, isBlocking, type NamespaceEvaluation } from '../policy/rollout/index.ts';

/** A new evaluation of a namespace. */
export interface EvaluationChange {
  readonly name: string;
  /** `undefined` if the namespace was deleted or is exempt. */
  readonly evaluation: NamespaceEvaluation | undefined;
  /** The previous evaluation. */
  readonly before: NamespaceEvaluation | undefined;
}

interface Listeners {
  onChange?(change: EvaluationChange): void;
  /** Called after an evaluation of all namespaces. */
  onComplete?(): void;
}

export type NamespaceEvaluations = ReturnType<typeof createNamespaceEvaluations>;

/** Creates the table that contains the current evaluation of each namespace. */
export function createNamespaceEvaluations() {
  const current = new Map<string, NamespaceEvaluation>();
  const listeners = new Set<Listeners>();
  let sweep: CompletedSweep | undefined;
  /** The outcome of each namespace in the last sweep. */
  let swept: ReadonlyMap<string, string> | undefined;
  let changedSinceMs: number | undefined;
  let isComplete = false;
  const complete = (): void => {
    isComplete = true;
    for (const { onComplete } of listeners) onComplete?.();
  };
  const isSwept = (name: string, evaluation: NamespaceEvaluation | undefined): boolean =>
    (swept?.get(name) ?? CLEAN) === outcome(evaluation);
  return {
    get: (name: string) => current.get(name),
    all: (): readonly NamespaceEvaluation[] => [...current.values()],
    /** Returns true if all namespaces have been evaluated. */
    isComplete: () => isComplete,
    sweep: () => sweep,
    /** Returns the time since which an evaluation has differed from the last sweep. */
    changedSinceMs: () => changedSinceMs,
    /**
     * Replaces the evaluation of a namespace. Until the first sweep, compares it with the violations in the status,
     * which an earlier process has written.
     */
    set(name: string, evaluation: NamespaceEvaluation | undefined, { store, nowMs }: SetOptions): void {
      const before = current.get(name);
      if (evaluation) current.set(name, evaluation);
      else current.delete(name);
      const isSame = swept
        ? isSwept(name, evaluation)
        : wasViolating(name, store) === (evaluation !== undefined && isBlocking(evaluation));
      if (!isSame && (before || evaluation)) changedSinceMs ??= nowMs;
      for (const { onChange } of listeners) onChange?.({ name, evaluation, before });
    },
    /** Records that all namespaces have been evaluated, and calls the listeners. */
    complete,
    /** Publishes a completed sweep, with which later evaluations are compared. */
    completeSweep(next: CompletedSweep): void {
      sweep = next;
      swept = new Map(next.evaluations.map((evaluation) => [evaluation.name, outcome(evaluation)]));
      const isSame = [...current].every(([name, evaluation]) => isSwept(name, evaluation));
      changedSinceMs = isSame ? undefined : next.endMs;
      complete();
    },
    /** Removes all evaluations. Listeners are not called, because nothing is known about the namespaces. */
    clear(): void {
      current.clear();
      sweep = undefined;
      swept = undefined;
      changedSinceMs = undefined;
      isComplete = false;
    },
    /** Adds listeners, which are called until the returned function is called. */
    subscribe(added: Listeners): () => void {
      listeners.add(added);
      return () => void listeners.delete(added);
    },
  };
}

interface SetOptions {
  readonly store: Store;
  readonly nowMs: number;
}

/** Outcome of a namespace without an evaluation. */
const CLEAN = 'clean';

function outcome(evaluation: NamespaceEvaluation | undefined): string {
  return evaluation === undefined ? CLEAN : [evaluation.verdict, ...evaluation.categories].join(' ');
}

/** Returns true if the stored status lists the namespace as violating. */
export function wasViolating(name: string, store: Store): boolean {
  const { status } = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG) ?? {};
  return status?.violatingNamespaces?.some((entry) => entry.name === name && entry.state !== 'Previous') === true;
}
