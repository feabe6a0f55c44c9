import type { Kind, Kinds } from '../kube/kinds.ts';
import { type JsonObject, objectMember } from '../kube/types.ts';
import { createCache } from './cache.ts';
import type { Clock } from './clock.ts';
import { isSame, project } from './projection.ts';
import type { Sink } from './reflector.ts';
import type { WritableStore } from './store.ts';

/**
 * Writes objects of one kind to the store. Changes arrive through the watch and, usually earlier, as results of
 * Portcullis's own writes. The later version takes precedence.
 */
export interface StoreWriter extends Sink {
  /** Stores the complete result of one of Portcullis's own writes. */
  written(object: JsonObject): void;
  /** Replaces a stored object with an object of the same version that contains more fields. Ignores other versions. */
  restore(object: JsonObject): void;
  /** Removes an object that Portcullis itself deleted. */
  deleted(uid: unknown, name: string, namespace: string | undefined): void;
}

export interface StoreWriterOptions {
  readonly kind: Kind;
  readonly store: WritableStore;
  /** Completes a projected object before it is stored, for example by sharing its parts with other objects. */
  readonly complete: (kind: Kind, projected: JsonObject) => Kinds[Kind];
  readonly clock: Clock;
}

export function createStoreWriter({ kind, store, complete, clock }: StoreWriterOptions): StoreWriter {
  const ownWrites = createOwnWrites(clock);
  /** The version that the watch has reached. */
  let watchVersion: string | undefined;

  const storeObject = (projected: JsonObject): void => {
    const { name, namespace } = readMetadata(projected);
    const before = store.get(kind, name, namespace);
    const after = complete(kind, projected);
    // After a lost watch, a list may contain a new object with the name of an object whose deletion was not received.
    if (before !== undefined && before.metadata?.uid !== after.metadata?.uid) store.remove(kind, name, namespace);
    if (before === undefined || !isSame(kind, before, after)) store.put(kind, after);
  };
  const removeObject = (uid: unknown, name: string, namespace: string | undefined): void => {
    // Keeps an object with a different UID, which is a new object with the same name.
    if (store.get(kind, name, namespace)?.metadata?.uid === uid) store.remove(kind, name, namespace);
  };

  return {
    put(object) {
      const { uid, resourceVersion } = readMetadata(object);
      if (!ownWrites.supersede(uid, resourceVersion)) storeObject(object);
    },
    remove(object) {
      const { uid, name, namespace } = readMetadata(object);
      ownWrites.forget(uid);
      removeObject(uid, name, namespace);
    },
    retain(uids, resourceVersion) {
      watchVersion = resourceVersion === '' ? undefined : resourceVersion;
      for (const { metadata: { uid, name = '', namespace } = {} } of store.list(kind)) {
        if (!uids.has(uid) && !ownWrites.isLater(uid, resourceVersion)) store.remove(kind, name, namespace);
      }
    },
    reached: (resourceVersion) => void (watchVersion = resourceVersion),
    written(object) {
      const { uid, resourceVersion, name, namespace } = readMetadata(object);
      // Ignores the result if the watch has already delivered this write, and possibly later changes.
      if (watchVersion !== undefined && !isBefore(watchVersion, resourceVersion)) return;
      ownWrites.add(uid, resourceVersion);
      const projected = project(kind, object);
      if (projected) storeObject(projected);
      else removeObject(uid, name, namespace);
    },
    restore(object) {
      const { uid, resourceVersion, name, namespace } = readMetadata(object);
      const { metadata } = store.get(kind, name, namespace) ?? {};
      if (metadata?.uid === uid && metadata?.resourceVersion === resourceVersion) storeObject(object);
    },
    deleted(uid, name, namespace) {
      ownWrites.add(uid, undefined);
      removeObject(uid, name, namespace);
    },
  };
}

/**
 * Returns true if a resource version precedes another version of the same resource. Resource versions are integers of
 * any length.
 * @see https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
 */
function isBefore(version: string, other: string): boolean {
  return version.length === other.length ? version < other : version.length < other.length;
}

/** Portcullis's own writes that the watch has not reached yet, by UID. */
interface OwnWrites {
  /** Records a write, or a deletion if there is no version. */
  add(uid: unknown, resourceVersion: string | undefined): void;
  /** Returns true if one of Portcullis's own writes is later than the watched version. */
  supersede(uid: unknown, resourceVersion: string): boolean;
  /** Returns true if the object was written after the list version. */
  isLater(uid: unknown, listVersion: string): boolean;
  forget(uid: unknown): void;
}

interface OwnWrite {
  readonly resourceVersion: string | undefined;
}

/**
 * Time after which a write that the watch has not reached is forgotten, because the cluster may have been restored from
 * a backup.
 */
const OWN_WRITE_TTL_MS = 60_000;

function createOwnWrites(clock: Clock): OwnWrites {
  const writes = createCache<OwnWrite>({ limit: 'ownWritesBytes', ttlMs: OWN_WRITE_TTL_MS, now: clock.now });
  return {
    add: (uid, resourceVersion) => writes.set(String(uid), { resourceVersion }),
    supersede(uid, resourceVersion) {
      const write = writes.get(String(uid));
      if (write === undefined) return false;
      if (write.resourceVersion === undefined || isBefore(resourceVersion, write.resourceVersion)) return true;
      writes.delete(String(uid));
      return false;
    },
    isLater(uid, listVersion) {
      const version = writes.get(String(uid))?.resourceVersion;
      return version !== undefined && isBefore(listVersion, version);
    },
    forget: (uid) => writes.delete(String(uid)),
  };
}

interface Metadata {
  readonly uid: unknown;
  readonly resourceVersion: string;
  readonly name: string;
  readonly namespace: string | undefined;
}

function readMetadata(object: JsonObject): Metadata {
  const { uid, resourceVersion, name, namespace } = objectMember(object, 'metadata');
  return {
    uid,
    resourceVersion: typeof resourceVersion === 'string' ? resourceVersion : '',
    name: typeof name === 'string' ? name : '',
    namespace: typeof namespace === 'string' && namespace !== '' ? namespace : undefined,
  };
}
