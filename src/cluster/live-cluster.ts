/**
 * A cluster that is accessed through its API server. Reflectors keep the store up to date, and writes go to the API
 * server. While the API server is unavailable, the store keeps its last state.
 */
import { DEFAULTS_KINDS } from '../api/admission-policies.ts';
import { defined } from '../kube/defined.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { LIMITS } from '../kube/limits.ts';
import { findKind, objectPath, type ResourceInfo, resourcePath, RESOURCES } from '../kube/resources.ts';
import { type KubeObject, objectMember, objectsIn } from '../kube/types.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { reviewAccess } from './access-reviews.ts';
import { createBindingReader, ROLE_KINDS } from './bindings.ts';
import { type Clock, createTokenBucket } from './clock.ts';
import type { Cluster } from './cluster.ts';
import { type Connection, httpStatusCode } from './connection.ts';
import { createEventRecorder } from './event-recorder.ts';
import { METADATA_ONLY } from './lists.ts';
import { createPooling } from './object-pool.ts';
import { createParser, type Parser, startParseWorker } from './parser.ts';
import { getExcess, reduce, storedLimit } from './projection.ts';
import { createReflector, type Reflector, type ReflectorOptions, type Sink } from './reflector.ts';
import { createStoreWriter, type StoreWriter, type StoreWriterOptions } from './store-writer.ts';
import { createStore, type Store, type WritableStore } from './store.ts';
import { createWrites } from './writes.ts';

/**
 * The objects of a kind to watch, such as those in one namespace or a single object. Permissions are often limited to
 * these objects.
 */
export interface Scope {
  readonly kind: Kind;
  readonly namespace?: string;
  readonly name?: string;
  /** Label selector for the objects. */
  readonly labelSelector?: string;
  /** If true, requests and stores only metadata. */
  readonly isMetadataOnly?: boolean;
}

interface LiveClusterOptions {
  /** The connection, which stays open when the cluster stops. */
  readonly connection: Connection;
  /** Closed when the cluster stops. Defaults to a parser with its own worker thread. */
  readonly parser?: Parser;
  readonly clock: Clock;
  /** Called when a watch recovers from failures. */
  readonly onRecovered?: (() => void) | undefined;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  random(): number;
  /** Returns the current date and time. */
  now(): Date;
  readonly pageSize?: number;
  /**
   * Returns true if memory is nearly exhausted. Pods, workloads and exceptions are then stored as if they were too
   * large, because users of a namespace can create any number of them.
   */
  isMemoryFull?(): boolean;
  readonly logger?: Logger;
  readonly metrics?: Metrics['cluster'];
}

interface SourceOptions extends LiveClusterOptions {
  readonly parser: Parser;
}

export interface LiveCluster extends Cluster {
  /**
   * Starts watching the kinds. Resolves when all of them have been listed, or when the cluster stops. Kinds that are
   * already watched are not listed again. Writes of other kinds do not change the store.
   */
  follow(kinds: readonly (Kind | Scope)[]): Promise<void>;
  /**
   * Stops watching all other kinds that have not been listed yet. Previous settings may have required kinds that the
   * replica is not permitted to read.
   */
  abandonOthers(kinds: readonly Kind[]): void;
  markSynced(): void;
  /** Stops the reflectors. Resolves when the store no longer changes. */
  stop(): Promise<void>;
  /** Returns the watched kinds that have not been listed yet. */
  unsyncedKinds(): readonly Kind[];
  /** Returns the time since the last event or bookmark of each kind, in milliseconds. */
  lastEventAgesMs(): ReadonlyMap<Kind, number>;
  /** Returns the kinds whose list or watch is failing, with the reason. */
  failures(): ReadonlyMap<Kind, string>;
}

/**
 * Page size for pods, which are about ten times as large as other objects. Small pages limit memory use and the delay
 * of reviews.
 */
const PAGE_SIZES: Partial<Readonly<Record<Kind, number>>> = { Pod: 100 };

/** Creates a cluster with an empty store. */
export function createLiveCluster(options: LiveClusterOptions): LiveCluster {
  const { connection, clock, now, logger, metrics, isMemoryFull = () => false } = options;
  const { parser = createParser(startParseWorker) } = options;
  const store = createStore((err) => logger?.error({ err }, 'a store subscriber failed'));
  const followed = new Map<Kind, Followed>();
  const stopped = Promise.withResolvers<undefined>();
  const sources = { ...options, parser };
  const definitions = createDefinitionWatch(sources, (kind) => followed.get(kind)?.reflector.retryNow());
  const bindings = createBindingReader({
    ...sources,
    store,
    getWriter: () => followed.get('RoleBinding')?.writer,
    onFailure: (err, retryMs) => logger?.warn({ err, retryMs }, 'failed to read the bindings of a role, retrying'),
  });
  const pool = createPooling();
  const complete: StoreWriterOptions['complete'] = (kind, projected) => {
    if (getExcess(projected) !== undefined) countExceeded(storedLimit(kind));
    const limited = isMemoryFull() ? reduce(kind, projected) : projected;
    return bindings.limit(kind, pool(kind, limited));
  };
  reportExcess(store, options);
  const follow = createFollower(sources, { store, complete, watchDefinitions: definitions.start });
  let isStopping = false;
  const lastEventAgesMs = (): ReadonlyMap<Kind, number> =>
    new Map([...followed].map(([kind, { reflector }]) => [kind, reflector.lastEventAgeMs()]));
  metrics?.follow(lastEventAgesMs);

  return {
    store,
    serves: (kind) => followed.get(kind)?.isUnserved !== true,
    ...createWrites(connection, (kind) => followed.get(kind)?.writer),
    get: createGet(connection, parser),
    recordEvent: createEventRecorder({ connection, clock, now }),
    reviewAccess: (user, attributes, address) => reviewAccess(connection, user, attributes, { address }),
    async follow(kinds) {
      const scopes = kinds.map((kind): Scope => (typeof kind === 'string' ? { kind } : kind));
      for (const scope of scopes) {
        if (isStopping || followed.has(scope.kind)) continue;
        const previous = scope.kind === 'RoleBinding' ? ROLE_KINDS : [];
        followed.set(
          scope.kind,
          follow(
            scope,
            previous.flatMap((kind) => followed.get(kind)?.firstList ?? []),
          ),
        );
      }
      const firstLists = scopes.flatMap(({ kind }) => followed.get(kind)?.firstList ?? []);
      await Promise.race([stopped.promise, Promise.all(firstLists)]);
    },
    abandonOthers(kinds) {
      for (const [kind, { reflector, isListed }] of followed) {
        if (isListed || kinds.includes(kind)) continue;
        followed.delete(kind);
        void reflector.stop();
      }
    },
    markSynced: () => store.markSynced(),
    async stop() {
      isStopping = true;
      const reflectors = Array.from(followed.values(), ({ reflector }) => reflector.stop());
      await Promise.all([definitions.stop(), bindings.stop(), ...reflectors]);
      await parser.close();
      stopped.resolve(undefined);
    },
    unsyncedKinds: () => [...followed].filter(([, { isListed }]) => !isListed).map(([kind]) => kind),
    lastEventAgesMs,
    failures: () =>
      new Map([...followed].flatMap(([kind, { failure }]) => (failure === undefined ? [] : [[kind, failure]]))),
  };
}

/** Logs and counts the objects that are not stored completely. */
function reportExcess(store: Store, { clock, logger, metrics }: LiveClusterOptions): void {
  const lines = createTokenBucket({ perSecond: 1, burst: 100 }, clock);
  const counts = new Map<Kind, number>();
  metrics?.followReduced(counts);
  store.subscribe(({ kind, type, object, before }) => {
    const excess = type === 'put' ? getExcess(object) : undefined;
    const previous = before && getExcess(before);
    if (excess === previous) return;
    counts.set(kind, (counts.get(kind) ?? 0) + Number(excess !== undefined) - Number(previous !== undefined));
    if (excess === undefined || !lines.tryTake()) return;
    const { name, namespace } = object.metadata ?? {};
    logger?.warn(
      { kind, namespace, name, excess },
      'object is too large, omitting the fields in "excess" from the store',
    );
  });
}

/** A watched kind. */
interface Followed {
  readonly reflector: Reflector;
  readonly writer: StoreWriter;
  readonly firstList: Promise<undefined>;
  isListed: boolean;
  isUnserved: boolean;
  /** Reason why the list or watch is failing. */
  failure: string | undefined;
}

interface FollowerOptions extends Pick<StoreWriterOptions, 'complete'> {
  readonly store: WritableStore;
  watchDefinitions(): void;
}

/** Returns a function that starts the reflector of a kind after the first lists of other kinds. */
function createFollower(
  options: SourceOptions,
  { store, complete, watchDefinitions }: FollowerOptions,
): (scope: Scope, previous: readonly Promise<undefined>[]) => Followed {
  const { connection, clock, pageSize } = options;
  return (scope, previous) => {
    const { kind, namespace, name, labelSelector, isMetadataOnly = false } = scope;
    const info = RESOURCES[kind];
    const firstList = Promise.withResolvers<undefined>();
    const writer = createStoreWriter({ kind, store, complete, clock });
    const unserved = {
      confirm: (signal: AbortSignal) => isUnserved(connection, info, signal),
      onConfirmed() {
        followed.isUnserved = true;
        if (!BUILT_IN_GROUPS.has(info.group)) watchDefinitions();
      },
    };
    const reflector = createLoggingReflector(options, info.resource, {
      kind,
      path: resourcePath(kind, namespace),
      // With this field selector, permission to list only this object is sufficient.
      query: {
        ...(name === undefined ? {} : { fieldSelector: `metadata.name=${name}` }),
        ...defined({ labelSelector }),
      },
      ...(isMetadataOnly ? { accept: METADATA_ONLY } : {}),
      pageSize: pageSize ?? PAGE_SIZES[kind],
      sink: writer,
      onListed() {
        Object.assign(followed, { isListed: true, isUnserved: false });
        store.markSynced(kind);
        firstList.resolve(undefined);
      },
      onReason: (reason) => void (followed.failure = reason),
      ...(isAlwaysServed(kind) ? {} : { unserved }),
    });
    const followed: Followed = {
      reflector,
      writer: restrictToScope(writer, scope),
      firstList: firstList.promise,
      isListed: false,
      isUnserved: false,
      failure: undefined,
    };
    if (previous.length === 0) reflector.start();
    else void Promise.all(previous).then(() => reflector.start());
    return followed;
  };
}

/** Creates the CRD watch. It does not run until it is started. */
function createDefinitionWatch(options: SourceOptions, onDefined: (kind: Kind) => void) {
  let reflector: Reflector | undefined;
  return {
    start(): void {
      if (reflector) return;
      const sink = createDefinitionSink(onDefined);
      reflector = createLoggingReflector(options, 'customresourcedefinitions', { ...DEFINITIONS, sink, onListed() {} });
      reflector.start();
    },
    stop: async (): Promise<void> => reflector?.stop(),
  };
}

function createLoggingReflector(options: SourceOptions, resource: string, specific: SpecificOptions): Reflector {
  const { connection, parser, clock, random } = options;
  return createReflector({
    connection,
    parser,
    clock,
    random,
    ...logFailures(resource, options, specific),
    ...specific,
  });
}

interface SpecificOptions extends Pick<
  ReflectorOptions,
  'kind' | 'path' | 'query' | 'accept' | 'pageSize' | 'sink' | 'onListed' | 'unserved'
> {
  /** Called with the reason after each failure, and without a reason on recovery. */
  onReason?(reason: string | undefined): void;
}

/** Logs failures and the recovery. Of several consecutive failures, only the first is logged as a warning. */
function logFailures(
  resource: string,
  { logger, onRecovered }: Pick<LiveClusterOptions, 'logger' | 'onRecovered'>,
  { onReason }: Pick<SpecificOptions, 'onReason'>,
): Pick<ReflectorOptions, 'onFailure' | 'onRecovered'> {
  let isFailing = false;
  return {
    onFailure(err, retryMs) {
      if (httpStatusCode(err) === 410) {
        logger?.info({ resource, retryMs }, 'watch expired, listing the resource again');
        return;
      }
      onReason?.(err instanceof Error ? err.message : String(err));
      if (isFailing) logger?.debug({ err, resource, retryMs }, 'watch still failing');
      else logger?.warn({ err, resource, retryMs }, 'watch failed, keeping the last known state');
      isFailing = true;
    },
    onRecovered() {
      if (!isFailing) return;
      isFailing = false;
      onReason?.(undefined);
      logger?.info({ resource }, 'watch recovered');
      onRecovered?.();
    },
  };
}

/** Limits written objects to the scope, because no watch event would ever remove other objects from the store. */
function restrictToScope(writer: StoreWriter, { namespace, name }: Scope): StoreWriter {
  const isInScope = ({ metadata }: KubeObject): boolean =>
    (namespace === undefined || metadata?.namespace === namespace) && (name === undefined || metadata?.name === name);
  return {
    ...writer,
    written(object) {
      if (isInScope(object)) writer.written(object);
    },
  };
}

/** API groups that every cluster serves. Resources in other groups have a CRD, which might be missing. */
const BUILT_IN_GROUPS: ReadonlySet<string> = new Set([
  '',
  'admissionregistration.k8s.io',
  'apps',
  'batch',
  'coordination.k8s.io',
  'rbac.authorization.k8s.io',
]);

/**
 * Returns true if every supported API server serves the kind. API servers serve MutatingAdmissionPolicies from version
 * 1.36, and all other built-in kinds in every version.
 */
function isAlwaysServed(kind: Kind): boolean {
  return BUILT_IN_GROUPS.has(RESOURCES[kind].group) && !DEFAULTS_KINDS.some((recent) => recent === kind);
}

/**
 * Resolves to true if the API server's discovery does not contain the resource. A 404 for the list does not prove this,
 * because load balancers without a backend also return it. Rejects with the errors of `Connection.request`.
 */
async function isUnserved(
  connection: Pick<Connection, 'request'>,
  { group, version, resource }: ResourceInfo,
  signal: AbortSignal,
): Promise<boolean> {
  const groups = await connection.request({ method: 'GET', path: '/apis', signal });
  if (groups['kind'] !== 'APIGroupList') return false;
  const info = objectsIn(groups['groups']).find(({ name }) => name === group);
  if (!info || !objectsIn(info['versions']).some((served) => served['version'] === version)) return true;
  const resources = await connection.request({ method: 'GET', path: `/apis/${group}/${version}`, signal });
  if (resources['kind'] !== 'APIResourceList') return false;
  return !objectsIn(resources['resources']).some(({ name }) => name === resource);
}

/** Request for the CRDs, of which only the names are needed. */
const DEFINITIONS = {
  path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  accept: METADATA_ONLY,
} as const;

/** Calls the function for each new or changed CRD of a kind that Portcullis reads. */
function createDefinitionSink(onDefined: (kind: Kind) => void): Sink {
  return {
    put(object) {
      const { name } = objectMember(object, 'metadata');
      if (typeof name !== 'string') return;
      // A CRD is named `<resource>.<group>`.
      const [resource = '', ...group] = name.split('.');
      const kind = findKind({ resource, group: group.join('.') });
      if (kind) onDefined(kind);
    },
    remove() {},
    retain() {},
    reached() {},
  };
}

/**
 * Creates the function that reads an object from the API server. For pods, which any user can make large, it returns
 * only the part that the store would keep.
 */
function createGet(connection: Pick<Connection, 'read' | 'request'>, parser: Parser): Cluster['get'] {
  return async <K extends Kind>(kind: K, name: string, namespace?: string, signal?: AbortSignal) => {
    const request = { method: 'GET', path: objectPath(kind, name, namespace), ...(signal ? { signal } : {}) } as const;
    if (kind !== 'Pod') return (await connection.request(request)) as Kinds[K];
    const { bytes, release } = await connection.read(request, (body) => parser.collect(body, LIMITS.responseBytes));
    try {
      const { parts } = await parser.parse(bytes, { form: 'object', kind });
      return (parts?.[0]?.()[0] ?? {}) as Kinds[K];
    } finally {
      release();
    }
  };
}
