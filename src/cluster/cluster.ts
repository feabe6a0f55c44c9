/**
 * A cluster that is reached by its API server: the store follows it by lists and watches, writes go to it. Nothing here
 * decides anything; when the API server is away, the store stays as it was last.
 */
import { RESOURCES } from '../kube/resources.ts';
import type { Kind } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ClusterMetrics } from '../telemetry/cluster.ts';
import type { Clock } from './clock.ts';
import type { Cluster } from './port.ts';
import { createStore } from './store.ts';
import type { Connection } from './connect.ts';
import { createDefinitionSink, DEFINITIONS } from './definitions.ts';
import { createEventRecorder } from './events.ts';
import { codeOf } from './failure.ts';
import { createFeed, type Feed } from './feed.ts';
import { createProjections } from './project.ts';
import { createReflector, type Reflector, type ReflectorOptions } from './reflector.ts';
import { reviewAccess } from './reviews.ts';
import { isDefinedInClusters, isUnserved } from './served.ts';
import { isWithin, requestFor, type Scope } from './scope.ts';
import { createWrites } from './writes.ts';

export interface LiveClusterOptions {
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
  unread(): readonly Kind[];
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
  const feeds = new Map<Kind, Feed>();
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
    const sink = createDefinitionSink((kind) => reflectors.get(kind)?.lookAgain());
    definitions = reflect('customresourcedefinitions', { ...DEFINITIONS, sink, onListed: () => undefined });
    definitions.start();
  };
  for (const scope of scopes) {
    const { kind } = scope;
    const feed = createFeed({ kind, store, projection: projectionOf(kind), clock });
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
    const what = { ...requestFor(scope), pageSize: pageSize ?? PAGE_SIZES[kind], sink: feed, onListed };
    reflectors.set(kind, reflect(info.resource, { ...what, ...optional }));
  }
  const lastEventAgesMs = (): ReadonlyMap<Kind, number> =>
    new Map([...reflectors].map(([kind, reflector]) => [kind, reflector.lastEventAgeMs()]));

  return {
    store,
    ...createWrites(connection, (kind) => feeds.get(kind)),
    event: createEventRecorder({ connection, clock, now }),
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
    unread: () => [...missing],
    lastEventAgesMs,
  };
}

/** What is written outside of what is followed would stay in the store for ever. */
function withinScope(feed: Feed, scope: Scope): Feed {
  return {
    ...feed,
    wrote(object) {
      if (isWithin(scope, object)) feed.wrote(object);
    },
  };
}

type What = Pick<ReflectorOptions, 'path' | 'query' | 'accept' | 'pageSize' | 'sink' | 'onListed' | 'unserved'>;

/** Says once that a resource cannot be read, and once that it can be again. */
function tell(resource: string, logger: Logger | undefined): Pick<ReflectorOptions, 'onFailure' | 'onRecovered'> {
  let isTold = false;
  return {
    onFailure(err, retryMs) {
      if (codeOf(err) === 410) {
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
