import type { Clock } from './clock.ts';

/** How long to wait after failures in a row. */
export interface Backoff {
  /** Called once for each failure; in milliseconds. */
  nextMs(): number;
}

const MIN_MS = 800;
const MAX_MS = 30_000;
/** Whoever has not failed for so long starts from the beginning. */
const RESET_MS = 120_000;

/** Waits from 0.8 s on, twice as long each time up to 30 s, by chance not at the same moment as others. */
export function createBackoff(clock: Clock, random: () => number): Backoff {
  let failures = 0;
  let waitedUntilMs = -Infinity;
  return {
    nextMs() {
      const nowMs = clock.now();
      if (nowMs - waitedUntilMs > RESET_MS) failures = 0;
      const delayMs = Math.min(MAX_MS / 2, MIN_MS * 2 ** Math.min(failures++, 10)) * (1 + random());
      waitedUntilMs = nowMs + delayMs;
      return delayMs;
    },
  };
}
