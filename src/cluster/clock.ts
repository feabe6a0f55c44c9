/** Time as those see it who wait. */
export interface Clock {
  /** Milliseconds since some moment; never goes back. */
  now(): number;
  /** Calls the function once after the delay, unless the returned function is called before. */
  after(delayMs: number, call: () => void): () => void;
}

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
