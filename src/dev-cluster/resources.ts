import { formatApiVersion } from '../kube/resources.ts';
import type { GroupVersionKind } from '../kube/types.ts';
import { BUILT_IN as BUILT_IN_SCHEMA } from './fields/schema.ts';
import { kindStrategy } from './objects/index.ts';
import type { ServedResource } from './resource-info.ts';
import { kindColumns } from './tables.ts';
import type { ApiObject, ResourceKey } from './types.ts';

export interface Registry {
  find(group: string, version: string, resource: string): ServedResource | undefined;
  /** Finds a resource in its preferred version. For a custom resource, this is the first served version. */
  preferred(key: ResourceKey): ServedResource | undefined;
  list(): readonly ServedResource[];
  /** Replaces the resources of a CRD. */
  define(definition: string, resources: readonly ServedResource[]): void;
}

/** Creates a registry of the built-in resources. */
export function createRegistry(): Registry {
  const custom = new Map<string, readonly ServedResource[]>();
  let all = BUILT_IN;
  return {
    find: (group, version, resource) =>
      all.find((info) => info.group === group && info.version === version && info.resource === resource),
    preferred: ({ group, resource }) => all.find((info) => info.group === group && info.resource === resource),
    list: () => all,
    define(definition, resources) {
      custom.set(definition, resources);
      all = [...BUILT_IN, ...[...custom.values()].flat()];
    },
  };
}

const ALL_VERBS = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'];
const POD_SUBRESOURCES = ['attach', 'ephemeralcontainers', 'exec', 'log', 'portforward', 'resize', 'status'];
const EVENT_FIELDS = ['kind', 'namespace', 'name', 'uid'].map((name) => `involvedObject.${name}`);

type Options = Partial<
  Pick<ServedResource, 'shortNames' | 'categories' | 'subresources' | 'verbs' | 'selectableFields'>
>;

const STATUS: Options = { subresources: ['status'] };
const WORKLOAD: Options = { categories: ['all'], ...STATUS };
/** Properties of reviews, which are answered but not stored. */
const REVIEW: Options = { verbs: ['create'] };

const APPS = 'apps';
const RBAC = 'rbac.authorization.k8s.io';
const WEBHOOKS = 'admissionregistration.k8s.io';
const AUTHORIZATION = 'authorization.k8s.io';
const AUTHENTICATION = 'authentication.k8s.io';

/** All built-in resources, in discovery order. All of them are served as v1. */
const BUILT_IN: readonly ServedResource[] = [
  namespaced('', 'ConfigMap', { shortNames: ['cm'] }),
  namespaced('', 'Event', { shortNames: ['ev'], selectableFields: EVENT_FIELDS }),
  namespaced('', 'LimitRange', { shortNames: ['limits'] }),
  clusterScoped('', 'Namespace', {
    shortNames: ['ns'],
    subresources: ['finalize', 'status'],
    selectableFields: ['status.phase'],
  }),
  clusterScoped('', 'Node', { shortNames: ['no'], ...STATUS }),
  namespaced('', 'PersistentVolumeClaim', { shortNames: ['pvc'], ...STATUS }),
  clusterScoped('', 'PersistentVolume', { shortNames: ['pv'], ...STATUS }),
  namespaced('', 'Pod', {
    shortNames: ['po'],
    categories: ['all'],
    subresources: POD_SUBRESOURCES,
    selectableFields: ['spec.nodeName', 'status.phase'],
  }),
  namespaced('', 'PodTemplate'),
  namespaced('', 'ReplicationController', { shortNames: ['rc'], ...WORKLOAD }),
  namespaced('', 'ResourceQuota', { shortNames: ['quota'], ...STATUS }),
  namespaced('', 'Secret'),
  namespaced('', 'ServiceAccount', { shortNames: ['sa'] }),
  namespaced('', 'Service', { shortNames: ['svc'], ...WORKLOAD }),

  namespaced(APPS, 'DaemonSet', { shortNames: ['ds'], ...WORKLOAD }),
  namespaced(APPS, 'Deployment', { shortNames: ['deploy'], ...WORKLOAD }),
  namespaced(APPS, 'ReplicaSet', { shortNames: ['rs'], ...WORKLOAD }),
  namespaced(APPS, 'StatefulSet', { shortNames: ['sts'], ...WORKLOAD }),

  namespaced('events.k8s.io', 'Event', { shortNames: ['ev'] }),

  clusterScoped(AUTHENTICATION, 'SelfSubjectReview', REVIEW),
  clusterScoped(AUTHORIZATION, 'SelfSubjectAccessReview', REVIEW),
  clusterScoped(AUTHORIZATION, 'SubjectAccessReview', REVIEW),

  namespaced('batch', 'CronJob', { shortNames: ['cj'], ...WORKLOAD }),
  namespaced('batch', 'Job', WORKLOAD),

  namespaced('networking.k8s.io', 'NetworkPolicy', { shortNames: ['netpol'] }),

  namespaced('policy', 'PodDisruptionBudget', { shortNames: ['pdb'], ...STATUS }),

  clusterScoped(RBAC, 'ClusterRoleBinding'),
  clusterScoped(RBAC, 'ClusterRole'),
  namespaced(RBAC, 'RoleBinding'),
  namespaced(RBAC, 'Role'),

  clusterScoped(WEBHOOKS, 'MutatingAdmissionPolicy', { categories: ['api-extensions'] }),
  clusterScoped(WEBHOOKS, 'MutatingAdmissionPolicyBinding', { categories: ['api-extensions'] }),
  clusterScoped(WEBHOOKS, 'MutatingWebhookConfiguration', { categories: ['api-extensions'] }),
  clusterScoped(WEBHOOKS, 'ValidatingAdmissionPolicy', { categories: ['api-extensions'], ...STATUS }),
  clusterScoped(WEBHOOKS, 'ValidatingAdmissionPolicyBinding', { categories: ['api-extensions'] }),
  clusterScoped(WEBHOOKS, 'ValidatingWebhookConfiguration', { categories: ['api-extensions'] }),
  clusterScoped('apiextensions.k8s.io', 'CustomResourceDefinition', {
    shortNames: ['crd', 'crds'],
    categories: ['api-extensions'],
    ...STATUS,
  }),

  clusterScoped('scheduling.k8s.io', 'PriorityClass', { shortNames: ['pc'] }),
  namespaced('coordination.k8s.io', 'Lease'),
  namespaced('discovery.k8s.io', 'EndpointSlice'),
  clusterScoped('node.k8s.io', 'RuntimeClass'),
];

function namespaced(group: string, kind: string, options?: Options): ServedResource {
  return builtIn(group, kind, true, options);
}

function clusterScoped(group: string, kind: string, options?: Options): ServedResource {
  return builtIn(group, kind, false, options);
}

function builtIn(group: string, kind: string, isNamespaced: boolean, options: Options = {}): ServedResource {
  const singular = kind.toLowerCase();
  return {
    group,
    version: 'v1',
    kind,
    listKind: `${kind}List`,
    resource: singular.replace(/y$/, 'ie').replace(/s$/, 'se') + 's',
    singular,
    namespaced: isNamespaced,
    shortNames: [],
    categories: [],
    verbs: ALL_VERBS,
    subresources: [],
    columns: kindColumns(kind),
    strategy: kindStrategy(group, kind, isNamespaced),
    schema: BUILT_IN_SCHEMA,
    custom: false,
    ...options,
  };
}

/** A part of an object that has its own URL. */
export interface Subresource {
  readonly name: string;
  /** Kind of the objects in requests and responses. */
  readonly kind: GroupVersionKind;
  readonly verbs: readonly string[];
}

const CHANGE = ['get', 'patch', 'update'];
const CONNECT = ['create', 'get'];

/** Subresources by name. A subresource without a kind has the kind of its resource. */
const SUBRESOURCES: Readonly<Record<string, { readonly verbs: readonly string[]; readonly kind?: string }>> = {
  attach: { verbs: CONNECT, kind: 'PodAttachOptions' },
  ephemeralcontainers: { verbs: CHANGE },
  exec: { verbs: CONNECT, kind: 'PodExecOptions' },
  finalize: { verbs: ['update'] },
  log: { verbs: ['get'] },
  portforward: { verbs: CONNECT, kind: 'PodPortForwardOptions' },
  resize: { verbs: CHANGE },
  status: { verbs: CHANGE },
};

/** Returns a subresource, or `undefined` if the resource has no such subresource. */
export function findSubresource(info: ServedResource, name: string): Subresource | undefined {
  const row = info.subresources.includes(name) ? SUBRESOURCES[name] : undefined;
  if (!row) return undefined;
  const { group, version, kind } = info;
  return {
    name,
    verbs: row.verbs,
    kind: row.kind === undefined ? { group, version, kind } : { group: '', version: 'v1', kind: row.kind },
  };
}

const EVENTS: ResourceKey = { group: '', resource: 'events' };

/** Event field names in events.k8s.io and in the core group, which serve the same objects. */
const EVENT_FIELD_NAMES = [
  ['regarding', 'involvedObject'],
  ['note', 'message'],
  ['reportingController', 'reportingComponent'],
  ['deprecatedSource', 'source'],
  ['deprecatedFirstTimestamp', 'firstTimestamp'],
  ['deprecatedLastTimestamp', 'lastTimestamp'],
  ['deprecatedCount', 'count'],
] as const;

function isConvertedEvent({ group, resource }: ResourceKey): boolean {
  return group === 'events.k8s.io' && resource === 'events';
}

/** Returns the resource under which the objects are stored. */
export function storageKey(info: ServedResource): ResourceKey {
  return isConvertedEvent(info) ? EVENTS : info;
}

/** Converts a stored object to a resource's version. */
export function toServed(info: ServedResource, stored: ApiObject): ApiObject {
  const apiVersion = formatApiVersion(info);
  if (stored.apiVersion === apiVersion) return stored;
  const names = new Map<string, string>(EVENT_FIELD_NAMES.map(([served, name]) => [name, served]));
  return { ...(isConvertedEvent(info) ? renameFields(stored, names) : stored), apiVersion };
}

/** Converts an object to its stored form. */
export function toStored(info: ServedResource, object: ApiObject): ApiObject {
  if (!isConvertedEvent(info)) return object;
  return { ...renameFields(object, new Map<string, string>(EVENT_FIELD_NAMES)), apiVersion: 'v1' };
}

function renameFields(object: ApiObject, names: ReadonlyMap<string, string>): ApiObject {
  return Object.fromEntries(Object.entries(object).map(([field, value]) => [names.get(field) ?? field, value]));
}
