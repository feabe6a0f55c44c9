import type { Store } from '../cluster/store.ts';
import type { Kind } from '../kube/kinds.ts';
import type { Namespace } from '../kube/types.ts';
import type { Postponed, WebhookContext } from './webhook.ts';

/**
 * Default limits on the number of waiting reviews and on the size of their request bodies. They exceed the default
 * concurrency limits of three API servers.
 */
const DEFAULT_LIMITS = { reviews: 2000, bytes: 16 * 1024 * 1024 };

type IsReady = (namespace: Namespace) => boolean;

export type WaitingRoom = ReturnType<typeof createWaitingRoom>;

/** Bounds the reviews that wait for objects. */
export function createWaitingRoom(limits = DEFAULT_LIMITS) {
  const used = { reviews: 0, bytes: 0 };
  let last = Promise.resolve();
  const turn = (): Promise<void> => (last = last.then(() => new Promise((resolve) => setImmediate(resolve))));
  const postpone = (context: WebhookContext, condition: Condition): Postponed | undefined => {
    const { bodyBytes: bytes = 0, isRepeated = false } = context;
    if (isRepeated) return undefined;
    if (used.reviews >= limits.reviews || used.bytes + bytes > limits.bytes) return undefined;
    used.reviews++;
    used.bytes += bytes;
    const fulfilled = untilFulfilled(context, condition).then(turn);
    const until = fulfilled.finally(() => {
      used.reviews--;
      used.bytes -= bytes;
    });
    return { until };
  };
  return {
    /**
     * Postpones a review until the namespace is ready, its deadline is reached, or the client disconnects. Each review
     * continues in a separate turn of the event loop, so many reviews do not block it. Returns `undefined` if a limit
     * is exceeded or the review has already waited.
     */
    wait(name: string, context: WebhookContext, isReady: IsReady): Postponed | undefined {
      return postpone(context, namespaceReady(context.store, name, isReady));
    },
    /** Postpones a review in the same way until the store contains all pods. */
    waitForPods(context: WebhookContext): Postponed | undefined {
      return postpone(context, podsRead(context.store));
    },
  };
}

/** Kinds whose changes may satisfy the condition in all namespaces. */
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

function untilFulfilled(context: WebhookContext, { isFulfilled, subscribe }: Condition): Promise<void> {
  const signal = context.getSignal?.();
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      unsubscribe();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const check = (): void => {
      try {
        if (isFulfilled()) end();
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)));
        end();
      }
    };
    const timer = setTimeout(end, remainingMs(context));
    const unsubscribe = subscribe(check);
    signal?.addEventListener('abort', end, { once: true });
    if (signal?.aborted) end();
    else check();
  });
}

/** Time for which OpenShift waits for a namespace's ranges. */
const MAX_WAIT_MS = 10_000;
/** Reserved for the response within the API server's timeout. */
const MARGIN_MS = 500;

/** Returns how long a review may wait while its response can still arrive in time. */
export function remainingMs({ deadlineMs, now }: Pick<WebhookContext, 'deadlineMs' | 'now'>): number {
  if (deadlineMs === undefined) return MAX_WAIT_MS;
  return Math.max(0, Math.min(MAX_WAIT_MS, deadlineMs - now() - MARGIN_MS));
}
