import type { Kind } from '../kube/types.ts';
import type { Store } from './store.ts';

/** The object whose changes may bring what is waited for; it need not exist yet. */
export interface Watched {
  readonly kind: Kind;
  readonly name: string;
  readonly namespace?: string;
}

/** How long to wait: until the signal is aborted or the time is up, whichever comes first. */
export interface Patience {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Gathers from the store: at once if all is there, else as soon as a change of the watched object brings what is missing
 * (`gather` gives `undefined` until then). Without polling; resolves to `undefined` when patience ends.
 */
export function until<T>(
  store: Store,
  watched: Watched,
  gather: () => T | undefined,
  { timeoutMs, signal }: Patience,
): T | Promise<T | undefined> {
  const found = gather();
  if (found !== undefined) return found;
  return new Promise((resolve, reject) => {
    const end = (outcome: () => void): void => {
      clearTimeout(timer);
      unwatch();
      signal?.removeEventListener('abort', giveUp);
      outcome();
    };
    const giveUp = (): void => end(() => resolve(undefined));
    const look = (): void => {
      try {
        const gathered = gather();
        if (gathered !== undefined) end(() => resolve(gathered));
      } catch (error) {
        end(() => reject(error instanceof Error ? error : new Error(String(error))));
      }
    };
    const timer = setTimeout(giveUp, timeoutMs);
    const unwatch = watch(store, keyOf(watched), look);
    signal?.addEventListener('abort', giveUp, { once: true });
    if (signal?.aborted) giveUp();
  });
}

/** Who waits in a store, by the key of the object. */
interface Watchers {
  readonly byKey: Map<string, Set<() => void>>;
  readonly unsubscribe: () => void;
}

const followed = new WeakMap<Store, Watchers>();

/** All who wait share one subscription, so that a change costs no more than those whom it concerns. */
function watch(store: Store, key: string, look: () => void): () => void {
  const { byKey, unsubscribe } = followed.get(store) ?? follow(store);
  const looks = byKey.get(key) ?? new Set();
  byKey.set(key, looks.add(look));
  return () => {
    looks.delete(look);
    if (looks.size > 0) return;
    byKey.delete(key);
    if (byKey.size > 0) return;
    followed.delete(store);
    unsubscribe();
  };
}

function follow(store: Store): Watchers {
  const byKey: Watchers['byKey'] = new Map();
  const unsubscribe = store.subscribe(({ kind, object: { metadata = {} } }) => {
    const { name = '', namespace } = metadata;
    for (const look of byKey.get(keyOf(namespace === undefined ? { kind, name } : { kind, name, namespace })) ?? [])
      look();
  });
  const watchers = { byKey, unsubscribe };
  followed.set(store, watchers);
  return watchers;
}

/** Names hold no slashes. */
function keyOf({ kind, name, namespace = '' }: Watched): string {
  return `${kind}/${namespace}/${name}`;
}
