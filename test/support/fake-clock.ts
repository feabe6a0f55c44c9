import type { Clock } from '../../src/cluster/clock.ts';

export interface FakeClock extends Clock {
  /** Advances the time and runs due timers in order. */
  advance(ms: number): void;
  pending(): number;
}

/** Creates a clock that advances only through `advance()`. */
export function createFakeClock(): FakeClock {
  let nowMs = 0;
  let timers: { readonly dueMs: number; readonly call: () => void }[] = [];
  return {
    now: () => nowMs,
    after(delayMs, call) {
      const timer = { dueMs: nowMs + delayMs, call };
      timers.push(timer);
      return () => void (timers = timers.filter((other) => other !== timer));
    },
    advance(ms) {
      const endMs = nowMs + ms;
      for (;;) {
        const [next] = timers.filter(({ dueMs }) => dueMs <= endMs).sort((a, b) => a.dueMs - b.dueMs);
        if (!next) break;
        timers = timers.filter((timer) => timer !== next);
        nowMs = Math.max(nowMs, next.dueMs);
        next.call();
      }
      nowMs = endMs;
    },
    pending: () => timers.length,
  };
}
