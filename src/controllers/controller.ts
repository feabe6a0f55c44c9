import { setImmediate } from 'node:timers/promises';
import type { Cluster, ClusterEvent, WriteOptions } from '../cluster/cluster.ts';
import type { Store } from '../cluster/store.ts';
import type { Kind, Kinds } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import { ApiError } from '../kube/status.ts';
import { RESOURCES } from '../kube/resources.ts';

/** What is worked on because of an object. */
export interface Source {
  readonly kind: Kind;
  /** True: only what happens counts, objects are not looked at at the start or once more. */
  readonly isNewsOnly?: boolean;
  /** The keys to work on when the object has come, changed or gone, or is looked at again. */
  keysOf(object: Kinds[Kind], store: Store, happened: Happened<Kind>): readonly string[];
}

/** What happened to an object. */
export interface Happened<K extends Kind> {
  /** `put`: it is there now; `remove`: it was there last; `again`: nothing, it is looked at at the start or once more. */
  readonly type: 'put' | 'remove' | 'again';
  /** As it was before; absent for a new one. */
  readonly before?: Kinds[K];
}

/** Objects of a kind make these keys. */
export function on<K extends Kind>(
  kind: K,
  keysOf: (object: Kinds[K], store: Store, happened: Happened<K>) => readonly string[],
): Source {
  return { kind, keysOf: (object, store, happened) => keysOf(object as Kinds[K], store, happened as Happened<K>) };
}

/** The same, but objects to which nothing happens make no keys: whoever starts looks at all of them in another way. */
export function onNews<K extends Kind>(
  kind: K,
  keysOf: (object: Kinds[K], store: Store, happened: Happened<K>) => readonly string[],
): Source {
  return { ...on(kind, keysOf), isNewsOnly: true };
}

/** What a reconcile works with. */
export interface ReconcileContext {
  readonly cluster: Cluster;
  readonly logger: Logger;
  /** Aborted when the controller is to stop. */
  readonly signal: AbortSignal;
  /** Milliseconds since some moment. */
  now(): number;
  /** Wants a key to be worked on, now or later; this one too: then it comes again. */
  enqueue(key: string, delayMs?: number): void;
  /** Tells about an object, without waiting for it; what cannot be told is logged. */
  tell(note: Omit<ClusterEvent, 'reportingController'>): void;
}

/** When to come again; nothing: when a source says so. */
export type ReconcileResult = { readonly requeueAfterMs: number } | undefined;

/** Keeps a part of the cluster as it should be. */
export interface Controller {
  /** As in `--controllers`, in logs and metrics, and as field manager. */
  readonly name: string;
  /** `leader`: by one replica at a time; `replica`: by each for itself. */
  readonly runs: 'leader' | 'replica';
  readonly sources: readonly Source[];
  /** Keys to work on at start, before those of the sources. */
  readonly keys?: readonly string[];
  /** How often all objects of the sources are looked at again, changed or not. */
  readonly resyncMs?: number;
  /** How many keys are worked on at a time; by default 1. */
  readonly concurrency?: number;
  /** The longest delay before a key that failed is tried again. */
  readonly maxRetryMs?: number;
  /**
   * Sets right what the key stands for. What it rejects with makes the key come again after a delay, except for an
   * `ApiError` 404: what is gone needs nothing.
   */
  reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult>;
}

/** Reviews share the thread: for so long they may have to wait. */
const TURN_MS = 5;

/**
 * Visits all items, and lets others go first whenever that has taken a while. What it visits may change in between.
 * Rejects with the reason of the signal if that is aborted.
 */
export async function inTurns<T>(
  items: Iterable<T>,
  visit: (item: T) => void,
  { now, signal }: { now(): number; readonly signal: AbortSignal },
): Promise<void> {
  let untilMs = now() + TURN_MS;
  for (const item of items) {
    visit(item);
    if (now() < untilMs) continue;
    await setImmediate();
    signal.throwIfAborted();
    untilMs = now() + TURN_MS;
  }
}

/** Creates an object. Where the cluster does not serve the kind, that is an error like any other: it may still come. */
export async function createObject<K extends Kind>(
  cluster: Cluster,
  kind: K,
  object: Kinds[K],
  options: WriteOptions,
): Promise<Kinds[K]> {
  try {
    return await cluster.create(kind, object, options);
  } catch (error) {
    if (!(error instanceof ApiError && error.status.code === 404)) throw error;
    const { group, resource } = RESOURCES[kind];
    throw new Error(`the cluster does not serve ${resource}.${group}; is its CustomResourceDefinition missing?`, {
      cause: error,
    });
  }
}

/** Tells for how long something has stayed as it is. */
export interface Stopwatch {
  /** Milliseconds since it was first seen like this; 0 if it was otherwise just now. `undefined` stands for nothing to see. */
  msOf(state: string | undefined, nowMs: number): number | undefined;
}

/** Makes a stopwatch that has seen nothing yet. */
export function createStopwatch(): Stopwatch {
  let seen: { readonly state: string; readonly sinceMs: number } | undefined;
  return {
    msOf(state, nowMs) {
      if (state === undefined) seen = undefined;
      else if (seen?.state !== state) seen = { state, sinceMs: nowMs };
      return seen && nowMs - seen.sinceMs;
    },
  };
}
