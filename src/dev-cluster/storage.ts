import { compareBytes } from '../kube/text.ts';
import { type ApiObject, getMetadata, type ObjectReader, type ResourceKey } from './types.ts';

/** A write, as watches report it. */
export interface StoredChange {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly resource: ResourceKey;
  /** The new object or, after a removal, its last state with the resource version of the removal. */
  readonly object: ApiObject;
  /** The previous object. Absent for a new object. */
  readonly before?: ApiObject;
  readonly revision: number;
}

/**
 * Objects by resource, namespace and name. All resources share a single increasing resource version. Stored objects are
 * frozen, and a write replaces the whole object.
 */
export interface Storage extends ObjectReader {
  /** Returns the resource version of the latest write. */
  revision(): number;
  /** Stores a new object and returns it with its resource version. Returns `undefined` if the name is taken. */
  create(resource: ResourceKey, object: ApiObject): ApiObject | undefined;
  /** Replaces `before`. Returns `undefined` if `before` is no longer stored. */
  replace(resource: ResourceKey, before: ApiObject, object: ApiObject): ApiObject | undefined;
  /** Removes `before`, and returns its final state `last` with the removal's resource version. */
  remove(resource: ResourceKey, before: ApiObject, last?: ApiObject): ApiObject | undefined;
  /**
   * Returns the changes to a resource since a resource version. Returns `undefined` if the version is older than the
   * history or does not exist yet.
   */
  changesSince(resource: ResourceKey, revision: number): readonly StoredChange[] | undefined;
  /** Calls the listener after each write. Returns a function that unsubscribes it. */
  subscribe(listener: (change: StoredChange) => void): () => void;
}

/** First resource version. It is greater than 1, so a watch from version 1 fails, as in a cluster that is not new. */
const FIRST_REVISION = 100;

/** Number of changes in the history. */
const HISTORY_LIMIT = 1000;

type Objects = Map<string, ApiObject>;

export function createStorage(): Storage {
  const history: StoredChange[] = [];
  const listeners = new Set<(change: StoredChange) => void>();
  let revision = FIRST_REVISION;
  let oldest = FIRST_REVISION;

  const table = createTables();
  const withRevision = (object: ApiObject): ApiObject => {
    revision += 1;
    return deepFreeze({ ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } });
  };
  const publish = (change: StoredChange): void => {
    history.push(change);
    if (history.length > HISTORY_LIMIT) oldest = history.shift()?.revision ?? oldest;
    for (const listener of listeners) listener(change);
  };
  return {
    revision: () => revision,
    get: (resource, namespace, name) => table(resource).get(objectKey(namespace, name)),
    list: (resource, namespace) => sorted(table(resource), namespace),
    create(resource, object) {
      const objects = table(resource);
      const key = getObjectKey(object);
      if (objects.has(key)) return undefined;
      const stored = withRevision(object);
      objects.set(key, stored);
      publish({ type: 'ADDED', resource, object: stored, revision });
      return stored;
    },
    replace(resource, before, object) {
      const objects = table(resource);
      const key = getObjectKey(before);
      if (objects.get(key) !== before) return undefined;
      const stored = withRevision(object);
      objects.set(key, stored);
      publish({ type: 'MODIFIED', resource, object: stored, before, revision });
      return stored;
    },
    remove(resource, before, last = before) {
      const objects = table(resource);
      const key = getObjectKey(before);
      if (objects.get(key) !== before) return undefined;
      objects.delete(key);
      const removed = withRevision(last);
      publish({ type: 'DELETED', resource, object: removed, before, revision });
      return removed;
    },
    changesSince(resource, after) {
      if (after < oldest || after > revision) return undefined;
      return history.filter((change) => change.revision > after && isSameResource(change.resource, resource));
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Creates an index of objects by resource. */
function createTables(): (resource: ResourceKey) => Objects {
  const tables = new Map<string, Objects>();
  return ({ group, resource }) => {
    const key = `${resource}.${group}`;
    const objects = tables.get(key) ?? new Map<string, ApiObject>();
    tables.set(key, objects);
    return objects;
  };
}

export function isSameResource(a: ResourceKey, b: ResourceKey): boolean {
  return a.group === b.group && a.resource === b.resource;
}

/** Returns the sort key for lists, which is `namespace/name`, or `name` for cluster-scoped objects. */
function objectKey(namespace: string, name: string): string {
  return namespace === '' ? name : `${namespace}/${name}`;
}

export function getObjectKey(object: ApiObject): string {
  const { namespace, name } = getMetadata(object);
  return objectKey(namespace ?? '', name ?? '');
}

function sorted(objects: Objects, namespace?: string): readonly ApiObject[] {
  const keys = [...objects.keys()].filter((key) => namespace === undefined || key.startsWith(`${namespace}/`));
  return keys
    .sort(compareBytes)
    .map((key) => objects.get(key))
    .filter((object) => object !== undefined);
}

/** Freezes an object and all of its parts. Skips frozen parts, because they come from a stored object. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
