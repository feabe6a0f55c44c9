import { randomUUID } from 'node:crypto';
import { ApiError } from '../kube/status.ts';
import type { Clock } from './clock.ts';
import type { EventNote } from './port.ts';
import type { Connection } from './connect.ts';
import { createTokenBucket, type TokenBucket } from './token-bucket.ts';

export interface EventOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly clock: Clock;
  /** The time of day. */
  now(): Date;
}

/** What the same note about the same object becomes: one event that counts. */
interface Series {
  readonly path: string;
  count: number;
  lastMs: number;
}

/** So many at once about one object, then one in five minutes; as client-go does. */
const RATE = { burst: 25, perSecond: 1 / 300 };
/** After so long the same note is a new event. */
const SERIES_MS = 600_000;
const MAX_KNOWN = 4096;

/**
 * Makes the function that writes events: those that repeat become one with a count, and those about an object that is
 * talked of too much are left out.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/client-go/tools/record/events_cache.go
 */
export function createEventRecorder({ connection, clock, now }: EventOptions): (note: EventNote) => Promise<void> {
  const buckets = createCache<TokenBucket>();
  const series = createCache<Promise<Series>>();

  const create = async (note: EventNote): Promise<Series> => {
    const event = eventOf(note, now());
    const { name, namespace } = event.metadata;
    const path = `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
    const query = { fieldManager: note.reportingController };
    await connection.request({ method: 'POST', path, query, body: event });
    return { path: `${path}/${encodeURIComponent(name)}`, count: 1, lastMs: clock.now() };
  };
  const repeat = async (known: Series, note: EventNote): Promise<Series> => {
    known.count++;
    known.lastMs = clock.now();
    const value = { count: known.count, lastObservedTime: microTime(now()) };
    try {
      await connection.request({
        method: 'PATCH',
        path: known.path,
        query: { fieldManager: note.reportingController },
        contentType: 'application/json-patch+json',
        body: [{ op: 'add', path: '/series', value }],
      });
      return known;
    } catch (error) {
      // Events are kept for an hour only.
      if (error instanceof ApiError && error.status.code === 404) return await create(note);
      throw error;
    }
  };

  return async (note) => {
    const object = objectKey(note);
    const bucket = buckets.get(object) ?? createTokenBucket(RATE, clock);
    buckets.set(object, bucket);
    if (!bucket.tryTake()) return;
    const key = noteKey(note);
    const before = series.get(key);
    const next = before
      ? before.then(
          (known) => (clock.now() - known.lastMs < SERIES_MS ? repeat(known, note) : create(note)),
          () => create(note),
        )
      : create(note);
    series.set(key, next);
    await next;
  };
}

interface Cache<T> {
  get(key: string): T | undefined;
  set(key: string, value: T): void;
}

/** Keeps what was set last. */
function createCache<T>(): Cache<T> {
  const known = new Map<string, T>();
  return {
    get: (key) => known.get(key),
    set(key, value) {
      known.delete(key);
      known.set(key, value);
      const [oldest] = known.keys();
      if (known.size > MAX_KNOWN && oldest !== undefined) known.delete(oldest);
    },
  };
}

function objectKey({ regarding: { apiVersion, kind, metadata } }: EventNote): string {
  return JSON.stringify([apiVersion, kind, metadata?.namespace, metadata?.name, metadata?.uid]);
}

function noteKey(note: EventNote): string {
  const { type, reason, action, note: text, reportingController } = note;
  return JSON.stringify([objectKey(note), type, reason, action, text, reportingController]);
}

function eventOf({ regarding, ...note }: EventNote, now: Date) {
  const { apiVersion, kind, metadata: { name = '', namespace = '', uid, resourceVersion } = {} } = regarding;
  // What lies in no namespace is told of in this one.
  const place = namespace === '' ? 'default' : namespace;
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: `${name}.${randomUUID()}`, namespace: place },
    eventTime: microTime(now),
    ...note,
    regarding: { apiVersion, kind, name, namespace: place, uid, resourceVersion },
    reportingInstance: note.reportingController,
  };
}

/** With six digits, as the API server wants it. */
function microTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}
