import type { JsonObject } from '../../../src/kube/types.ts';
import type { Collection } from './objects.ts';

type EventType = 'ADDED' | 'MODIFIED' | 'DELETED' | 'ERROR';
type Listener = (type: EventType, object: JsonObject) => void;

/** A collection that changes: what is kept of it is which objects have changed, and how often. */
export interface Table {
  readonly count: number;
  resourceVersion(): string;
  /** The objects from that number on, at most so many, and where it goes on. */
  page(start: number, limit: number): { readonly items: readonly JsonObject[]; readonly next?: number };
  /** Changes an object; one that was removed is there again. */
  change(index: number): void;
  remove(index: number): void;
  /** How often an object has changed. */
  changes(index: number): number;
  /** Forgets what has happened: who follows has to list again. */
  forget(): void;
  /** Tells what has happened since that version and what happens from now on, until the returned function is called. */
  follow(resourceVersion: string, listener: Listener): () => void;
}

interface Entry {
  readonly version: number;
  readonly type: EventType;
  readonly index: number;
  readonly changes: number;
}

const FIRST_VERSION = 1_000_000;
/** How many changes are remembered for those who ask later. */
const REMEMBERED = 50_000;

export function createTable({ count, make }: Collection): Table {
  const changes = new Map<number, { readonly changes: number; readonly version: number }>();
  const removed = new Set<number>();
  const listeners = new Set<Listener>();
  let log: Entry[] = [];
  let version = FIRST_VERSION;
  let forgotten = FIRST_VERSION;

  const objectOf = ({ index, changes: made, version: at }: Omit<Entry, 'type'>): JsonObject =>
    make(index, made, `${at}`);
  const current = (index: number): JsonObject => {
    const known = changes.get(index) ?? { changes: 0, version: FIRST_VERSION };
    return objectOf({ index, ...known });
  };
  const happen = (type: EventType, index: number): void => {
    const made = (changes.get(index)?.changes ?? 0) + 1;
    const entry = { version: ++version, type, index, changes: made };
    changes.set(index, entry);
    log.push(entry);
    if (log.length > REMEMBERED * 2) {
      forgotten = log[REMEMBERED - 1]?.version ?? forgotten;
      log = log.slice(REMEMBERED);
    }
    if (listeners.size === 0) return;
    const object = objectOf(entry);
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
      happen(removed.delete(index) ? 'ADDED' : 'MODIFIED', index);
    },
    remove(index) {
      if (removed.has(index)) return;
      removed.add(index);
      happen('DELETED', index);
    },
    changes: (index) => changes.get(index)?.changes ?? 0,
    forget() {
      log = [];
      forgotten = ++version;
      for (const listener of listeners) listener('ERROR', gone(FIRST_VERSION, forgotten));
      listeners.clear();
    },
    follow(resourceVersion, listener) {
      const since = Number(resourceVersion);
      if (since < forgotten) {
        listener('ERROR', gone(since, forgotten));
        return () => undefined;
      }
      for (const entry of log) if (entry.version > since) listener(entry.type, objectOf(entry));
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

function gone(since: number, forgotten: number): JsonObject {
  return { kind: 'Status', code: 410, message: `too old resource version: ${since} (${forgotten})` };
}
