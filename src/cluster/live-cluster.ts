/**
 * A cluster that is reached by its API server: the store follows it by lists and watches, writes go to it. Nothing here
 * decides anything; when the API server is away, the store stays as it was last.
 */
import { randomUUID } from 'node:crypto';
import { findKind, type ResourceInfo, getApiVersion, RESOURCES } from '../kube/resources.ts';
import { isObject, type JsonObject, type Kind, type Kinds, type KubeObject } from '../kube/types.ts';
import { type Sink, createReflector, type Reflector, type ReflectorOptions } from './reflector.ts';
import { ApiError } from '../kube/status.ts';
import { type Clock, createTokenBucket, type TokenBucket } from './clock.ts';
import type { ClusterEvent, ApplyOptions, Cluster, WriteOptions } from './cluster.ts';
import { type Connection, type ApiRequest, httpStatusCode } from './connection.ts';
import { type StoreWriter, createStoreWriter } from './store-writer.ts';
import { resourcePath, isInScope, scopedRequest, type Scope } from './lists.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ClusterMetrics } from '../telemetry/cluster.ts';
import { createStore } from './store.ts';
import { createProjections } from './projection.ts';
import { reviewAccess } from './access.ts';

/** Where definitions of custom resources are served; their names and versions are enough. */
const DEFINITIONS = {
  path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  accept: { list: metadataOnly('PartialObjectMetadataList'), watch: metadataOnly('PartialObjectMetadata') },
} as const;

function metadataOnly(kind: string): string {
  return `application/json;as=${kind};g=meta.k8s.io;v=v1,application/json`;
}

/** Takes definitions and tells of those of kinds that this program reads, whenever they are new or change. */
function createDefinitionSink(onDefined: (kind: Kind) => void): Sink {
  return {
    put(definition) {
      const kind = definedBy(definition);
      if (kind) onDefined(kind);
    },
    remove: () => undefined,
    retain: () => undefined,
    reached: () => undefined,
  };
}

/** A definition is called `<resource>.<group>`. */
function definedBy({ metadata }: JsonObject): Kind | undefined {
  const name = isObject(metadata) ? metadata['name'] : undefined;
  if (typeof name !== 'string') return undefined;
  const [resource = '', ...group] = name.split('.');
  return findKind({ resource, group: group.join('.') });
}

interface EventOptions {
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
export function createEventRecorder({ connection, clock, now }: EventOptions): (note: ClusterEvent) => Promise<void> {
  const buckets = createCache<TokenBucket>();
  const series = createCache<Promise<Series>>();

  const create = async (note: ClusterEvent): Promise<Series> => {
    const event = eventOf(note, now());
    const { name, namespace } = event.metadata;
    const path = `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
    const query = { fieldManager: note.reportingController };
    await connection.request({ method: 'POST', path, query, body: event });
    return { path: `${path}/${encodeURIComponent(name)}`, count: 1, lastMs: clock.now() };
  };
  const repeat = async (known: Series, note: ClusterEvent): Promise<Series> => {
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

function objectKey({ regarding: { apiVersion, kind, metadata } }: ClusterEvent): string {
  return JSON.stringify([apiVersion, kind, metadata?.namespace, metadata?.name, metadata?.uid]);
}

function noteKey(note: ClusterEvent): string {
  const { type, reason, action, note: text, reportingController } = note;
  return JSON.stringify([objectKey(note), type, reason, action, text, reportingController]);
}

function eventOf({ regarding, ...note }: ClusterEvent, now: Date) {
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

/** What every cluster has, and never loses. */
const BUILT_IN: ReadonlySet<string> = new Set([
  '',
  'admissionregistration.k8s.io',
  'apps',
  'batch',
  'coordination.k8s.io',
  'rbac.authorization.k8s.io',
]);

/** True for a resource that comes with a definition, which may be missing. */
function isDefinedInClusters({ group }: Pick<ResourceInfo, 'group'>): boolean {
  return !BUILT_IN.has(group);
}

/**
 * True if the API server says itself, in its discovery, that it does not serve the resource. A 404 alone says nothing: a
 * load balancer without an API server behind it answers the same. Rejects as `request` does.
 */
async function isUnserved(
  connection: Pick<Connection, 'request'>,
  { group, version, resource }: ResourceInfo,
  signal: AbortSignal,
): Promise<boolean> {
  const groups = await connection.request({ method: 'GET', path: '/apis', signal });
  if (groups['kind'] !== 'APIGroupList') return false;
  const known = objectsIn(groups, 'groups').find(({ name }) => name === group);
  if (!known || !objectsIn(known, 'versions').some((one) => one['version'] === version)) return true;
  const resources = await connection.request({ method: 'GET', path: `/apis/${group}/${version}`, signal });
  return (
    resources['kind'] === 'APIResourceList' && !objectsIn(resources, 'resources').some(({ name }) => name === resource)
  );
}

function objectsIn(object: JsonObject, name: string): readonly JsonObject[] {
  const list = object[name];
  return Array.isArray(list) ? list.filter(isObject) : [];
}

type Writes = Pick<
  Cluster,
  'get' | 'create' | 'update' | 'updateStatus' | 'patch' | 'apply' | 'applyStatus' | 'remove'
>;

const JSON_PATCH = 'application/json-patch+json';
/** JSON is YAML. */
const APPLY = 'application/apply-patch+yaml';

/** The writes of the port; what was written is given to the feed of its kind, if that is followed. */
function createWrites(
  connection: Pick<Connection, 'request'>,
  feedOf: (kind: Kind) => StoreWriter | undefined,
): Writes {
  const write = async <K extends Kind>(kind: K, options: WriteOptions, request: ApiRequest): Promise<Kinds[K]> => {
    const { fieldManager, onWarning } = options;
    const query = { ...request.query, fieldManager };
    if (options.dryRun === true) {
      return (await connection.request({ ...request, onWarning, query: { ...query, dryRun: 'All' } })) as Kinds[K];
    }
    const answer = await connection.request({ ...request, onWarning, query });
    feedOf(kind)?.wrote(answer);
    return answer as Kinds[K];
  };
  return {
    async get<K extends Kind>(kind: K, name: string, namespace?: string) {
      return (await connection.request({ method: 'GET', path: pathTo(kind, name, namespace) })) as Kinds[K];
    },
    create: (kind, object, options) =>
      write(kind, options, {
        method: 'POST',
        path: resourcePath(kind, object.metadata?.namespace),
        body: typed(kind, object),
      }),
    update: (kind, object, options) =>
      write(kind, options, { method: 'PUT', path: pathOfObject(kind, object), body: typed(kind, object) }),
    updateStatus: (kind, object, options) =>
      write(kind, options, {
        method: 'PUT',
        path: `${pathOfObject(kind, object)}/status`,
        body: typed(kind, object),
      }),
    patch: (kind, { name, namespace }, ops, options) =>
      write(kind, options, {
        method: 'PATCH',
        path: pathTo(kind, name, namespace),
        contentType: JSON_PATCH,
        body: ops,
      }),
    apply: (kind, object, options) => write(kind, options, applied(kind, object, options)),
    applyStatus(kind, object, options) {
      const request = applied(kind, object, options);
      return write(kind, options, { ...request, path: `${request.path}/status` });
    },
    async remove(kind, name, namespace) {
      const answer = await connection.request({ method: 'DELETE', path: pathTo(kind, name, namespace) });
      const uid = uidIn(answer);
      if (isStillThere(kind, answer)) feedOf(kind)?.wrote(answer);
      else if (uid !== undefined) feedOf(kind)?.removed(uid, name, namespace);
    },
  };
}

function applied(kind: Kind, object: KubeObject, { force }: ApplyOptions): ApiRequest {
  return {
    method: 'PATCH',
    path: pathOfObject(kind, object),
    query: force === true ? { force: 'true' } : {},
    contentType: APPLY,
    body: typed(kind, object),
  };
}

function pathTo(kind: Kind, name: string, namespace: string | undefined): string {
  return `${resourcePath(kind, namespace)}/${encodeURIComponent(name)}`;
}

function pathOfObject(kind: Kind, { metadata }: KubeObject): string {
  return pathTo(kind, metadata?.name ?? '', metadata?.namespace);
}

/** Objects in the store need not say what they are; bodies must. */
function typed(kind: Kind, object: KubeObject): KubeObject {
  return { apiVersion: getApiVersion(kind), kind, ...object };
}

/** True if what was answered to a removal is an object that has yet to be let go. */
function isStillThere(kind: Kind, { kind: answered, metadata }: JsonObject): boolean {
  if (answered === 'Status' || !isObject(metadata) || metadata['deletionTimestamp'] == null) return false;
  const { finalizers, deletionGracePeriodSeconds: graceSeconds } = metadata;
  const isHeld = Array.isArray(finalizers) && finalizers.length > 0;
  return isHeld || kind === 'Namespace' || (typeof graceSeconds === 'number' && graceSeconds > 0);
}

/** Of the object that was removed: a Status tells it in its details. */
function uidIn({ kind, metadata, details }: JsonObject): unknown {
  const holder = kind === 'Status' ? details : metadata;
  return isObject(holder) ? holder['uid'] : undefined;
}

interface LiveClusterOptions {
  /** Stays open when the cluster is stopped. */
  readonly connection: Connection;
  /** What the store follows, each kind once; what is written of others does not show in it. */
  readonly kinds: readonly (Kind | Scope)[];
  readonly clock: Clock;
  /** From 0 to less than 1. */
  random(): number;
  /** The time of day. */
  now(): Date;
  readonly pageSize?: number;
  readonly logger?: Logger;
  readonly metrics?: ClusterMetrics;
}

export interface LiveCluster extends Cluster {
  /** Begins to follow the cluster; resolves once the store is synced, or when it is stopped before. */
  start(): Promise<void>;
  /** Resolves when nothing comes into the store from outside any more. */
  stop(): Promise<void>;
  /** The kinds that have yet to be read for the first time. */
  unsyncedKinds(): readonly Kind[];
  /** How long ago each kind was last heard of, in milliseconds; bookmarks count. */
  lastEventAgesMs(): ReadonlyMap<Kind, number>;
}

/** Pods are ten times as large as other objects: reviews and memory should not wait for a page of them. */
const PAGE_SIZES: Partial<Readonly<Record<Kind, number>>> = { Pod: 100 };

/** Makes a cluster that has yet to be started. */
export function createLiveCluster(options: LiveClusterOptions): LiveCluster {
  const { connection, clock, random, now, pageSize, logger, metrics } = options;
  const scopes = options.kinds.map((one): Scope => (typeof one === 'string' ? { kind: one } : one));
  const store = createStore();
  const projectionOf = createProjections();
  const feeds = new Map<Kind, StoreWriter>();
  const reflectors = new Map<Kind, Reflector>();
  const missing = new Set(scopes.map(({ kind }) => kind));
  const begun = Promise.withResolvers<undefined>();
  let definitions: Reflector | undefined;
  let unfollow = (): void => undefined;

  const reflect = (resource: string, more: What): Reflector =>
    createReflector({
      connection,
      clock,
      random,
      ...tell(resource, logger),
      ...more,
    });
  const followDefinitions = (): void => {
    if (definitions) return;
    const sink = createDefinitionSink((kind) => reflectors.get(kind)?.retryNow());
    definitions = reflect('customresourcedefinitions', { ...DEFINITIONS, sink, onListed: () => undefined });
    definitions.start();
  };
  for (const scope of scopes) {
    const { kind } = scope;
    const feed = createStoreWriter({ kind, store, projection: projectionOf(kind), clock });
    feeds.set(kind, withinScope(feed, scope));
    const onListed = (): void => {
      missing.delete(kind);
      if (missing.size > 0 || store.synced()) return;
      store.markSynced();
      begun.resolve(undefined);
    };
    const info = RESOURCES[kind];
    const unserved = {
      confirm: (signal: AbortSignal) => isUnserved(connection, info, signal),
      onConfirmed: followDefinitions,
    };
    const optional = isDefinedInClusters(info) ? { unserved } : {};
    const what = { ...scopedRequest(scope), pageSize: pageSize ?? PAGE_SIZES[kind], sink: feed, onListed };
    reflectors.set(kind, reflect(info.resource, { ...what, ...optional }));
  }
  const lastEventAgesMs = (): ReadonlyMap<Kind, number> =>
    new Map([...reflectors].map(([kind, reflector]) => [kind, reflector.lastEventAgeMs()]));

  return {
    store,
    ...createWrites(connection, (kind) => feeds.get(kind)),
    recordEvent: createEventRecorder({ connection, clock, now }),
    reviewAccess: (user, attributes) => reviewAccess(connection, user, attributes),
    async start() {
      if (metrics) unfollow = metrics.follow(lastEventAgesMs);
      for (const reflector of reflectors.values()) reflector.start();
      await begun.promise;
    },
    async stop() {
      unfollow();
      await Promise.all([...reflectors.values(), ...(definitions ? [definitions] : [])].map((one) => one.stop()));
      begun.resolve(undefined);
    },
    unsyncedKinds: () => [...missing],
    lastEventAgesMs,
  };
}

/** What is written outside of what is followed would stay in the store for ever. */
function withinScope(feed: StoreWriter, scope: Scope): StoreWriter {
  return {
    ...feed,
    wrote(object) {
      if (isInScope(scope, object)) feed.wrote(object);
    },
  };
}

type What = Pick<ReflectorOptions, 'path' | 'query' | 'accept' | 'pageSize' | 'sink' | 'onListed' | 'unserved'>;

/** Says once that a resource cannot be read, and once that it can be again. */
function tell(resource: string, logger: Logger | undefined): Pick<ReflectorOptions, 'onFailure' | 'onRecovered'> {
  let isTold = false;
  return {
    onFailure(err, retryMs) {
      if (httpStatusCode(err) === 410) {
        logger?.info({ resource, retryMs }, 'too far behind the cluster, reading all anew');
        return;
      }
      if (isTold) logger?.debug({ err, resource, retryMs }, 'still no news of the cluster');
      else logger?.warn({ err, resource, retryMs }, 'no news of the cluster, going on with what is known');
      isTold = true;
    },
    onRecovered() {
      if (!isTold) return;
      isTold = false;
      logger?.info({ resource }, 'news of the cluster again');
    },
  };
}
