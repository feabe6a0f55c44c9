import type { ApiObject } from './types.ts';

const GROUP = 'rbac.authorization.k8s.io';
const READ = ['get', 'list', 'watch'];
const WRITE = ['create', 'delete', 'deletecollection', 'patch', 'update'];

type Rule = Readonly<Record<string, readonly string[]>>;

function rule(verbs: readonly string[], apiGroup: string, ...resources: readonly string[]): Rule {
  return { verbs, apiGroups: [apiGroup], resources };
}

function urls(...nonResourceURLs: readonly string[]): Rule {
  return { verbs: ['get'], nonResourceURLs };
}

const POD_CONNECTIONS = ['pods/attach', 'pods/exec', 'pods/portforward'];
const CORE = ['configmaps', 'persistentvolumeclaims', 'replicationcontrollers', 'serviceaccounts', 'services'];
const APPS = ['daemonsets', 'deployments', 'replicasets', 'statefulsets'];

const VIEW: readonly Rule[] = [
  rule(READ, '', 'pods', 'pods/log', 'pods/status', 'events', 'limitranges', 'namespaces', 'resourcequotas', ...CORE),
  rule(READ, 'events.k8s.io', 'events'),
  rule(READ, 'apps', ...APPS, ...APPS.map((resource) => `${resource}/status`)),
  rule(READ, 'batch', 'cronjobs', 'cronjobs/status', 'jobs', 'jobs/status'),
  rule(READ, 'policy', 'poddisruptionbudgets', 'poddisruptionbudgets/status'),
  rule(READ, 'networking.k8s.io', 'networkpolicies'),
];

const EDIT: readonly Rule[] = [
  rule(READ, '', 'secrets', ...POD_CONNECTIONS),
  rule(['impersonate'], '', 'serviceaccounts'),
  rule(WRITE, '', 'pods', 'secrets', 'events', ...POD_CONNECTIONS, ...CORE),
  rule(WRITE, 'events.k8s.io', 'events'),
  rule(WRITE, 'apps', ...APPS),
  rule(WRITE, 'batch', 'cronjobs', 'jobs'),
  rule(WRITE, 'policy', 'poddisruptionbudgets'),
  rule(WRITE, 'networking.k8s.io', 'networkpolicies'),
  rule([...WRITE, ...READ], 'coordination.k8s.io', 'leases'),
];

const ADMIN: readonly Rule[] = [rule([...WRITE, ...READ], GROUP, 'roles', 'rolebindings')];

const HEALTH = ['/livez', '/readyz', '/healthz', '/version', '/version/'];

/**
 * The default cluster roles of Kubernetes, with the rules for the resources that the development cluster serves.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
 */
export const CLUSTER_ROLES: readonly ApiObject[] = [
  clusterRole('cluster-admin', [rule(['*'], '*', '*'), { verbs: ['*'], nonResourceURLs: ['*'] }]),
  clusterRole('system:discovery', [urls(...HEALTH, '/openapi', '/openapi/*', '/api', '/api/*', '/apis', '/apis/*')]),
  clusterRole('system:basic-user', [
    rule(['create'], 'authorization.k8s.io', 'selfsubjectaccessreviews', 'selfsubjectrulesreviews'),
    rule(['create'], 'authentication.k8s.io', 'selfsubjectreviews'),
  ]),
  clusterRole('system:public-info-viewer', [urls(...HEALTH)]),
  aggregatedRole('admin'),
  aggregatedRole('edit', 'admin'),
  aggregatedRole('view', 'edit'),
  clusterRole('system:aggregate-to-admin', ADMIN, 'admin'),
  clusterRole('system:aggregate-to-edit', EDIT, 'edit'),
  clusterRole('system:aggregate-to-view', VIEW, 'view'),
];

export const CLUSTER_ROLE_BINDINGS: readonly ApiObject[] = [
  clusterRoleBinding('cluster-admin', 'system:masters'),
  clusterRoleBinding('system:discovery', 'system:authenticated'),
  clusterRoleBinding('system:basic-user', 'system:authenticated'),
  clusterRoleBinding('system:public-info-viewer', 'system:authenticated', 'system:unauthenticated'),
];

function aggregationLabel(role: string): Readonly<Record<string, string>> {
  return { [`${GROUP}/aggregate-to-${role}`]: 'true' };
}

function clusterRole(name: string, rules: readonly Rule[], aggregatedTo?: string): ApiObject {
  const labels = aggregatedTo === undefined ? {} : aggregationLabel(aggregatedTo);
  return rbacObject('ClusterRole', name, labels, { rules });
}

/** A role with the rules of all roles that carry its aggregation label. */
function aggregatedRole(name: string, aggregatedTo?: string): ApiObject {
  const clusterRoleSelectors = [{ matchLabels: aggregationLabel(name) }];
  return { ...clusterRole(name, [], aggregatedTo), aggregationRule: { clusterRoleSelectors } };
}

function clusterRoleBinding(name: string, ...groups: readonly string[]): ApiObject {
  const roleRef = { apiGroup: GROUP, kind: 'ClusterRole', name };
  const subjects = groups.map((group) => ({ apiGroup: GROUP, kind: 'Group', name: group }));
  return rbacObject('ClusterRoleBinding', name, {}, { roleRef, subjects });
}

function rbacObject(kind: string, name: string, labels: object, fields: object): ApiObject {
  const bootstrapping = { 'kubernetes.io/bootstrapping': 'rbac-defaults' };
  return { apiVersion: `${GROUP}/v1`, kind, metadata: { name, labels: { ...bootstrapping, ...labels } }, ...fields };
}
