import { randomBytes } from 'node:crypto';
import { accessFromStore } from '../cluster/access.ts';
import type { ApplyOptions, Cluster, ClusterEvent, WriteOptions } from '../cluster/cluster.ts';
import { createStore, type Store } from '../cluster/store.ts';
import { getApiVersion, findKind, RESOURCES } from '../kube/resources.ts';
import type { Kind, Kinds, KubeObject, UserInfo } from '../kube/types.ts';
import type { CallWebhook } from './admission/https.ts';
import { createAdmission } from './admission/index.ts';
import { APPLY } from './body.ts';
import {
  serveDefinitions,
  startControllers,
  type Controllers,
  type ControllersOptions,
  type Writer,
} from './controllers.ts';
import { decodeValue, loadSchemas, type Schemas } from './fields/index.ts';
import { createRequestHandler, noSuchResource, type Core, type HandleRequest } from './request.ts';
import { createRegistry, findSubresource, type Registry } from './resources.ts';
import { createStorage, type Storage } from './storage.ts';
import { metadataOf, type ApiObject, type ResourceKey } from './types.ts';

export interface DevClusterOptions {
  clock(): Date;
  readonly call: CallWebhook;
}

/** A Kubernetes API server in memory. It is empty until it is started. */
export interface DevCluster extends Cluster, Omit<Core, 'admission'> {
  readonly store: Store;
  readonly writer: Writer;
  readonly handle: HandleRequest;
  readonly schemas: Schemas;
  readonly registry: Registry;
  readonly storage: Storage;
  /** Creates the default objects of a cluster and starts the controllers, which run until `stop`. */
  start(options?: ControllersOptions): Promise<void>;
  /** Resolves when the controllers have processed all changes. */
  idle(): Promise<void>;
  stop(): void;
}

/** Creates an empty cluster. */
export function createDevCluster({ clock, call }: DevClusterOptions): DevCluster {
  const storage = createStorage();
  const registry = createRegistry();
  const schemas = loadSchemas();
  const store = createStore();
  storage.subscribe(({ type, resource, object }) => {
    const kind = findKind(resource);
    const { name = '', namespace } = metadataOf(object);
    if (kind && type === 'DELETED') store.remove(kind, name, namespace);
    else if (kind) store.put(kind, object);
  });
  store.markSynced();
  serveDefinitions(storage, registry, schemas);
  const access = accessFromStore(store);
  const admission = createAdmission({
    reader: storage,
    versionsOf: ({ group, resource }) =>
      registry.list().filter((info) => info.group === group && info.resource === resource),
    decode: (value, info, subresource) => {
      const type = schemas.typeOf(findSubresource(info, subresource)?.kind ?? info);
      return type ? decodeValue(value, type) : { object: value as ApiObject };
    },
    call,
  });
  const core: Core = { storage, registry, schemas, admission, access, clock };
  const handle = createRequestHandler(core);
  const send = createSend(handle, registry);
  const writer = createWriter(send);
  let controllers: Controllers | undefined;
  return {
    ...createClusterClient(send, clock),
    store,
    reviewAccess: (user, attributes) => Promise.resolve(access(user, attributes)),
    storage,
    registry,
    schemas,
    access,
    clock,
    handle,
    writer,
    async start(options) {
      controllers = await startControllers({ storage, registry, writer }, options);
    },
    idle: () => controllers?.idle() ?? Promise.resolve(),
    stop: () => controllers?.stop(),
  };
}

const SERVER: UserInfo = { username: 'system:apiserver', groups: ['system:masters', 'system:authenticated'] };

/** A request of the server to itself. */
interface OwnRequest {
  readonly verb: string;
  readonly resource: ResourceKey;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly contentType?: string;
  readonly body?: unknown;
  readonly onWarning?: ((text: string) => void) | undefined;
}

/** Sends a request and resolves to the returned object; rejects with an ApiError. */
type Send = (request: OwnRequest) => Promise<ApiObject>;

function createSend(handle: HandleRequest, registry: Registry): Send {
  return async ({ resource: key, query, body, onWarning, ...request }) => {
    const info = registry.preferred(key);
    if (!info) throw noSuchResource();
    const { group, version, resource } = info;
    const result = await handle({
      subresource: '',
      namespace: '',
      name: '',
      contentType: 'application/json',
      ...request,
      group,
      version,
      resource,
      query: new URLSearchParams(query),
      user: SERVER,
      userAgent: '',
      body: body === undefined ? '' : JSON.stringify(body),
      context: {
        warn: onWarning ?? (() => undefined),
        audit: () => undefined,
        signal: new AbortController().signal,
      },
    });
    if (result.kind !== 'object') throw new TypeError(`${request.verb} ${resource} returned no object`);
    return result.object;
  };
}

function createWriter(send: Send): Writer {
  const query = { fieldManager: 'kube-apiserver' };
  return {
    create: (resource, object, options) =>
      send({ verb: 'create', resource, ...keyOf(object), name: '', query: { ...query, ...options }, body: object }),
    update: (resource, object, subresource = '') =>
      send({ verb: 'update', resource, subresource, ...keyOf(object), query, body: object }),
    remove: (resource, namespace, name) => send({ verb: 'delete', resource, namespace, name }),
  };
}

function keyOf({ metadata }: ApiObject | KubeObject): { name: string; namespace: string } {
  const { name = '', namespace = '' }: { name?: unknown; namespace?: unknown } = metadata ?? {};
  return { name: String(name), namespace: String(namespace) };
}

function createClusterClient(send: Send, clock: () => Date): Omit<Cluster, 'store' | 'reviewAccess'> {
  const request = async <K extends Kind>(kind: K, wanted: Omit<OwnRequest, 'resource'>): Promise<Kinds[K]> =>
    (await send({ ...wanted, resource: RESOURCES[kind] })) as Kinds[K];
  const write = <K extends Kind>(verb: string, kind: K, object: KubeObject, options: ApplyOptions, more = {}) => {
    const body = { apiVersion: getApiVersion(kind), kind, ...object };
    return request(kind, { verb, ...keyOf(object), ...writeOptions(options), body, ...more });
  };
  const apply = { contentType: APPLY };
  return {
    get: (kind, name, namespace = '') => request(kind, { verb: 'get', name, namespace }),
    create: (kind, object, options) => write('create', kind, object, options, { name: '' }),
    update: (kind, object, options) => write('update', kind, object, options),
    updateStatus: (kind, object, options) => write('update', kind, object, options, { subresource: 'status' }),
    apply: (kind, object, options) => write('patch', kind, object, options, apply),
    applyStatus: (kind, object, options) => write('patch', kind, object, options, { ...apply, subresource: 'status' }),
    patch: (kind, { name, namespace = '' }, body, options) => {
      const contentType = 'application/json-patch+json';
      return request(kind, { verb: 'patch', name, namespace, ...writeOptions(options), contentType, body });
    },
    async remove(kind, name, namespace = '') {
      await send({ verb: 'delete', resource: RESOURCES[kind], name, namespace });
    },
    async recordEvent(note) {
      const resource = { group: 'events.k8s.io', resource: 'events' };
      const body = eventOf(note, clock());
      const { namespace } = body.metadata;
      await send({ verb: 'create', resource, namespace, query: { fieldManager: note.reportingController }, body });
    },
  };
}

function writeOptions({ fieldManager, dryRun, onWarning, force }: WriteOptions & ApplyOptions) {
  const query = { fieldManager, ...(dryRun ? { dryRun: 'All' } : {}), ...(force ? { force: 'true' } : {}) };
  return { query, onWarning };
}

function eventOf({ regarding, type, reason, action, note, reportingController }: ClusterEvent, now: Date) {
  const { metadata = {}, kind, apiVersion } = regarding;
  const { name = '', uid, resourceVersion } = metadata;
  const namespace = metadata.namespace || 'default';
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: `${name}.${randomBytes(8).toString('hex')}`, namespace },
    eventTime: now.toISOString().replace('Z', '000Z'),
    type,
    reason,
    action,
    note,
    regarding: { kind, apiVersion, name, namespace, uid, resourceVersion },
    reportingController,
    reportingInstance: reportingController,
  };
}
