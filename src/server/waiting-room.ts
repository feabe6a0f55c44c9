import { waitFor } from '../cluster/store.ts';
import type { Namespace } from '../kube/types.ts';
import type { WebhookContext } from './webhook.ts';

/** Limits of the reviews that wait at the same time. */
export interface WaitingLimits {
  readonly reviews: number;
  /** Of their request bodies; in memory a review takes about eight times as much. */
  readonly bytes: number;
}

/** Exceeds the default concurrency limits of three API servers. */
const DEFAULT_LIMITS: WaitingLimits = { reviews: 2000, bytes: 32 * 1024 * 1024 };

/** Bounds the reviews that wait for a namespace. */
export interface WaitingRoom {
  /**
   * Resolves when the namespace is ready, at the deadline of the review, or when the client disconnects. Each review
   * continues in a separate turn of the event loop, so that many do not block it. Returns undefined if there is no room.
   */
  wait(name: string, context: WebhookContext, isReady: (namespace: Namespace) => boolean): Promise<void> | undefined;
}

export function createWaitingRoom(limits: WaitingLimits = DEFAULT_LIMITS): WaitingRoom {
  const used = { reviews: 0, bytes: 0 };
  let last = Promise.resolve();
  const turn = (): Promise<void> => (last = last.then(() => new Promise((resolve) => setImmediate(resolve))));
  const untilReady = async (...[name, context, isReady]: Parameters<WaitingRoom['wait']>): Promise<void> => {
    const { store, signal } = context;
    const find = (): true | undefined => {
      const namespace = store.get('Namespace', name);
      return namespace && isReady(namespace) ? true : undefined;
    };
    await waitFor(store, { kind: 'Namespace', name }, find, { timeoutMs: remainingMs(context), signal });
    await turn();
  };
  return {
    wait(name, context, isReady) {
      const { bodyBytes: bytes = 0 } = context;
      if (used.reviews >= limits.reviews || used.bytes + bytes > limits.bytes) return undefined;
      used.reviews++;
      used.bytes += bytes;
      return untilReady(name, context, isReady).finally(() => {
        used.reviews--;
        used.bytes -= bytes;
      });
    },
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
