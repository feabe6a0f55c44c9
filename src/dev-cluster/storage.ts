import { compareBytes } from '../kube/text.ts';
import { createHistory, type History, type StoredChange } from './history.ts';
import { keyOf, keyOfObject } from './keys.ts';
import type { ApiObject, Reader, ResourceKey } from './types.ts';

/**
 * Objects by resource, namespace and name, under one rising resource version. What is stored is frozen: a change puts a
 * new object in the place of the old one.
 */
export interface Storage extends Reader {
  /** The resource version of the latest write. */
  revision(): number;
  /** Stores a new object and returns it with its resource version; `undefined` if the name is taken. */
  create(resource: ResourceKey, object: ApiObject): ApiObject | undefined;
  /** Replaces `before`; `undefined` if something else has been stored there since. */
  replace(resource: ResourceKey, before: ApiObject, object: ApiObject): ApiObject | undefined;
  /** Removes `before` and returns `last`, its final state, with the resource version of the removal. */
  remove(resource: ResourceKey, before: ApiObject, last?: ApiObject): ApiObject | undefined;
  /** What happened to a resource, and how it was before. */
  history(resource: ResourceKey): History;
  /** Calls the listener after each write, until the returned function is called. */
  subscribe(listener: (change: StoredChange) => void): () => void;
}

/** Resource versions start here, so that a watch from `1` is one from a past that nobody remembers. */
const FIRST_REVISION = 100;

/** The fields of metadata in the order in which the API server writes them: messages that quote objects show it. */
const METADATA = [
  'name',
  'generateName',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'labels',
  'annotations',
  'ownerReferences',
  'finalizers',
  'managedFields',
];

type Objects = Map<string, ApiObject>;

/** Makes an empty storage. */
export function createStorage(): Storage {
  const tables = new Map<string, Objects>();
  const histories = new Map<string, History>();
  const listeners = new Set<(change: StoredChange) => void>();
  let revision = FIRST_REVISION;

  const tableOf = (resource: ResourceKey): Objects => entry(tables, resource, () => new Map<string, ApiObject>());
  const historyOf = (resource: ResourceKey): History => entry(histories, resource, () => createHistory(FIRST_REVISION));
  const stamp = (object: ApiObject): ApiObject => {
    revision += 1;
    const metadata = inOrder({ ...object.metadata, resourceVersion: String(revision) });
    return deepFreeze({ ...object, metadata });
  };
  const tell = (change: StoredChange): void => {
    historyOf(change.resource).add(change);
    for (const listener of listeners) listener(change);
  };

  return {
    revision: () => revision,
    get: (resource, namespace, name) => tableOf(resource).get(keyOf(namespace, name)),
    list: (resource, namespace) => select(tableOf(resource), namespace),
    create(resource, object) {
      const objects = tableOf(resource);
      const key = keyOfObject(object);
      if (objects.has(key)) return undefined;
      const stored = stamp(object);
      objects.set(key, stored);
      tell({ type: 'ADDED', resource, object: stored, revision });
      return stored;
    },
    replace(resource, before, object) {
      const objects = tableOf(resource);
      const key = keyOfObject(before);
      if (objects.get(key) !== before) return undefined;
      const stored = stamp(object);
      objects.set(key, stored);
      tell({ type: 'MODIFIED', resource, object: stored, before, revision });
      return stored;
    },
    remove(resource, before, last = before) {
      const objects = tableOf(resource);
      const key = keyOfObject(before);
      if (objects.get(key) !== before) return undefined;
      objects.delete(key);
      const removed = stamp(last);
      tell({ type: 'DELETED', resource, object: removed, before, revision });
      return removed;
    },
    history: historyOf,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function entry<T>(map: Map<string, T>, { group, resource }: ResourceKey, make: () => T): T {
  const key = `${resource}.${group}`;
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}

/** In the order of the keys, as the API server lists: namespace first, then name. */
function select(objects: Objects, namespace: string | undefined): readonly ApiObject[] {
  const keys = [...objects.keys()].sort(compareBytes);
  const wanted = namespace === undefined ? keys : keys.filter((key) => key.startsWith(`${namespace}/`));
  return wanted.map((key) => objects.get(key)).filter((object) => object !== undefined);
}

function inOrder(metadata: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const known = METADATA.filter((name) => metadata[name] !== undefined).map((name) => [name, metadata[name]] as const);
  return { ...Object.fromEntries(known), ...metadata };
}

/** Freezes an object in depth. Parts that are frozen already are taken as frozen below, too: they were stored before. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
