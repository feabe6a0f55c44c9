import type { ApiObject, ResourceKey } from '../types.ts';
import type { Tools } from './chore.ts';
import { clusterRoleBindings, clusterRoles } from './roles.ts';
import { createMissing } from './write.ts';

const NAMESPACES: ResourceKey = { group: '', resource: 'namespaces' };
const SERVICES: ResourceKey = { group: '', resource: 'services' };
const PRIORITY_CLASSES: ResourceKey = { group: 'scheduling.k8s.io', resource: 'priorityclasses' };
const CLUSTER_ROLES: ResourceKey = { group: 'rbac.authorization.k8s.io', resource: 'clusterroles' };
const CLUSTER_ROLE_BINDINGS: ResourceKey = { group: 'rbac.authorization.k8s.io', resource: 'clusterrolebindings' };

const BUILT_IN_NAMESPACES = ['default', 'kube-node-lease', 'kube-public', 'kube-system'];

/** Creates what every cluster has. */
export async function bootstrap(tools: Tools): Promise<void> {
  for (const object of priorityClasses) await createMissing(tools, PRIORITY_CLASSES, object);
  for (const object of clusterRoles) await createMissing(tools, CLUSTER_ROLES, object);
  for (const object of clusterRoleBindings) await createMissing(tools, CLUSTER_ROLE_BINDINGS, object);
  for (const name of BUILT_IN_NAMESPACES) await createMissing(tools, NAMESPACES, namespace(name));
  await createMissing(tools, SERVICES, apiService);
}

function namespace(name: string): ApiObject {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
}

const priorityClasses: readonly ApiObject[] = [
  priorityClass(
    'system-cluster-critical',
    2_000_000_000,
    'must run in the cluster, but can be moved to another node if necessary',
  ),
  priorityClass('system-node-critical', 2_000_001_000, 'must not be moved from their current node'),
];

function priorityClass(name: string, value: number, use: string): ApiObject {
  const description = `Used for system critical pods that ${use}.`;
  return { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', metadata: { name }, value, description };
}

/** Where pods would find the API; nothing answers at that address. */
const apiService: ApiObject = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name: 'kubernetes',
    namespace: 'default',
    labels: { component: 'apiserver', provider: 'kubernetes' },
  },
  spec: {
    clusterIP: '10.96.0.1',
    clusterIPs: ['10.96.0.1'],
    ipFamilies: ['IPv4'],
    ipFamilyPolicy: 'SingleStack',
    ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 6443 }],
  },
};
