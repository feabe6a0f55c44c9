import { randomBytes } from 'node:crypto';
import { getApiVersion, RESOURCES } from '../kube/resources.ts';
import type { Kind, Kinds, KubeObject } from '../kube/types.ts';
import type { ApplyOptions, Cluster, ClusterEvent, WriteOptions } from '../cluster/cluster.ts';
import type { Store } from '../cluster/store.ts';
import type { Access } from '../cluster/access.ts';
import { APPLY } from './options.ts';
import type { OwnRequest, Send } from './requests.ts';
import type { ResourceKey } from './types.ts';

interface Parts {
  readonly send: Send;
  readonly access: Access;
  readonly store: Store;
  clock(): Date;
}

const EVENTS: ResourceKey = { group: 'events.k8s.io', resource: 'events' };

/** The port of a cluster on top of requests to itself. */
export function createPort({ send, access, store, clock }: Parts): Cluster {
  const request = async <K extends Kind>(kind: K, wanted: Omit<OwnRequest, 'resource'>): Promise<Kinds[K]> =>
    (await send({ ...wanted, resource: RESOURCES[kind] })) as Kinds[K];
  return {
    store,
    get: (kind, name, namespace = '') => request(kind, { verb: 'get', name, namespace }),
    create: (kind, object, options) =>
      request(kind, {
        verb: 'create',
        ...placeOf(object),
        name: '',
        query: queryOf(options),
        onWarning: options.onWarning,
        body: typed(kind, object),
      }),
    update: (kind, object, options) =>
      request(kind, {
        verb: 'update',
        ...placeOf(object),
        query: queryOf(options),
        onWarning: options.onWarning,
        body: typed(kind, object),
      }),
    updateStatus: (kind, object, options) =>
      request(kind, {
        verb: 'update',
        subresource: 'status',
        ...placeOf(object),
        query: queryOf(options),
        onWarning: options.onWarning,
        body: typed(kind, object),
      }),
    patch: (kind, { name, namespace = '' }, ops, options) =>
      request(kind, {
        verb: 'patch',
        name,
        namespace,
        query: queryOf(options),
        onWarning: options.onWarning,
        contentType: 'application/json-patch+json',
        body: ops,
      }),
    apply: (kind, object, options) => request(kind, applied(kind, object, options)),
    applyStatus: (kind, object, options) => request(kind, { ...applied(kind, object, options), subresource: 'status' }),
    async remove(kind, name, namespace = '') {
      await send({ verb: 'delete', resource: RESOURCES[kind], name, namespace });
    },
    async recordEvent(note) {
      const event = eventOf(note, clock());
      const namespace = event.metadata.namespace;
      await send({
        verb: 'create',
        resource: EVENTS,
        namespace,
        query: queryOf({ fieldManager: note.reportingController }),
        body: event,
      });
    },
    reviewAccess: (user, attributes) => Promise.resolve(access(user, attributes)),
  };
}

function applied(kind: Kind, object: KubeObject, options: ApplyOptions): Omit<OwnRequest, 'resource'> {
  return {
    verb: 'patch',
    ...placeOf(object),
    query: { ...queryOf(options), ...(options.force === true ? { force: 'true' } : {}) },
    onWarning: options.onWarning,
    contentType: APPLY,
    body: typed(kind, object),
  };
}

function placeOf(object: KubeObject): { name: string; namespace: string } {
  return { name: object.metadata?.name ?? '', namespace: object.metadata?.namespace ?? '' };
}

function queryOf({ fieldManager, dryRun }: WriteOptions): Record<string, string> {
  return { fieldManager, ...(dryRun === true ? { dryRun: 'All' } : {}) };
}

/** Objects in the store need not say what they are; bodies must. */
function typed(kind: Kind, object: KubeObject): KubeObject {
  return { apiVersion: getApiVersion(kind), kind, ...object };
}

function eventOf(note: ClusterEvent, now: Date): { metadata: { name: string; namespace: string } } {
  const { metadata = {}, kind, apiVersion } = note.regarding;
  const { name = '', namespace = '', uid, resourceVersion } = metadata;
  const place = namespace === '' ? 'default' : namespace;
  const event = {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: `${name}.${randomBytes(8).toString('hex')}`, namespace: place },
    eventTime: now.toISOString().replace('Z', '000Z'),
    type: note.type,
    reason: note.reason,
    action: note.action,
    note: note.note,
    regarding: { kind, apiVersion, name, namespace: place, uid, resourceVersion },
    reportingController: note.reportingController,
    reportingInstance: note.reportingController,
  };
  return event;
}
