import { sleep, type Clock } from './clock.ts';

/** Lets so many through at once, and so many a second in the long run. */
export interface TokenBucket {
  /** Waits for a token, in the order of asking, at most until the signal is aborted. */
  take(signal?: AbortSignal): Promise<void>;
  /** Takes a token if there is one. */
  tryTake(): boolean;
}

export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** Makes a full bucket. */
export function createTokenBucket({ perSecond, burst }: Rate, clock: Clock): TokenBucket {
  let tokens = burst;
  let filledMs = clock.now();
  const fill = (): void => {
    const nowMs = clock.now();
    tokens = Math.min(burst, tokens + ((nowMs - filledMs) / 1000) * perSecond);
    filledMs = nowMs;
  };
  return {
    async take(signal) {
      fill();
      tokens--;
      if (tokens < 0) await sleep(clock, (-tokens / perSecond) * 1000, signal);
    },
    tryTake() {
      fill();
      if (tokens < 1) return false;
      tokens--;
      return true;
    },
  };
}
