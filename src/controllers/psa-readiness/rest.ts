/** Tells whether things are still changing that concern everything. All times are in milliseconds on one clock. */
export interface Rest {
  changed(nowMs: number): void;
  /** How long to wait until all has been quiet for a while; 0: it is, or it is never. */
  waitMs(nowMs: number): number;
}

const QUIET_MS = 5_000;
/** Whoever waits for longer waits for ever. */
const MAX_WAIT_MS = 60_000;

/** Makes a watch that has seen no change yet. */
export function createRest(): Rest {
  let sinceMs = -Infinity;
  let lastMs = -Infinity;
  return {
    changed(nowMs) {
      if (nowMs - lastMs > QUIET_MS) sinceMs = nowMs;
      lastMs = nowMs;
    },
    waitMs(nowMs) {
      return nowMs - sinceMs > MAX_WAIT_MS ? 0 : Math.max(0, lastMs + QUIET_MS - nowMs);
    },
  };
}
