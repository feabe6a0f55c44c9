import type { WebhookContext } from './webhook.ts';

/** What the reviews that wait may take together. */
export interface WaitingLimits {
  readonly reviews: number;
  /** Of their bodies as they came; in memory a review takes about eight times as much. */
  readonly bytes: number;
}

/** More than three API servers send at once, each with the limits that it has by default. */
const DEFAULT_LIMITS: WaitingLimits = { reviews: 2000, bytes: 32 * 1024 * 1024 };

/** Where reviews wait for what the store lacks. */
export interface WaitingRoom {
  /** Takes a place for a review of so many bytes, if one is left; what it returns gives the place back. */
  enter(bytes: number): (() => void) | undefined;
  /** Resolves in a turn of the event loop that no other review gets, so that many that go on at once block nothing. */
  turn(): Promise<void>;
}

/** Makes an empty one. */
export function createWaitingRoom(limits: WaitingLimits = DEFAULT_LIMITS): WaitingRoom {
  const taken = { reviews: 0, bytes: 0 };
  let last = Promise.resolve();
  return {
    enter(bytes) {
      if (taken.reviews >= limits.reviews || taken.bytes + bytes > limits.bytes) return undefined;
      taken.reviews++;
      taken.bytes += bytes;
      return () => {
        taken.reviews--;
        taken.bytes -= bytes;
      };
    },
    turn: () => (last = last.then(() => new Promise((resolve) => setImmediate(resolve)))),
  };
}

/** As long as OpenShift waits. */
const MAX_WAIT_MS = 10_000;
/** What is left of the API server's patience to send an answer. */
const MARGIN_MS = 500;

/** How long there is to wait, so that the answer still reaches whoever asked. */
export function remainingMs({ deadlineMs, now }: Pick<WebhookContext, 'deadlineMs' | 'now'>): number {
  if (deadlineMs === undefined) return MAX_WAIT_MS;
  return Math.max(0, Math.min(MAX_WAIT_MS, deadlineMs - now() - MARGIN_MS));
}
