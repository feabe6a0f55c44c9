/** Time as those see it who wait. */
export interface Clock {
  /** Milliseconds since some moment; never goes back. */
  now(): number;
  /** Calls the function once after the delay, unless the returned function is called before. */
  after(delayMs: number, call: () => void): () => void;
}

/** The time that passes. What is due keeps no process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(delayMs, call) {
    const timer = setTimeout(call, delayMs).unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves after the delay, or as soon as the signal is aborted. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.after(delayMs, end);
    signal?.addEventListener('abort', end, { once: true });
    if (signal?.aborted) end();
  });
}

/**
 * Resolves with what the call gives. Rejects when that takes longer, and aborts the signal: what the call still does
 * then, it does for nobody.
 */
export async function withTimeout<T>(
  clock: Clock,
  limitMs: number,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const tooLate = new Promise<never>((_resolve, reject) => {
    late.signal.addEventListener('abort', () => reject(late.signal.reason as Error));
  });
  const cancel = clock.after(limitMs, () => late.abort(new Error(`no answer within ${limitMs / 1000} s`)));
  try {
    return await Promise.race([call(late.signal), tooLate]);
  } finally {
    cancel();
  }
}

/** Lets so many through at once, and so many a second in the long run. */
export interface TokenBucket {
  /** Waits for a token, in the order of asking, at most until the signal is aborted. */
  take(signal?: AbortSignal): Promise<void>;
  /** Takes a token if there is one. */
  tryTake(): boolean;
}

interface Rate {
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
