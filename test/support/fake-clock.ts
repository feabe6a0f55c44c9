import type { Clock } from '../../src/cluster/clock.ts';

export interface FakeClock extends Clock {
  /** Lets time pass, and calls what is due on the way, in its order. */
  advance(ms: number): void;
  /** How many calls are still to come. */
  pending(): number;
}

/** A clock that stands still until it is told to go on. */
export function createFakeClock(): FakeClock {
  let nowMs = 0;
  let timers: { readonly dueMs: number; readonly call: () => void }[] = [];
  return {
    now: () => nowMs,
    after(delayMs, call) {
      const timer = { dueMs: nowMs + delayMs, call };
      timers.push(timer);
      return () => void (timers = timers.filter((one) => one !== timer));
    },
    advance(ms) {
      const endMs = nowMs + ms;
      for (;;) {
        const [next] = timers.filter(({ dueMs }) => dueMs <= endMs).sort((a, b) => a.dueMs - b.dueMs);
        if (!next) break;
        timers = timers.filter((one) => one !== next);
        nowMs = Math.max(nowMs, next.dueMs);
        next.call();
      }
      nowMs = endMs;
    },
    pending: () => timers.length,
  };
}
