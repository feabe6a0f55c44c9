/** Limits and ends the waits of reviews for objects that decisions need. */
import { createTurn } from '../cluster/clock.ts';
import type { Store } from '../cluster/store.ts';
import type { Kind } from '../kube/kinds.ts';
import type { Namespace } from '../kube/types.ts';
import { createShares } from './limits.ts';
import type { WebhookContext } from './webhook.ts';

export type WaitingRoom = ReturnType<typeof createWaitingRoom>;

/**
 * Limits the number and the memory of waiting reviews. Tested by the attack "wide objects that wait" in
 * `test/resilience`.
 */
export function createWaitingRoom(maxBytes?: number) {
  const shares = createShares('waitingReviewsBytes', maxBytes);
  const turn = createTurn();
  /** Waits until the condition is met, the deadline is reached, the client disconnects, or the review is displaced. */
  const until = async (context: WebhookContext, { isFulfilled, subscribe }: Condition): Promise<void> => {
    const signal = context.getSignal?.();
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const end = (): void => resolve(false);
    const check = (): void => {
      try {
        if (isFulfilled()) resolve(true);
      } catch (error) {
        reject(error);
      }
    };
    const timer = setTimeout(end, remainingMs(context));
    const unsubscribe = subscribe(check);
    signal?.addEventListener('abort', end, { once: true });
    if (signal?.aborted) end();
    check();
    const stop = (): void => {
      clearTimeout(timer);
      unsubscribe();
      signal?.removeEventListener('abort', end);
    };
    const leave = shares.add(context, end);
    try {
      // Waits for a turn of the event loop. Otherwise, all reviews in a namespace would continue in the same turn and
      // block the event loop.
      if (await promise.finally(stop)) await turn(context.address);
    } finally {
      leave();
    }
  };
  return {
    /** Waits until the store contains the namespace and the namespace is ready. */
    wait: (name: string, context: WebhookContext, isReady: (namespace: Namespace) => boolean): Promise<void> =>
      until(context, namespaceReady(context.store, name, isReady)),
    /** Waits until the store contains all pods. */
    waitForPods: (context: WebhookContext): Promise<void> => until(context, podsRead(context.store)),
    /** Counts a review that waits for another reason. Returns the function that ends its wait. */
    enter: shares.add,
  };
}

/** Kinds whose changes may cause the condition to be met in all namespaces. */
const CLUSTER_KINDS: ReadonlySet<Kind> = new Set(['SecurityContextConstraints', 'ClusterRoleBinding']);

/** Condition for which a review waits. The condition is evaluated after each event, without polling. */
interface Condition {
  isFulfilled(): boolean;
  /** Calls the function after each event. Returns a function that ends the subscription. */
  subscribe(check: () => void): () => void;
}

function namespaceReady(store: Store, name: string, isReady: (namespace: Namespace) => boolean): Condition {
  return {
    isFulfilled() {
      const namespace = store.get('Namespace', name);
      return namespace !== undefined && isReady(namespace);
    },
    subscribe: (check) =>
      store.subscribe(({ kind, object: { metadata } }) => {
        if (CLUSTER_KINDS.has(kind) || (kind === 'Namespace' && metadata?.name === name)) check();
      }),
  };
}

function podsRead(store: Store): Condition {
  return { isFulfilled: () => store.synced('Pod'), subscribe: (check) => store.onSynced(check) };
}

/** Maximum wait, which is the time that OpenShift waits for the ranges of a namespace. */
const MAX_WAIT_MS = 10_000;
/** Time that is reserved for the decision after the wait. */
const MARGIN_MS = 100;

/** Returns the time that a review may wait if its response must still arrive in time. */
export function remainingMs({ deadlineMs, now }: Pick<WebhookContext, 'deadlineMs' | 'now'>): number {
  if (deadlineMs === undefined) return MAX_WAIT_MS;
  return Math.max(0, Math.min(MAX_WAIT_MS, deadlineMs - now() - MARGIN_MS));
}
