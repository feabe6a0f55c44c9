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

/** Resolves with the result of the call. After the time limit, rejects and aborts the signal that the call receives. */
export async function withTimeout<T>(
  clock: Clock,
  limitMs: number,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timeout = new AbortController();
  const timedOut = new Promise<never>((_resolve, reject) => {
    timeout.signal.addEventListener('abort', () => reject(timeout.signal.reason as Error));
  });
  const cancel = clock.after(limitMs, () => timeout.abort(new Error(`no answer within ${limitMs / 1000} s`)));
  try {
    return await Promise.race([call(timeout.signal), timedOut]);
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
  /** Takes a token in advance. Returns the delay in milliseconds until it is available. */
  reserve(): number;
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
  const reserve = (): number => {
    fill();
    tokens--;
    return tokens >= 0 ? 0 : (-tokens / perSecond) * 1000;
  };
  return {
    reserve,
    async take(signal) {
      const delayMs = reserve();
      if (delayMs > 0) await sleep(clock, delayMs, signal);
    },
    tryTake() {
      fill();
      if (tokens < 1) return false;
      tokens--;
      return true;
    },
  };
}
