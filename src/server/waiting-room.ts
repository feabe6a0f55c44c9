/** Limits and ends the waits of reviews for objects that decisions need. */
import { createTurn } from '../cluster/clock.ts';
import type { Store } from '../cluster/store.ts';
import type { Kind } from '../kube/kinds.ts';
import { LIMITS } from '../kube/limits.ts';
import type { Namespace } from '../kube/types.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { WebhookContext } from './webhook.ts';

/**
 * Minimum size for which a review is counted, so at most 2,048 reviews wait. This exceeds the default concurrency
 * limits of three API servers.
 */
const MIN_BYTES = 24 * 1024;

type IsReady = (namespace: Namespace) => boolean;

export type WaitingRoom = ReturnType<typeof createWaitingRoom>;

/** Limits the number and the memory of waiting reviews. */
export function createWaitingRoom(maxBytes?: number) {
  const shares = createShares('waitingReviewsBytes', maxBytes);
  const turn = createTurn();
  const until = async (context: WebhookContext, condition: Condition): Promise<void> => {
    const wait = createWait(context, condition);
    const leave = shares.add(context, wait.end);
    try {
      // Otherwise, all reviews of a namespace would continue in one turn of the event loop and block it.
      if (await wait.ended) await turn(context.address);
    } finally {
      leave();
    }
  };
  return {
    /**
     * Waits until the namespace is ready, the deadline is reached, the client disconnects, or the review is displaced.
     */
    wait: (name: string, context: WebhookContext, isReady: IsReady): Promise<void> =>
      until(context, namespaceReady(context.store, name, isReady)),
    /** Waits in the same way until the store contains all pods. */
    waitForPods: (context: WebhookContext): Promise<void> => until(context, podsRead(context.store)),
    /** Counts a review that waits for another reason. Returns the function that ends its wait. */
    enter: shares.add,
  };
}

/** The waiting reviews from one address, oldest first. The keys are the functions that displace them. */
interface Share {
  bytes: number;
  readonly reviews: Map<() => void, number>;
}

/**
 * Shares the limit among client addresses. Above the limit, displaces the oldest review of the address with the largest
 * share, so a client cannot displace reviews from an address with a smaller share.
 */
export function createShares(limit: 'queuedReviewsBytes' | 'waitingReviewsBytes', maxBytes: number = LIMITS[limit]) {
  const shares = new Map<string, Share>();
  let used = 0;
  const remove = (address: string, displace: () => void): void => {
    const share = shares.get(address);
    const bytes = share?.reviews.get(displace);
    if (!share || bytes === undefined) return;
    share.reviews.delete(displace);
    share.bytes -= bytes;
    used -= bytes;
    if (share.reviews.size === 0) shares.delete(address);
  };
  const displaceOldest = (): void => {
    const [address, { reviews }] = [...shares].reduce((most, next) => (next[1].bytes > most[1].bytes ? next : most));
    const [oldest] = reviews.keys();
    if (!oldest) return;
    remove(address, oldest);
    oldest();
  };
  return {
    add({ address = '', measure }: Client, displace: () => void): () => void {
      const bytes = Math.max(measure?.() ?? 0, MIN_BYTES);
      const share = shares.get(address) ?? { bytes: 0, reviews: new Map() };
      shares.set(address, share);
      share.reviews.set(displace, bytes);
      share.bytes += bytes;
      used += bytes;
      if (used > maxBytes) countExceeded(limit);
      while (used > maxBytes) displaceOldest();
      return () => remove(address, displace);
    },
  };
}

type Client = Pick<WebhookContext, 'address' | 'measure'>;

/** Kinds whose changes may fulfill the condition in all namespaces. */
const CLUSTER_KINDS: ReadonlySet<Kind> = new Set(['SecurityContextConstraints', 'ClusterRoleBinding']);

/** Condition for which a review waits. It is evaluated after each event, without polling. */
interface Condition {
  isFulfilled(): boolean;
  /** Calls the function after each event. Returns a function that ends the subscription. */
  subscribe(check: () => void): () => void;
}

function namespaceReady(store: Store, name: string, isReady: IsReady): Condition {
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

/**
 * Starts a wait that ends when the condition is fulfilled, the deadline is reached, or the client disconnects. `ended`
 * resolves to true if the condition is fulfilled.
 */
function createWait(context: WebhookContext, { isFulfilled, subscribe }: Condition) {
  const signal = context.getSignal?.();
  const ended = Promise.withResolvers<boolean>();
  const finish = (fulfilled: boolean): void => {
    clearTimeout(timer);
    unsubscribe();
    signal?.removeEventListener('abort', end);
    ended.resolve(fulfilled);
  };
  const end = (): void => finish(false);
  const check = (): void => {
    try {
      if (isFulfilled()) finish(true);
    } catch (error) {
      ended.reject(error instanceof Error ? error : new Error(String(error)));
      end();
    }
  };
  const timer = setTimeout(end, remainingMs(context));
  const unsubscribe = subscribe(check);
  signal?.addEventListener('abort', end, { once: true });
  if (signal?.aborted) end();
  else check();
  return { ended: ended.promise, end };
}

/** Maximum wait, as in OpenShift for the ranges of a namespace. */
export const MAX_WAIT_MS = 10_000;
/** Time reserved for the decision after the wait. */
const MARGIN_MS = 100;

/** Returns the time that a review may wait if its response must still arrive in time. */
export function remainingMs({ deadlineMs, now }: Pick<WebhookContext, 'deadlineMs' | 'now'>): number {
  if (deadlineMs === undefined) return MAX_WAIT_MS;
  return Math.max(0, Math.min(MAX_WAIT_MS, deadlineMs - now() - MARGIN_MS));
}
