/** When namespaces are to be evaluated. All times are in milliseconds since 1970. */
export interface ScheduleInput {
  readonly nowMs: number;
  /** The end of the last evaluation that judged all of them, of this process or an earlier one. */
  readonly completedMs?: number | undefined;
  /** The end of the last attempt of this process. */
  readonly attemptedMs?: number | undefined;
  /** How many attempts in a row judged not all of them. */
  readonly failures: number;
  /** When somebody asked for an evaluation. */
  readonly requestedMs?: number | undefined;
  /** True while a decision waits for it. */
  readonly isAwaited: boolean;
  readonly intervalMs: number;
  /** Older ones decide nothing. */
  readonly maxAgeMs: number;
  /** From -0.1 to 0.1, lest all clusters do it at once. */
  readonly jitter: number;
}

const MINUTE_MS = 60_000;
const MAX_DELAY_MS = 30 * MINUTE_MS;

/**
 * In how many milliseconds to evaluate; 0: now. A restart changes nothing, since the interval counts from what is stored; an
 * attempt that came to nothing is repeated after 1, 2, 4 … up to 30 minutes.
 */
export function nextEvaluationMs(input: ScheduleInput): number {
  return Math.max(0, dueMs(input) - input.nowMs);
}

function dueMs(input: ScheduleInput): number {
  const { nowMs, completedMs, attemptedMs, failures, requestedMs, isAwaited, intervalMs, maxAgeMs, jitter } = input;
  if (requestedMs !== undefined && requestedMs > (attemptedMs ?? completedMs ?? -Infinity)) return nowMs;
  if (failures > 0 && attemptedMs !== undefined) {
    return attemptedMs + Math.min(MAX_DELAY_MS, MINUTE_MS * 2 ** (failures - 1));
  }
  // A time to come is from a clock that was wrong.
  if (completedMs === undefined || completedMs > nowMs) return nowMs;
  if (isAwaited && nowMs - completedMs > maxAgeMs) return nowMs;
  return completedMs + intervalMs * (1 + jitter);
}
