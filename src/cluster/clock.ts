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
