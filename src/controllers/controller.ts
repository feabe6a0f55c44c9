import type { Cluster, EventNote } from '../cluster/port.ts';
import type { Store } from '../cluster/store.ts';
import type { Kind, Kinds } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';

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
  tell(note: Omit<EventNote, 'reportingController'>): void;
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
