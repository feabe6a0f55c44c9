import { columnsOf } from './tables/index.ts';
import type { ResourceInfo, Strategy } from './types.ts';

/** A built-in resource, reduced to what does not follow from its kind. */
interface Row {
  readonly group: string;
  readonly kind: string;
  readonly resource: string;
  readonly namespaced: boolean;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  readonly subresources?: readonly string[];
  readonly verbs?: readonly string[];
}

const ALL_VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

const ALL = { categories: ['all'] };
const STATUS = { subresources: ['status'] };
const SCALE = { subresources: ['scale', 'status'] };
/** Answered, never stored. */
const REVIEW = { verbs: ['create'] };

function namespaced(group: string, kind: string, resource: string, more: Partial<Row> = {}): Row {
  return { group, kind, resource, namespaced: true, ...more };
}

function clusterWide(group: string, kind: string, resource: string, more: Partial<Row> = {}): Row {
  return { group, kind, resource, namespaced: false, ...more };
}

const POD_SUBRESOURCES = [
  'attach',
  'binding',
  'ephemeralcontainers',
  'eviction',
  'exec',
  'log',
  'portforward',
  'resize',
  'status',
];

const APPS = 'apps';
const RBAC = 'rbac.authorization.k8s.io';
const WEBHOOKS = 'admissionregistration.k8s.io';
const AUTHORIZATION = 'authorization.k8s.io';
const AUTHENTICATION = 'authentication.k8s.io';

/** By group in the order of discovery, by name within. All are served in version v1. */
const rows: readonly Row[] = [
  namespaced('', 'ConfigMap', 'configmaps', { shortNames: ['cm'] }),
  namespaced('', 'Endpoints', 'endpoints', { shortNames: ['ep'] }),
  namespaced('', 'Event', 'events', { shortNames: ['ev'] }),
  namespaced('', 'LimitRange', 'limitranges', { shortNames: ['limits'] }),
  clusterWide('', 'Namespace', 'namespaces', {
    shortNames: ['ns'],
    subresources: ['finalize', 'status'],
    verbs: ALL_VERBS.filter((verb) => verb !== 'deletecollection'),
  }),
  clusterWide('', 'Node', 'nodes', { shortNames: ['no'], ...STATUS }),
  namespaced('', 'PersistentVolumeClaim', 'persistentvolumeclaims', { shortNames: ['pvc'], ...STATUS }),
  clusterWide('', 'PersistentVolume', 'persistentvolumes', { shortNames: ['pv'], ...STATUS }),
  namespaced('', 'Pod', 'pods', { shortNames: ['po'], ...ALL, subresources: POD_SUBRESOURCES }),
  namespaced('', 'PodTemplate', 'podtemplates'),
  namespaced('', 'ReplicationController', 'replicationcontrollers', { shortNames: ['rc'], ...ALL, ...SCALE }),
  namespaced('', 'ResourceQuota', 'resourcequotas', { shortNames: ['quota'], ...STATUS }),
  namespaced('', 'Secret', 'secrets'),
  namespaced('', 'ServiceAccount', 'serviceaccounts', { shortNames: ['sa'] }),
  namespaced('', 'Service', 'services', { shortNames: ['svc'], ...ALL, ...STATUS }),

  namespaced(APPS, 'ControllerRevision', 'controllerrevisions'),
  namespaced(APPS, 'DaemonSet', 'daemonsets', { shortNames: ['ds'], ...ALL, ...STATUS }),
  namespaced(APPS, 'Deployment', 'deployments', { shortNames: ['deploy'], ...ALL, ...SCALE }),
  namespaced(APPS, 'ReplicaSet', 'replicasets', { shortNames: ['rs'], ...ALL, ...SCALE }),
  namespaced(APPS, 'StatefulSet', 'statefulsets', { shortNames: ['sts'], ...ALL, ...SCALE }),

  namespaced('events.k8s.io', 'Event', 'events', { shortNames: ['ev'] }),

  clusterWide(AUTHENTICATION, 'SelfSubjectReview', 'selfsubjectreviews', REVIEW),
  clusterWide(AUTHENTICATION, 'TokenReview', 'tokenreviews', REVIEW),

  namespaced(AUTHORIZATION, 'LocalSubjectAccessReview', 'localsubjectaccessreviews', REVIEW),
  clusterWide(AUTHORIZATION, 'SelfSubjectAccessReview', 'selfsubjectaccessreviews', REVIEW),
  clusterWide(AUTHORIZATION, 'SelfSubjectRulesReview', 'selfsubjectrulesreviews', REVIEW),
  clusterWide(AUTHORIZATION, 'SubjectAccessReview', 'subjectaccessreviews', REVIEW),

  namespaced('batch', 'CronJob', 'cronjobs', { shortNames: ['cj'], ...ALL, ...STATUS }),
  namespaced('batch', 'Job', 'jobs', { ...ALL, ...STATUS }),

  namespaced('networking.k8s.io', 'NetworkPolicy', 'networkpolicies', { shortNames: ['netpol'] }),

  namespaced('policy', 'PodDisruptionBudget', 'poddisruptionbudgets', { shortNames: ['pdb'], ...STATUS }),

  clusterWide(RBAC, 'ClusterRoleBinding', 'clusterrolebindings'),
  clusterWide(RBAC, 'ClusterRole', 'clusterroles'),
  namespaced(RBAC, 'RoleBinding', 'rolebindings'),
  namespaced(RBAC, 'Role', 'roles'),

  clusterWide(WEBHOOKS, 'MutatingWebhookConfiguration', 'mutatingwebhookconfigurations', {
    categories: ['api-extensions'],
  }),
  clusterWide(WEBHOOKS, 'ValidatingWebhookConfiguration', 'validatingwebhookconfigurations', {
    categories: ['api-extensions'],
  }),

  clusterWide('apiextensions.k8s.io', 'CustomResourceDefinition', 'customresourcedefinitions', {
    shortNames: ['crd', 'crds'],
    categories: ['api-extensions'],
    ...STATUS,
  }),

  clusterWide('scheduling.k8s.io', 'PriorityClass', 'priorityclasses', { shortNames: ['pc'] }),
  namespaced('coordination.k8s.io', 'Lease', 'leases'),
  clusterWide('node.k8s.io', 'RuntimeClass', 'runtimeclasses'),
];

/** The built-in resources. */
export function builtInResources(strategyOf: (group: string, kind: string) => Strategy): readonly ResourceInfo[] {
  return rows.map((row) => ({
    group: row.group,
    version: 'v1',
    kind: row.kind,
    listKind: `${row.kind}List`,
    resource: row.resource,
    singular: row.kind.toLowerCase(),
    namespaced: row.namespaced,
    shortNames: row.shortNames ?? [],
    categories: row.categories ?? [],
    verbs: row.verbs ?? ALL_VERBS,
    subresources: row.subresources ?? [],
    columns: columnsOf(row.kind),
    strategy: strategyOf(row.group, row.kind),
    custom: false,
  }));
}
