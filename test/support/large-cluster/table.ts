import type { JsonObject } from '../../../src/kube/types.ts';
import type { Collection } from './objects.ts';

type EventType = 'ADDED' | 'MODIFIED' | 'DELETED' | 'ERROR';
type Listener = (type: EventType, object: JsonObject) => void;

/** A collection that generates its objects and stores only the number of changes to each object. */
export interface Table {
  readonly count: number;
  resourceVersion(): string;
  /** Returns a page of objects from an index, and the index of the next page. */
  page(start: number, limit: number): { readonly items: readonly JsonObject[]; readonly next?: number };
  /** Changes an object, or recreates a removed object. */
  change(index: number): void;
  remove(index: number): void;
  /** Returns the number of changes to an object. */
  changes(index: number): number;
  /** Expires all resource versions, so clients list again. */
  expire(): void;
  /** Sends the changes since a version and all later changes until the returned function is called. */
  watch(resourceVersion: string, listener: Listener): () => void;
}

interface Entry {
  readonly version: number;
  readonly type: EventType;
  readonly index: number;
  readonly changes: number;
}

const FIRST_VERSION = 1_000_000;
/** Number of changes to keep for new watches. */
const KEPT_CHANGES = 50_000;

export function createTable({ count, build: buildObject }: Collection): Table {
  const changes = new Map<number, { readonly changes: number; readonly version: number }>();
  const removed = new Set<number>();
  const listeners = new Set<Listener>();
  let log: Entry[] = [];
  let version = FIRST_VERSION;
  let expired = FIRST_VERSION;

  const build = ({ index, changes: made, version: at }: Omit<Entry, 'type'>): JsonObject =>
    buildObject(index, made, `${at}`);
  const current = (index: number): JsonObject => {
    const stored = changes.get(index) ?? { changes: 0, version: FIRST_VERSION };
    return build({ index, ...stored });
  };
  const record = (type: EventType, index: number): void => {
    const changeCount = (changes.get(index)?.changes ?? 0) + 1;
    const entry = { version: ++version, type, index, changes: changeCount };
    changes.set(index, entry);
    log.push(entry);
    if (log.length > KEPT_CHANGES * 2) {
      expired = log[KEPT_CHANGES - 1]?.version ?? expired;
      log = log.slice(KEPT_CHANGES);
    }
    if (listeners.size === 0) return;
    const object = build(entry);
    for (const listener of listeners) listener(type, object);
  };

  return {
    count,
    resourceVersion: () => `${version}`,
    page(start, limit) {
      const end = Math.min(count, start + limit);
      const items: JsonObject[] = [];
      for (let index = start; index < end; index++) if (!removed.has(index)) items.push(current(index));
      return end < count ? { items, next: end } : { items };
    },
    change(index) {
      record(removed.delete(index) ? 'ADDED' : 'MODIFIED', index);
    },
    remove(index) {
      if (removed.has(index)) return;
      removed.add(index);
      record('DELETED', index);
    },
    changes: (index) => changes.get(index)?.changes ?? 0,
    expire() {
      log = [];
      expired = ++version;
      for (const listener of listeners) listener('ERROR', gone(FIRST_VERSION, expired));
      listeners.clear();
    },
    watch(resourceVersion, listener) {
      const since = Number(resourceVersion);
      if (since < expired) {
        listener('ERROR', gone(since, expired));
        return () => undefined;
      }
      for (const entry of log) if (entry.version > since) listener(entry.type, build(entry));
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

function gone(since: number, expired: number): JsonObject {
  return { kind: 'Status', code: 410, message: `too old resource version: ${since} (${expired})` };
}
