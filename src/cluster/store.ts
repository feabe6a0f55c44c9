import type { Kind, Kinds } from '../kube/kinds.ts';
import type { Version } from '../policy/pss/index.ts';

export interface Change<K extends Kind = Kind> {
  readonly kind: K;
  readonly type: 'put' | 'remove';
  /** Current state of the object, or its last state if it was removed. */
  readonly object: Kinds[K];
  /** The previous state. Absent for a new object. */
  readonly before?: Kinds[K];
}

/** In-memory store of the objects that decisions read. */
export interface Store {
  get<K extends Kind>(kind: K, name: string, namespace?: string): Kinds[K] | undefined;
  /**
   * Returns all objects of a kind, or all of its objects in a namespace, in the order in which they were added to the
   * store.
   */
  list<K extends Kind>(kind: K, namespace?: string): readonly Kinds[K][];
  /**
   * Returns a number that increases with every change to objects of the kind. Derived data remains valid while the
   * revision is unchanged.
   */
  revision(kind: Kind): number;
  /** Calls the listener after each change. Returns a function that unsubscribes it. */
  subscribe(listener: (change: Change) => void): () => void;
  /**
   * Kubernetes version to emulate for Pod Security, taken from the settings or, if they set none, from the API server.
   * If absent, the newest known version applies.
   */
  emulationVersion?: Version | undefined;
  /** Calls the listener whenever a kind or the store becomes synced. Returns a function that unsubscribes it. */
  onSynced(listener: () => void): () => void;
  /**
   * Returns true once the kind has been read completely. If no kind is given, returns true once all kinds that reviews
   * need have been read.
   */
  synced(kind?: Kind): boolean;
}

/** The writable interface of the store. */
export interface WritableStore extends Store {
  put<K extends Kind>(kind: K, object: Kinds[K]): void;
  remove(kind: Kind, name: string, namespace?: string): void;
  /**
   * Marks a kind as synced. If no kind is given, marks all kinds that reviews need. If individual kinds are never
   * marked, all kinds share a single sync state.
   */
  markSynced(kind?: Kind): void;
}

type ObjectsByName = Map<string, Kinds[Kind]>;

/** Namespace key for cluster-scoped objects in the store. */
const CLUSTER_SCOPE = '';

/** Creates an empty store. An exception from a listener is passed to `onError`, and does not affect other listeners. */
export function createStore(onError: (error: unknown) => void = reportUncaught): WritableStore {
  const namespaces = createTables();
  const lists = new Map<Kind, { revision: number; all: readonly Kinds[Kind][] }>();
  const revisions = new Map<Kind, number>();
  const listeners = new Set<(change: Change) => void>();
  const syncListeners = new Set<() => void>();
  const complete = new Set<Kind>();
  let synced = false;

  const notify = (change: Change): void => {
    revisions.set(change.kind, (revisions.get(change.kind) ?? 0) + 1);
    callListeners(listeners, change, onError);
  };
  const listAll = (kind: Kind): readonly Kinds[Kind][] => {
    const revision = revisions.get(kind) ?? 0;
    const cached = lists.get(kind);
    if (cached?.revision === revision) return cached.all;
    const all = [...namespaces(kind).values()].flatMap((objects) => [...objects.values()]);
    lists.set(kind, { revision, all });
    return all;
  };

  return {
    get<K extends Kind>(kind: K, name: string, namespace = CLUSTER_SCOPE) {
      return namespaces(kind).get(namespace)?.get(name) as Kinds[K] | undefined;
    },
    list<K extends Kind>(kind: K, namespace?: string) {
      const objects = namespace === undefined ? listAll(kind) : [...(namespaces(kind).get(namespace)?.values() ?? [])];
      return objects as readonly Kinds[K][];
    },
    revision: (kind) => revisions.get(kind) ?? 0,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    onSynced(listener) {
      syncListeners.add(listener);
      return () => syncListeners.delete(listener);
    },
    synced: (kind) => (kind === undefined || complete.size === 0 ? synced : complete.has(kind)),
    put(kind, object) {
      const { name = '', namespace = CLUSTER_SCOPE } = object.metadata ?? {};
      const table = namespaces(kind);
      const objects: ObjectsByName = table.get(namespace) ?? new Map<string, Kinds[Kind]>();
      table.set(namespace, objects);
      const before = objects.get(name);
      objects.set(name, object);
      notify(before ? { kind, type: 'put', object, before } : { kind, type: 'put', object });
    },
    remove(kind, name, namespace = CLUSTER_SCOPE) {
      const table = namespaces(kind);
      const objects = table.get(namespace);
      const before = objects?.get(name);
      if (!objects || !before) return;
      objects.delete(name);
      if (objects.size === 0) table.delete(namespace);
      notify({ kind, type: 'remove', object: before, before });
    },
    markSynced(kind) {
      if (kind === undefined ? synced : complete.has(kind)) return;
      if (kind === undefined) synced = true;
      else complete.add(kind);
      for (const listener of syncListeners) listener();
    },
  };
}

/** Returns a function that finds or creates the table of a kind, which contains its objects by namespace. */
function createTables(): (kind: Kind) => Map<string, ObjectsByName> {
  const tables = new Map<Kind, Map<string, ObjectsByName>>();
  return (kind) => {
    const table = tables.get(kind) ?? new Map<string, ObjectsByName>();
    tables.set(kind, table);
    return table;
  };
}

function callListeners(
  listeners: ReadonlySet<(change: Change) => void>,
  change: Change,
  onError: (error: unknown) => void,
): void {
  for (const listener of listeners) {
    try {
      listener(change);
    } catch (error) {
      onError(error);
    }
  }
}

/** Throws the error asynchronously, so the handler for uncaught exceptions can report it. */
function reportUncaught(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}

/**
 * Caches a value that is derived from a store or a list. A store returns the same list until an object of the kind
 * changes.
 */
export function memoize<K extends object, V>(derive: (key: K) => V): (key: K) => V {
  const values = new WeakMap<K, { readonly value: V }>();
  return (key) => {
    const known = values.get(key);
    if (known) return known.value;
    const value = derive(key);
    values.set(key, { value });
    return value;
  };
}
