import type { Clock } from './clock.ts';
import { isObject, type JsonObject, type Kind } from '../kube/types.ts';
import type { WritableStore } from './store.ts';
import type { Projection } from './projection.ts';
import type { Sink } from './reflector.ts';

/**
 * True if a resource version comes before another of the same resource: they are whole numbers of any length.
 * @see https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
 */
function isBefore(version: string, other: string): boolean {
  return version.length === other.length ? version < other : version.length < other.length;
}

/** What was written here and the watch has not told of yet. */
interface OwnWrites {
  wrote(uid: unknown, resourceVersion: string): void;
  removed(uid: unknown): void;
  /** True if the watch tells of something that was before the last write. */
  isOutdated(uid: unknown, resourceVersion: string): boolean;
  /** True if the object was written later than a list was made. */
  isLater(uid: unknown, listVersion: string): boolean;
  /** The watch has told that the object is gone. */
  forget(uid: unknown): void;
}

interface Write {
  /** `undefined`: it was removed. */
  readonly resourceVersion: string | undefined;
  readonly untilMs: number;
}

/** What a watch has not told after so long it never will: a cluster may have been restored to what it was before. */
const KEPT_MS = 60_000;

function createOwnWrites(clock: Clock): OwnWrites {
  const writes = new Map<unknown, Write>();
  const add = (uid: unknown, resourceVersion: string | undefined): void => {
    const nowMs = clock.now();
    // They lie in the order in which they end.
    for (const [old, { untilMs }] of writes) {
      if (untilMs > nowMs) break;
      writes.delete(old);
    }
    writes.delete(uid);
    writes.set(uid, { resourceVersion, untilMs: nowMs + KEPT_MS });
  };
  const find = (uid: unknown): Write | undefined => {
    const write = writes.get(uid);
    return write && write.untilMs > clock.now() ? write : undefined;
  };
  return {
    wrote: add,
    removed: (uid) => add(uid, undefined),
    isOutdated(uid, resourceVersion) {
      const write = find(uid);
      if (write === undefined) return false;
      if (write.resourceVersion === undefined || isBefore(resourceVersion, write.resourceVersion)) return true;
      writes.delete(uid);
      return false;
    },
    isLater(uid, listVersion) {
      const written = find(uid)?.resourceVersion;
      return written !== undefined && isBefore(listVersion, written);
    },
    forget: (uid) => void writes.delete(uid),
  };
}

/** One kind of the store: what is watched and what is written here meet, and the later of both counts. */
export interface StoreWriter extends Sink {
  /** An object as the API server answered a write. */
  wrote(object: JsonObject): void;
  /** The object was removed by a request of ours. */
  removed(uid: unknown, name: string, namespace: string | undefined): void;
}

interface FeedOptions {
  readonly kind: Kind;
  readonly store: WritableStore;
  readonly projection: Projection;
  readonly clock: Clock;
}

/** Makes the way into the store for one kind. */
export function createStoreWriter({ kind, store, projection, clock }: FeedOptions): StoreWriter {
  const own = createOwnWrites(clock);
  /** How far the watch has come. */
  let position: string | undefined;

  const take = (object: JsonObject): void => {
    const { name, namespace } = metaOf(object);
    const kept = projection.keep(object);
    if (kept === undefined) {
      store.remove(kind, name, namespace);
      return;
    }
    const before = store.get(kind, name, namespace);
    if (before === undefined || !projection.isSame(before, kept)) store.put(kind, kept);
  };
  const drop = (uid: unknown, name: string, namespace: string | undefined): void => {
    const known = store.get(kind, name, namespace);
    // It may have been made anew in the meantime.
    if (known && known.metadata?.uid === uid) store.remove(kind, name, namespace);
  };

  return {
    put(object) {
      const { uid, resourceVersion } = metaOf(object);
      if (!own.isOutdated(uid, resourceVersion)) take(object);
    },
    remove(object) {
      const { uid, name, namespace } = metaOf(object);
      own.forget(uid);
      drop(uid, name, namespace);
    },
    retain(uids, resourceVersion) {
      position = resourceVersion === '' ? undefined : resourceVersion;
      for (const { metadata: { uid, name = '', namespace } = {} } of store.list(kind)) {
        if (!uids.has(uid) && !own.isLater(uid, resourceVersion)) store.remove(kind, name, namespace);
      }
    },
    reached: (resourceVersion) => void (position = resourceVersion),
    wrote(object) {
      const { uid, resourceVersion } = metaOf(object);
      // The watch was faster, and may have told already what came after this write.
      if (position !== undefined && !isBefore(position, resourceVersion)) return;
      own.wrote(uid, resourceVersion);
      take(object);
    },
    removed(uid, name, namespace) {
      own.removed(uid);
      drop(uid, name, namespace);
    },
  };
}

interface Meta {
  readonly uid: unknown;
  readonly resourceVersion: string;
  readonly name: string;
  readonly namespace: string | undefined;
}

function metaOf({ metadata }: JsonObject): Meta {
  const { uid, resourceVersion, name, namespace } = isObject(metadata) ? metadata : {};
  return {
    uid,
    resourceVersion: typeof resourceVersion === 'string' ? resourceVersion : '',
    name: typeof name === 'string' ? name : '',
    namespace: typeof namespace === 'string' && namespace !== '' ? namespace : undefined,
  };
}
