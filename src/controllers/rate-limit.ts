import type { Clock } from '../cluster/clock.ts';

/** How long to wait before a key is tried again. */
export interface RateLimit {
  /** After a failure; in milliseconds, which count as waited for. */
  delayOf(key: string): number;
  /** After a conflict: as after a failure, but others do not wait for it. */
  shortDelayOf(key: string): number;
  /** The key is fine again: its next delay is the shortest. */
  forget(key: string): void;
}

const FIRST_MS = 5;
/** Retries of all keys together: so many at once, then so many in a second. */
const BURST = 100;
const PER_SECOND = 10;

/** The longest delay of a key by default: it grows no further. */
export const MAX_RETRY_MS = 1_000_000;

/**
 * Doubles the delay of a key with every failure, and holds back all keys together when many fail.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/util/workqueue/default_rate_limiters.go
 */
export function createRateLimit(clock: Clock, maxMs = MAX_RETRY_MS): RateLimit {
  const failures = new Map<string, number>();
  let tokens = BURST;
  let filledMs = clock.now();

  const takeToken = (): number => {
    const nowMs = clock.now();
    tokens = Math.min(BURST, tokens + ((nowMs - filledMs) / 1000) * PER_SECOND) - 1;
    filledMs = nowMs;
    return tokens >= 0 ? 0 : (-tokens / PER_SECOND) * 1000;
  };
  const shortDelayOf = (key: string): number => {
    const count = failures.get(key) ?? 0;
    failures.set(key, count + 1);
    return Math.min(FIRST_MS * 2 ** count, maxMs);
  };
  return {
    delayOf: (key) => Math.max(shortDelayOf(key), takeToken()),
    shortDelayOf,
    forget: (key) => failures.delete(key),
  };
}
