import type { WebhookContext } from './webhook.ts';

/** Limits of the reviews that wait at the same time. */
export interface WaitingLimits {
  readonly reviews: number;
  /** Of their request bodies; in memory a review takes about eight times as much. */
  readonly bytes: number;
}

/** Exceeds the default concurrency limits of three API servers. */
const DEFAULT_LIMITS: WaitingLimits = { reviews: 2000, bytes: 32 * 1024 * 1024 };

/** Bounds the reviews that wait for an object that the store lacks. */
export interface WaitingRoom {
  /** Admits a review if there is room, and returns the function that releases its place. */
  enter(bytes: number): (() => void) | undefined;
  /** Resolves in a separate turn of the event loop for each review, so that many that continue at once do not block it. */
  turn(): Promise<void>;
}

export function createWaitingRoom(limits: WaitingLimits = DEFAULT_LIMITS): WaitingRoom {
  const used = { reviews: 0, bytes: 0 };
  let last = Promise.resolve();
  return {
    enter(bytes) {
      if (used.reviews >= limits.reviews || used.bytes + bytes > limits.bytes) return undefined;
      used.reviews++;
      used.bytes += bytes;
      return () => {
        used.reviews--;
        used.bytes -= bytes;
      };
    },
    turn: () => (last = last.then(() => new Promise((resolve) => setImmediate(resolve)))),
  };
}

/** The wait of OpenShift for the ranges of a namespace. */
const MAX_WAIT_MS = 10_000;
/** Reserved for the response within the timeout of the API server. */
const MARGIN_MS = 500;

/** Returns how long a review may wait so that its response still arrives in time. */
export function remainingMs({ deadlineMs, now }: Pick<WebhookContext, 'deadlineMs' | 'now'>): number {
  if (deadlineMs === undefined) return MAX_WAIT_MS;
  return Math.max(0, Math.min(MAX_WAIT_MS, deadlineMs - now() - MARGIN_MS));
}
