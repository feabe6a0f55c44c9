import type { PSAEnforcementConfig } from '../../../kube/psa-enforcement-config.ts';
import { readTimestamp } from '../../../kube/timestamp.ts';
import type { EvaluationResult } from './types.ts';

/** What the newest evaluation came to. */
export interface SweepSummary {
  /** In milliseconds since 1970. */
  readonly endMs: number;
  readonly violating: number;
  readonly inconclusive: number;
}

interface EvaluationInput {
  readonly status: PSAEnforcementConfig['status'];
  /** Of this process; absent: none yet, so that only what is stored counts. */
  readonly newest?: SweepSummary | undefined;
  readonly nowMs: number;
  readonly maxAgeMs: number;
  /** `Ignore`: namespaces that cannot be judged do not matter. */
  readonly inconclusivePolicy: 'Block' | 'Ignore';
}

/** What is known of the namespaces, by what is stored and by the newest evaluation. */
export function evaluationOf({
  status,
  newest,
  nowMs,
  maxAgeMs,
  inconclusivePolicy,
}: EvaluationInput): EvaluationResult {
  const isFresh = (ms: number): boolean => Math.abs(nowMs - ms) <= maxAgeMs;
  const storedMs = readTimestamp(status?.lastEvaluationTime);
  const hasEntries = status?.violatingNamespaces?.some(({ state }) => state !== 'Previous') === true;
  if (newest && newest.violating > 0 && isFresh(newest.endMs)) return 'violations';
  if (hasEntries && storedMs !== undefined && isFresh(storedMs)) return 'violations';
  if (inconclusivePolicy === 'Block' && isInconclusive(status, newest)) return 'inconclusive';
  if (storedMs === undefined) return 'never';
  return isFresh(storedMs) ? 'clean' : 'stale';
}

/** After a restart the stored condition tells. */
function isInconclusive(status: PSAEnforcementConfig['status'], newest: SweepSummary | undefined): boolean {
  if (newest) return newest.inconclusive > 0;
  return status?.conditions?.some(({ type, reason }) => type === 'Evaluated' && reason === 'Inconclusive') === true;
}
