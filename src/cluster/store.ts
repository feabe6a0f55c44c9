import type { Kind, Kinds } from '../kube/types.ts';

/** What happened to one object. */
export interface Change<K extends Kind = Kind> {
  readonly kind: K;
  readonly type: 'put' | 'remove';
  /** As it is now; on removal as it was last. */
  readonly object: Kinds[K];
  /** As it was before; absent for a new object. */
  readonly before?: Kinds[K];
}

/** The objects that decisions read, in memory, the same for every cluster. Reading never waits. */
export interface Store {
  get<K extends Kind>(kind: K, name: string, namespace?: string): Kinds[K] | undefined;
  /** All objects of a kind, or those of one namespace, in the order in which they came. */
  list<K extends Kind>(kind: K, namespace?: string): readonly Kinds[K][];
  /** Rises with every change of that kind: what is derived from a kind is good while its revision stays. */
  revision(kind: Kind): number;
  /** Calls the listener after each change, until the returned function is called. */
  subscribe(listener: (change: Change) => void): () => void;
  /** True once every kind has been read completely for the first time. */
  synced(): boolean;
}

/** The side of the store that a cluster adapter fills. */
export interface WritableStore extends Store {
  put<K extends Kind>(kind: K, object: Kinds[K]): void;
  remove(kind: Kind, name: string, namespace?: string): void;
  markSynced(): void;
}

type Objects = Map<string, Kinds[Kind]>;
type Table = Map<string, Objects>;

const CLUSTER_SCOPE = '';

/** Makes an empty store. */
export function createStore(): WritableStore {
  const tables = new Map<Kind, Table>();
  const lists = new Map<Kind, { revision: number; all: readonly Kinds[Kind][] }>();
  const revisions = new Map<Kind, number>();
  const listeners = new Set<(change: Change) => void>();
  let synced = false;

  const tableOf = (kind: Kind): Table => {
    const table = tables.get(kind) ?? new Map<string, Objects>();
    tables.set(kind, table);
    return table;
  };
  const changed = (change: Change): void => {
    revisions.set(change.kind, (revisions.get(change.kind) ?? 0) + 1);
    for (const listener of listeners) listener(change);
  };
  const all = (kind: Kind): readonly Kinds[Kind][] => {
    const revision = revisions.get(kind) ?? 0;
    const cached = lists.get(kind);
    if (cached?.revision === revision) return cached.all;
    const fresh = [...tableOf(kind).values()].flatMap((objects) => [...objects.values()]);
    lists.set(kind, { revision, all: fresh });
    return fresh;
  };

  return {
    get<K extends Kind>(kind: K, name: string, namespace = CLUSTER_SCOPE) {
      return tableOf(kind).get(namespace)?.get(name) as Kinds[K] | undefined;
    },
    list<K extends Kind>(kind: K, namespace?: string) {
      const found = namespace === undefined ? all(kind) : [...(tableOf(kind).get(namespace)?.values() ?? [])];
      return found as readonly Kinds[K][];
    },
    revision: (kind) => revisions.get(kind) ?? 0,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    synced: () => synced,
    put(kind, object) {
      const namespace = object.metadata?.namespace ?? CLUSTER_SCOPE;
      const name = object.metadata?.name ?? '';
      const table = tableOf(kind);
      const objects: Objects = table.get(namespace) ?? new Map<string, Kinds[Kind]>();
      table.set(namespace, objects);
      const before = objects.get(name);
      objects.set(name, object);
      changed(before ? { kind, type: 'put', object, before } : { kind, type: 'put', object });
    },
    remove(kind, name, namespace = CLUSTER_SCOPE) {
      const objects = tableOf(kind).get(namespace);
      const before = objects?.get(name);
      if (!objects || !before) return;
      objects.delete(name);
      if (objects.size === 0) tableOf(kind).delete(namespace);
      changed({ kind, type: 'remove', object: before, before });
    },
    markSynced() {
      synced = true;
    },
  };
}

/** The object whose changes may bring what is waited for; it need not exist yet. */
interface WaitTarget {
  readonly kind: Kind;
  readonly name: string;
  readonly namespace?: string;
}

/** How long to wait: until the signal is aborted or the time is up, whichever comes first. */
interface WaitLimits {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Gathers from the store: at once if all is there, else as soon as a change of the watched object brings what is missing
 * (`gather` gives `undefined` until then). Without polling; resolves to `undefined` when patience ends.
 */
export function waitFor<T>(
  store: Store,
  watched: WaitTarget,
  gather: () => T | undefined,
  { timeoutMs, signal }: WaitLimits,
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
function keyOf({ kind, name, namespace = '' }: WaitTarget): string {
  return `${kind}/${namespace}/${name}`;
}
