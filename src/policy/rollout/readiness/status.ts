import type { PSAEnforcementConfig, ViolatingNamespace } from '../../../kube/psa-enforcement-config.ts';
import { timestampOf } from '../../../kube/timestamp.ts';
import type { SweepSummary } from '../enforcement/evaluation.ts';
import { nextViolatingNamespaces, type Sweep } from './violating-namespaces.ts';

/** What is stored of an evaluation of all namespaces. */
export interface EvaluationStatus {
  readonly violatingNamespaces: readonly ViolatingNamespace[];
  /** Moves only if every namespace could be judged. */
  readonly lastEvaluationTime?: string | undefined;
}

interface StatusInput {
  readonly before: PSAEnforcementConfig['status'];
  readonly sweep: Sweep;
  /** In milliseconds since 1970. */
  readonly endMs: number;
  readonly inconclusivePolicy: 'Block' | 'Ignore';
}

/** What an evaluation leaves in the status, to be written at once. */
export function evaluationStatus({ before, sweep, endMs, inconclusivePolicy }: StatusInput): EvaluationStatus {
  const now = timestampOf(endMs);
  const isComplete = inconclusivePolicy === 'Ignore' || summaryOf(sweep, endMs).inconclusive === 0;
  return {
    violatingNamespaces: nextViolatingNamespaces(before?.violatingNamespaces, sweep, now).entries,
    lastEvaluationTime: isComplete ? now : (before?.lastEvaluationTime ?? undefined),
  };
}

/** How many namespaces violate, and how many could not be judged. */
export function summaryOf({ evaluations }: Sweep, endMs: number): SweepSummary {
  const count = (verdict: string): number => evaluations.filter((one) => one.verdict === verdict).length;
  return { endMs, violating: count('violating'), inconclusive: count('inconclusive') };
}
