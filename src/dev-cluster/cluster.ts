import { systemClock } from '../cluster/clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Connection } from '../cluster/connection.ts';
import { createEventRecorder } from '../cluster/event-recorder.ts';
import { createPooling } from '../cluster/object-pool.ts';
import { project } from '../cluster/projection.ts';
import { createStore, type Store } from '../cluster/store.ts';
import { createWrites } from '../cluster/writes.ts';
import { findKind, resourcePath, RESOURCES } from '../kube/resources.ts';
import type { UserInfo } from '../kube/types.ts';
import { accessFromStore } from '../views/access.ts';
import { POD_SOURCES } from '../views/workloads.ts';
import type { CallWebhook } from './admission/https.ts';
import { createAdmission } from './admission/index.ts';
import type { Core } from './call.ts';
import {
  type Controllers,
  type ControllersOptions,
  serveDefinitions,
  startClusterControllers,
  type Writer,
} from './controllers.ts';
import { createRequestHandler, type HandleRequest, noSuchResource, parseResourcePath } from './request.ts';
import { createRegistry, type Registry } from './resources.ts';
import { createStorage, type Storage } from './storage.ts';
import { getMetadata, type ResourceKey } from './types.ts';

interface DevClusterOptions {
  clock(): Date;
  readonly call: CallWebhook;
}

/** An in-memory Kubernetes API server, which is empty until it is started. */
export interface DevCluster extends Cluster, Omit<Core, 'admission'> {
  readonly store: Store;
  readonly writer: Writer;
  readonly handle: HandleRequest;
  readonly registry: Registry;
  readonly storage: Storage;
  /** Creates a cluster's default objects and starts the controllers, which run until `stop` is called. */
  start(options?: ControllersOptions): Promise<void>;
  /** Resolves once the controllers have processed all changes. */
  idle(): Promise<void>;
  stop(): void;
}

export function createDevCluster({ clock, call }: DevClusterOptions): DevCluster {
  const storage = createStorage();
  const registry = createRegistry();
  const store = createStore();
  const pool = createPooling();
  storage.subscribe(({ type, resource, object }) => {
    const kind = findKind(resource);
    const { name = '', namespace } = getMetadata(object);
    if (kind === undefined) return;
    // Projects pods and workloads, so that decisions read the same parts of them as in a live cluster.
    const isPodSource = POD_SOURCES.some((source) => source === kind);
    const stored = isPodSource ? project(kind, object) : object;
    if (stored && type !== 'DELETED') store.put(kind, isPodSource ? pool(kind, stored) : stored);
    else store.remove(kind, name, namespace);
  });
  store.markSynced();
  serveDefinitions(storage, registry);
  const access = accessFromStore(store);
  const admission = createAdmission({ reader: storage, access, call });
  const core: Core = { storage, registry, admission, access, clock };
  const handle = createRequestHandler(core);
  const connection = createLocalConnection(handle);
  const writer = createWriter(connection, registry);
  let controllers: Controllers | undefined;
  return {
    ...createWrites(connection),
    serves: (kind) => registry.preferred(RESOURCES[kind]) !== undefined,
    recordEvent: createEventRecorder({ connection, clock: systemClock, now: clock }),
    store,
    reviewAccess: (user, attributes) => Promise.resolve({ allowed: access(user, attributes) }),
    storage,
    registry,
    access,
    clock,
    handle,
    writer,
    async start(options) {
      controllers = await startClusterControllers({ storage, registry, writer }, options);
    },
    idle: () => controllers?.idle() ?? Promise.resolve(),
    stop: () => controllers?.stop(),
  };
}

const SERVER: UserInfo = { username: 'system:apiserver', groups: ['system:masters', 'system:authenticated'] };

/** Returns a client for the server's own requests, which it sends as a member of `system:masters`. */
function createLocalConnection(handle: HandleRequest): Pick<Connection, 'request'> {
  return {
    async request({ method, path, query, body, contentType = 'application/json', signal }) {
      const parameters = new URLSearchParams(query);
      const target = parseResourcePath(method, path, parameters);
      if (!target) throw noSuchResource();
      const result = await handle({
        ...target,
        query: parameters,
        user: SERVER,
        userAgent: '',
        contentType,
        body: body === undefined ? '' : JSON.stringify(body),
        context: {
          warn: () => undefined,
          signal: signal ?? new AbortController().signal,
        },
      });
      if (result.kind !== 'object') throw new TypeError(`${method} ${path} returned no object`);
      return result.object;
    },
  };
}

function createWriter({ request }: Pick<Connection, 'request'>, registry: Registry): Writer {
  const query = { fieldManager: 'kube-apiserver' };
  const path = (resource: ResourceKey, namespace: string, ...rest: readonly string[]): string => {
    const info = registry.preferred(resource);
    if (!info) throw noSuchResource();
    const names = rest.filter((part) => part !== '').map((part) => `/${encodeURIComponent(part)}`);
    return `${resourcePath(info, namespace || undefined)}${names.join('')}`;
  };
  return {
    async create(resource, body, options) {
      const { namespace = '' } = getMetadata(body);
      return request({ method: 'POST', path: path(resource, namespace), query: { ...query, ...options }, body });
    },
    async update(resource, body, subresource = '') {
      const { name = '', namespace = '' } = getMetadata(body);
      return request({ method: 'PUT', path: path(resource, namespace, name, subresource), query, body });
    },
    async remove(resource, namespace, name) {
      return request({ method: 'DELETE', path: path(resource, namespace, name) });
    },
  };
}
