/** When the default may be raised. All times are in milliseconds on one clock. */
export interface RaiseInput {
  readonly nowMs: number;
  /** Since when every managed namespace has had its label; absent: one has none. */
  readonly labelledSinceMs?: number | undefined;
  /** When enforcement was decided: labels seen before that may be old news. */
  readonly decidedAtMs?: number | undefined;
  /** When the default was raised last; absent: never. */
  readonly lastRaiseMs?: number | undefined;
  readonly settleMs: number;
}

/** At most one raise in this time, lest the default go up and down. */
export const RAISE_INTERVAL_MS = 300_000;

/** True if the labels have settled and the last raise is long enough ago; else when to look again, if time alone tells. */
export function raiseOf(input: RaiseInput): { readonly isSettled: boolean; readonly waitMs?: number } {
  const { nowMs, labelledSinceMs, decidedAtMs = 0, lastRaiseMs = -Infinity, settleMs } = input;
  if (labelledSinceMs === undefined) return { isSettled: false };
  const settledAtMs = Math.max(labelledSinceMs, decidedAtMs) + settleMs;
  const waitMs = Math.max(settledAtMs, lastRaiseMs + RAISE_INTERVAL_MS) - nowMs;
  return waitMs <= 0 ? { isSettled: true } : { isSettled: false, waitMs };
}
