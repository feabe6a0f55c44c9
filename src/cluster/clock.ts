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
export async function inTime<T>(clock: Clock, limitMs: number, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
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
