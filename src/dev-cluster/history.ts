import { keyOfObject } from './keys.ts';
import type { ApiObject, ResourceKey } from './types.ts';

/** One write, as watchers see it. */
export interface StoredChange {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly resource: ResourceKey;
  /** As it is now; after a removal as it was last, under the resource version of the removal. */
  readonly object: ApiObject;
  /** As it was before; absent for a new object. */
  readonly before?: ApiObject;
  readonly revision: number;
}

/** The latest changes of one resource: watches start from there, and continued lists read the past from it. */
export interface History {
  add(change: StoredChange): void;
  /** The first resource version from which a watch can start. */
  oldest(): number;
  /** The changes after a resource version, which must not be older than `oldest()`. */
  since(revision: number): readonly StoredChange[];
  /** What a list looked like at a resource version, which must not be older than `oldest()`. */
  undo(objects: readonly ApiObject[], revision: number): readonly ApiObject[];
}

/** How many changes each resource remembers. */
const CAPACITY = 1000;

/** Makes an empty history that begins at a resource version. */
export function createHistory(first: number): History {
  const changes: StoredChange[] = [];
  let oldest = first;
  const since = (revision: number): readonly StoredChange[] => {
    const start = changes.findIndex((change) => change.revision > revision);
    return start < 0 ? [] : changes.slice(start);
  };
  return {
    add(change) {
      changes.push(change);
      if (changes.length <= CAPACITY) return;
      oldest = changes.shift()?.revision ?? oldest;
    },
    oldest: () => oldest,
    since,
    undo(objects, revision) {
      const byId = new Map(objects.map((object) => [keyOfObject(object), object]));
      for (const change of since(revision).toReversed()) {
        if (change.before) byId.set(keyOfObject(change.before), change.before);
        else byId.delete(keyOfObject(change.object));
      }
      return [...byId.values()];
    },
  };
}
