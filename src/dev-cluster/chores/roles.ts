import type { ApiObject } from '../types.ts';

/**
 * The roles that every cluster has, with the rules of the real ones for what is served here.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
 */

const API_VERSION = 'rbac.authorization.k8s.io/v1';
const GROUP = 'rbac.authorization.k8s.io';
const AGGREGATE = 'rbac.authorization.k8s.io/aggregate-to-';

const READ = ['get', 'list', 'watch'];
const WRITE = ['create', 'delete', 'deletecollection', 'patch', 'update'];
const READ_WRITE = [...WRITE, ...READ].sort();

type Rule = Readonly<Record<string, readonly string[]>>;

function rule(verbs: readonly string[], apiGroups: readonly string[], ...resources: readonly string[]): Rule {
  return { verbs, apiGroups, resources };
}

function urls(...nonResourceURLs: readonly string[]): Rule {
  return { verbs: ['get'], nonResourceURLs };
}

const HEALTH = ['/livez', '/readyz', '/healthz'];
const VERSION = ['/version', '/version/'];

const view: readonly Rule[] = [
  rule(
    READ,
    [''],
    'pods',
    'replicationcontrollers',
    'replicationcontrollers/scale',
    'serviceaccounts',
    'services',
    'services/status',
    'endpoints',
    'persistentvolumeclaims',
    'persistentvolumeclaims/status',
    'configmaps',
  ),
  rule(
    READ,
    [''],
    'limitranges',
    'resourcequotas',
    'bindings',
    'pods/status',
    'resourcequotas/status',
    'namespaces/status',
    'replicationcontrollers/status',
    'pods/log',
  ),
  rule(READ, [''], 'namespaces'),
  rule(READ, ['', 'events.k8s.io'], 'events'),
  rule(READ, ['discovery.k8s.io'], 'endpointslices'),
  rule(
    READ,
    ['apps'],
    'controllerrevisions',
    'statefulsets',
    'statefulsets/status',
    'statefulsets/scale',
    'daemonsets',
    'daemonsets/status',
    'deployments',
    'deployments/status',
    'deployments/scale',
    'replicasets',
    'replicasets/status',
    'replicasets/scale',
  ),
  rule(READ, ['autoscaling'], 'horizontalpodautoscalers', 'horizontalpodautoscalers/status'),
  rule(READ, ['batch'], 'jobs', 'cronjobs', 'cronjobs/status', 'jobs/status'),
  rule(READ, ['policy'], 'poddisruptionbudgets', 'poddisruptionbudgets/status'),
  rule(READ, ['networking.k8s.io'], 'networkpolicies', 'ingresses', 'ingresses/status'),
];

const edit: readonly Rule[] = [
  rule(READ, [''], 'pods/attach', 'pods/proxy', 'pods/exec', 'pods/portforward', 'secrets', 'services/proxy'),
  rule(['impersonate'], [''], 'serviceaccounts'),
  rule(WRITE, [''], 'pods', 'pods/attach', 'pods/proxy', 'pods/exec', 'pods/portforward'),
  rule(['create'], [''], 'pods/eviction'),
  rule(
    WRITE,
    [''],
    'replicationcontrollers',
    'replicationcontrollers/scale',
    'serviceaccounts',
    'services',
    'services/proxy',
    'persistentvolumeclaims',
    'configmaps',
    'secrets',
  ),
  rule(['create'], [''], 'serviceaccounts/token'),
  rule(WRITE, ['', 'events.k8s.io'], 'events'),
  rule(
    WRITE,
    ['apps'],
    'statefulsets',
    'statefulsets/scale',
    'daemonsets',
    'deployments',
    'deployments/scale',
    'deployments/rollback',
    'replicasets',
    'replicasets/scale',
  ),
  rule(WRITE, ['autoscaling'], 'horizontalpodautoscalers'),
  rule(WRITE, ['batch'], 'jobs', 'cronjobs'),
  rule(WRITE, ['policy'], 'poddisruptionbudgets'),
  rule(WRITE, ['networking.k8s.io'], 'networkpolicies', 'ingresses'),
  rule(READ_WRITE, ['coordination.k8s.io'], 'leases'),
];

const admin: readonly Rule[] = [
  rule(['create'], ['authorization.k8s.io'], 'localsubjectaccessreviews'),
  rule(READ_WRITE, [GROUP], 'roles', 'rolebindings'),
];

const BOOTSTRAPPING = { 'kubernetes.io/bootstrapping': 'rbac-defaults' };
const AUTO_UPDATE = { 'rbac.authorization.kubernetes.io/autoupdate': 'true' };

function clusterRole(name: string, rules: readonly Rule[], gatheredBy?: string): ApiObject {
  const labels = { ...BOOTSTRAPPING, ...(gatheredBy === undefined ? {} : { [AGGREGATE + gatheredBy]: 'true' }) };
  return {
    apiVersion: API_VERSION,
    kind: 'ClusterRole',
    metadata: { name, labels, annotations: AUTO_UPDATE },
    rules,
  };
}

/** A role that gathers the rules of those that bear its name in a label. */
function gathering(name: string, gatheredBy?: string): ApiObject {
  const clusterRoleSelectors = [{ matchLabels: { [AGGREGATE + name]: 'true' } }];
  return { ...clusterRole(name, [], gatheredBy), aggregationRule: { clusterRoleSelectors } };
}

export const clusterRoles: readonly ApiObject[] = [
  clusterRole('cluster-admin', [rule(['*'], ['*'], '*'), { verbs: ['*'], nonResourceURLs: ['*'] }]),
  clusterRole('system:discovery', [
    urls(...HEALTH, ...VERSION, '/openapi', '/openapi/*', '/api', '/api/*', '/apis', '/apis/*'),
  ]),
  clusterRole('system:monitoring', [
    urls('/metrics', '/metrics/slis', ...HEALTH, ...HEALTH.map((path) => `${path}/*`)),
    rule(['get'], [''], 'nodes/metrics'),
  ]),
  clusterRole('system:basic-user', [
    rule(['create'], ['authorization.k8s.io'], 'selfsubjectaccessreviews', 'selfsubjectrulesreviews'),
    rule(['create'], ['authentication.k8s.io'], 'selfsubjectreviews'),
  ]),
  clusterRole('system:public-info-viewer', [urls(...HEALTH, ...VERSION)]),
  gathering('admin'),
  gathering('edit', 'admin'),
  gathering('view', 'edit'),
  clusterRole('system:aggregate-to-admin', admin, 'admin'),
  clusterRole('system:aggregate-to-edit', edit, 'edit'),
  clusterRole('system:aggregate-to-view', view, 'view'),
];

function clusterRoleBinding(name: string, ...groups: readonly string[]): ApiObject {
  return {
    apiVersion: API_VERSION,
    kind: 'ClusterRoleBinding',
    metadata: { name, labels: BOOTSTRAPPING, annotations: AUTO_UPDATE },
    roleRef: { apiGroup: GROUP, kind: 'ClusterRole', name },
    subjects: groups.map((group) => ({ apiGroup: GROUP, kind: 'Group', name: group })),
  };
}

export const clusterRoleBindings: readonly ApiObject[] = [
  clusterRoleBinding('cluster-admin', 'system:masters'),
  clusterRoleBinding('system:discovery', 'system:authenticated'),
  clusterRoleBinding('system:monitoring', 'system:monitoring'),
  clusterRoleBinding('system:basic-user', 'system:authenticated'),
  clusterRoleBinding('system:public-info-viewer', 'system:authenticated', 'system:unauthenticated'),
];
