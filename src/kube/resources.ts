import type { Kind } from './types.ts';

/** Where the API server serves a kind; the core group is `''`. */
export interface ResourceInfo {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly scope: 'Cluster' | 'Namespaced';
}

const RBAC = { group: 'rbac.authorization.k8s.io', version: 'v1' } as const;
const CORE = { group: '', version: 'v1' } as const;
const APPS = { group: 'apps', version: 'v1' } as const;
const WEBHOOKS = { group: 'admissionregistration.k8s.io', version: 'v1' } as const;
const BATCH = { group: 'batch', version: 'v1' } as const;

/** The resource of each kind that this program reads or writes. */
export const RESOURCES: Readonly<Record<Kind, ResourceInfo>> = {
  Namespace: { ...CORE, resource: 'namespaces', scope: 'Cluster' },
  Node: { ...CORE, resource: 'nodes', scope: 'Cluster' },
  Pod: { ...CORE, resource: 'pods', scope: 'Namespaced' },
  ServiceAccount: { ...CORE, resource: 'serviceaccounts', scope: 'Namespaced' },
  PodTemplate: { ...CORE, resource: 'podtemplates', scope: 'Namespaced' },
  ReplicationController: { ...CORE, resource: 'replicationcontrollers', scope: 'Namespaced' },
  ReplicaSet: { ...APPS, resource: 'replicasets', scope: 'Namespaced' },
  Deployment: { ...APPS, resource: 'deployments', scope: 'Namespaced' },
  StatefulSet: { ...APPS, resource: 'statefulsets', scope: 'Namespaced' },
  DaemonSet: { ...APPS, resource: 'daemonsets', scope: 'Namespaced' },
  Job: { ...BATCH, resource: 'jobs', scope: 'Namespaced' },
  CronJob: { ...BATCH, resource: 'cronjobs', scope: 'Namespaced' },
  Role: { ...RBAC, resource: 'roles', scope: 'Namespaced' },
  ClusterRole: { ...RBAC, resource: 'clusterroles', scope: 'Cluster' },
  RoleBinding: { ...RBAC, resource: 'rolebindings', scope: 'Namespaced' },
  ClusterRoleBinding: { ...RBAC, resource: 'clusterrolebindings', scope: 'Cluster' },
  SecurityContextConstraints: {
    group: 'security.openshift.io',
    version: 'v1',
    resource: 'securitycontextconstraints',
    scope: 'Cluster',
  },
  RangeAllocation: {
    group: 'security.internal.openshift.io',
    version: 'v1',
    resource: 'rangeallocations',
    scope: 'Cluster',
  },
  Lease: { group: 'coordination.k8s.io', version: 'v1', resource: 'leases', scope: 'Namespaced' },
  ConfigMap: { ...CORE, resource: 'configmaps', scope: 'Namespaced' },
  Secret: { ...CORE, resource: 'secrets', scope: 'Namespaced' },
  MutatingWebhookConfiguration: { ...WEBHOOKS, resource: 'mutatingwebhookconfigurations', scope: 'Cluster' },
  ValidatingWebhookConfiguration: { ...WEBHOOKS, resource: 'validatingwebhookconfigurations', scope: 'Cluster' },
  PSAEnforcementConfig: {
    group: 'config.openshift.io',
    version: 'v1alpha1',
    resource: 'psaenforcementconfigs',
    scope: 'Cluster',
  },
  FeatureGate: { group: 'config.openshift.io', version: 'v1', resource: 'featuregates', scope: 'Cluster' },
  Report: { group: 'openreports.io', version: 'v1alpha1', resource: 'reports', scope: 'Namespaced' },
};

/** The kind of a resource that this program reads; `undefined` for any other. */
export function findKind({ group, resource }: Pick<ResourceInfo, 'group' | 'resource'>): Kind | undefined {
  return KINDS.get(`${resource}.${group}`);
}

/** `v1`, `apps/v1`: what objects of the kind say in `apiVersion`. */
export function getApiVersion(kind: Kind): string {
  const { group, version } = RESOURCES[kind];
  return group === '' ? version : `${group}/${version}`;
}

const KINDS: ReadonlyMap<string, Kind> = new Map(
  Object.entries(RESOURCES).map(([kind, { group, resource }]) => [`${resource}.${group}`, kind as Kind]),
);
