import { randomUUID } from 'node:crypto';
import { LIMITS } from '../kube/limits.ts';
import { dnsSubdomainErrors } from '../kube/names.ts';
import type { KubeObject } from '../kube/types.ts';
import { formatMicroTime } from '../kube/units.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createCache, digest } from './cache.ts';
import { type Clock, createSlots, createTokenBucket, type TokenBucket } from './clock.ts';
import type { Cluster, ClusterEvent } from './cluster.ts';
import { type Connection, httpStatusCode } from './connection.ts';

interface RecorderOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly clock: Clock;
  /** Returns the current date and time. */
  now(): Date;
}

type Request = Parameters<Connection['request']>[0];

/** Equal events for an object, which the API server stores as a single event with a count. */
interface Series {
  readonly path: string;
  count: number;
}

/** Rate limit for each object, with the values of client-go. */
const RATE = { burst: 25, perSecond: 1 / 300 };
/** Time since the last event of a series after which an equal event starts a new series. */
const SERIES_MS = 600_000;
/** Time after which an unused token bucket is full again. */
const BUCKET_MS = (RATE.burst / RATE.perSecond) * 1000;

/** @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/events.go */
const MAX_NOTE_BYTES = 1024;

/** Shortens a text so that the API server accepts it, with the suffix, as the note of an event. */
export function truncateNote(text: string, suffix = ''): string {
  const encoder = new TextEncoder();
  const buffer = new Uint8Array(MAX_NOTE_BYTES - encoder.encode(suffix).length);
  if (encoder.encodeInto(text, buffer).read === text.length) return `${text}${suffix}`;
  const { written } = encoder.encodeInto(text, buffer.subarray(0, -encoder.encode('…').length));
  // Decodes the bytes to copy the text, because a slice would keep the whole text in memory.
  return `${new TextDecoder().decode(buffer.subarray(0, written))}…${suffix}`;
}

/**
 * Creates a function that writes events. It combines equal events into a series with a count, and drops events that
 * exceed an object's rate limit.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/client-go/tools/record/events_cache.go
 */
export function createEventRecorder(options: RecorderOptions): (event: ClusterEvent) => Promise<void> {
  const { connection, clock, now } = options;
  const buckets = createCache<TokenBucket>({ limit: 'eventBucketsBytes', ttlMs: BUCKET_MS, now: clock.now });
  const series = createCache<Promise<Series>>({ limit: 'eventSeriesBytes', ttlMs: SERIES_MS, now: clock.now });
  const writes = createSlots(LIMITS.eventWrites);
  let pending = 0;

  const send = async (request: Request): Promise<void> => {
    if (writes.areTaken()) countExceeded('eventWrites');
    const release = await writes.take();
    await connection.request(request).finally(release);
  };
  const create = async (event: ClusterEvent): Promise<Series> => {
    const body = eventObject(event, now());
    const { name, namespace } = body.metadata;
    const path = `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
    const query = { fieldManager: event.reportingController };
    await send({ method: 'POST', path, query, body });
    return { path: `${path}/${encodeURIComponent(name)}`, count: 1 };
  };
  const repeat = async (known: Series, event: ClusterEvent): Promise<Series> => {
    known.count++;
    const value = { count: known.count, lastObservedTime: formatMicroTime(now()) };
    try {
      await send({
        method: 'PATCH',
        path: known.path,
        query: { fieldManager: event.reportingController },
        contentType: 'application/json-patch+json',
        body: [{ op: 'add', path: '/series', value }],
      });
      return known;
    } catch (error) {
      // API servers keep events for an hour, so the event of a series may no longer exist.
      if (httpStatusCode(error) === 404) return await create(event);
      throw error;
    }
  };

  return async (event) => {
    if (!isRecordable(event.regarding)) throw new Error('the reference to the object is too long');
    const object = digest(objectIdentity(event));
    const bucket = buckets.get(object) ?? createTokenBucket(RATE, clock);
    buckets.set(object, bucket);
    if (!bucket.tryTake()) return;
    if (pending >= LIMITS.pendingEvents) {
      countExceeded('pendingEvents');
      throw new Error('too many events are being written');
    }
    const identity = digest(eventIdentity(event));
    const previous = series.get(identity);
    const next = previous
      ? previous.then(
          (known) => repeat(known, event),
          () => create(event),
        )
      : create(event);
    series.set(identity, next);
    pending++;
    try {
      await next;
    } finally {
      pending--;
    }
  };
}

/** Returns true if the event recorder accepts a reference. Requests and owner references may contain any text. */
export function isRecordable({ apiVersion = '', kind = '', metadata = {} }: KubeObject): boolean {
  const { name = '', namespace = '', uid = '' } = metadata;
  const texts = [apiVersion, kind, name, namespace, uid];
  if (texts.every(({ length }) => length <= LIMITS.eventReferenceCharacters)) return true;
  countExceeded('eventReferenceCharacters');
  return false;
}

/** Writes an event. Failures are logged. */
export function writeEvent(
  { recordEvent }: Pick<Cluster, 'recordEvent'>,
  logger: Logger,
  event: ClusterEvent,
): Promise<void> {
  return recordEvent(event).catch((err: unknown) => logger.debug({ err, reason: event.reason }, 'event not recorded'));
}

function objectIdentity({ regarding: { apiVersion, kind, metadata } }: ClusterEvent): string {
  return JSON.stringify([apiVersion, kind, metadata?.namespace, metadata?.name, metadata?.uid]);
}

function eventIdentity(event: ClusterEvent): string {
  const { type, reason, action, note, reportingController } = event;
  return JSON.stringify([objectIdentity(event), type, reason, action, note, reportingController]);
}

function eventObject({ regarding, ...event }: ClusterEvent, now: Date) {
  const { apiVersion, kind, metadata: { name = '', namespace: ownNamespace, uid, resourceVersion } = {} } = regarding;
  // Events for cluster-scoped objects are created in the default namespace, but their references have no namespace.
  // Otherwise, `kubectl describe` does not find them.
  const namespace = ownNamespace || 'default';
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: eventName(name), namespace },
    eventTime: formatMicroTime(now),
    ...event,
    regarding: { apiVersion, kind, name, namespace: ownNamespace || undefined, uid, resourceVersion },
    reportingInstance: event.reportingController,
  };
}

/** Returns a unique name that begins with the object's name, unless an event cannot have such a name. */
function eventName(object: string): string {
  const id = randomUUID();
  const name = `${object}.${id}`;
  return dnsSubdomainErrors(name).length === 0 ? name : id;
}
