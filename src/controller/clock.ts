/** Time as controllers see it. */
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
