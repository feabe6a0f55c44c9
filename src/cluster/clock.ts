import { setImmediate } from 'node:timers/promises';

/** A clock and timers. Tests use a fake implementation. */
export interface Clock {
  /** Returns a monotonic time in milliseconds. */
  now(): number;
  /** Calls a function once after a delay. Returns a function that cancels the call. */
  after(delayMs: number, call: () => void): () => void;
}

/** Longest delay of a timer in Node, which is 24 days. A timer with a longer delay would expire immediately. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** The real clock. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(delayMs, call) {
    const timer = setTimeout(call, Math.min(delayMs, MAX_DELAY_MS)).unref();
    return () => clearTimeout(timer);
  },
};

export type Slots = ReturnType<typeof createSlots>;

/** Limits concurrent work to a number of slots. */
export function createSlots(count: number) {
  const waiting = new Map<string, Set<() => void>>();
  let free = count;
  const release = (): void => {
    for (const [key, calls] of waiting) {
      waiting.delete(key);
      const [call] = calls;
      if (call === undefined) continue;
      calls.delete(call);
      if (calls.size > 0) waiting.set(key, calls);
      call();
      return;
    }
    free++;
  };
  /** Takes a free slot. Returns the function that frees it, or `undefined` if there is none. */
  const tryTake = (): (() => void) | undefined => {
    if (free === 0) return undefined;
    free--;
    return release;
  };
  return {
    areTaken: (): boolean => free === 0,
    tryTake,
    /**
     * Waits for a slot. Resolves to the function that frees it. Callers with different keys are served in rotation. If
     * the signal of a caller is aborted while it waits, the caller takes no slot.
     */
    async take(key = '', signal?: AbortSignal): Promise<() => void> {
      const taken = tryTake();
      if (taken) return taken;
      return await new Promise((resolve) => {
        const calls = waiting.get(key) ?? new Set();
        const call = (): void => resolve(release);
        waiting.set(key, calls.add(call));
        const leave = (): void => {
          if (calls.delete(call)) resolve(() => undefined);
        };
        signal?.addEventListener('abort', leave, { once: true });
      });
    },
  };
}

/**
 * Creates the function that waits for a turn of the event loop, or until the signal is aborted. Each turn serves one
 * caller, in the same order as slots.
 */
export function createTurn(): (key?: string, signal?: AbortSignal) => Promise<void> {
  const slots = createSlots(1);
  return async (key, signal) => {
    // Takes a free slot without awaiting a promise, so that the caller gets the next turn.
    const release = slots.tryTake() ?? (await slots.take(key, signal));
    await setImmediate(undefined, signal ? { signal } : {}).catch(() => undefined);
    release();
  };
}

/** Resolves after the delay, or when the signal is aborted. */
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
 * Calls a function with a time limit, and resolves to its result. If the call exceeds the limit, rejects and aborts the
 * call's signal.
 */
export async function withTimeout<T>(
  clock: Clock,
  limitMs: number,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const { signal } = controller;
  const timedOut = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error));
  });
  const cancel = clock.after(limitMs, () =>
    controller.abort(new Error(`no response within ${Math.round(limitMs / 10) / 100} s`)),
  );
  try {
    return await Promise.race([call(signal), timedOut]);
  } finally {
    cancel();
  }
}

/** A rate limit that permits bursts. */
export interface TokenBucket {
  /** Reserves a token. Returns the delay in milliseconds until the token is available. */
  reserve(): number;
  /** Takes a token if one is available. */
  tryTake(): boolean;
}

interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** Creates a token bucket, which is full at first. */
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
    tryTake() {
      fill();
      if (tokens < 1) return false;
      tokens--;
      return true;
    },
  };
}
