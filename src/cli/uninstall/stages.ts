/**
 * What an installation consists of, in the order in which it is removed: what makes API servers depend on it first, then
 * what runs, then what that needed.
 */
import { COMPONENT_LABEL, INSTALLATION, PART_OF, PART_OF_LABEL } from '../../kube/installation.ts';
import { RESOURCES } from '../../kube/resources.ts';
import type { AnyObject, Resource } from '../installation/resource.ts';

export interface Part extends Resource {
  readonly scope: 'Cluster' | 'Namespaced';
}

/** Without them no API server asks for reviews: until they are gone, nothing else may go. */
export const WEBHOOKS: readonly Part[] = [
  RESOURCES.ValidatingWebhookConfiguration,
  RESOURCES.MutatingWebhookConfiguration,
];

/** What runs. */
export const REPLICAS: readonly Part[] = [RESOURCES.Deployment];

/** What the replicas needed. They make their Secret and their Leases themselves, as long as they may. */
export const SURROUNDINGS: readonly Part[] = [
  namespaced('policy', 'v1', 'poddisruptionbudgets'),
  namespaced('', 'v1', 'services'),
  namespaced('networking.k8s.io', 'v1', 'networkpolicies'),
  namespaced('monitoring.coreos.com', 'v1', 'servicemonitors'),
  namespaced('monitoring.coreos.com', 'v1', 'prometheusrules'),
  namespaced('cert-manager.io', 'v1', 'certificates'),
  namespaced('cert-manager.io', 'v1', 'issuers'),
  namespaced('', 'v1', 'configmaps'),
  namespaced('', 'v1', 'resourcequotas'),
  RESOURCES.ClusterRoleBinding,
  RESOURCES.RoleBinding,
  RESOURCES.ClusterRole,
  RESOURCES.Role,
  RESOURCES.ServiceAccount,
  RESOURCES.Lease,
  RESOURCES.Secret,
];

export const PODS = RESOURCES.Pod;
export const NAMESPACES = RESOURCES.Namespace;

function namespaced(group: string, version: string, resource: string): Part {
  return { group, version, resource, scope: 'Namespaced' };
}

/** True for what belongs to this program: what is labelled so, and what the replicas write under their own names. */
export function isOurs({ resource }: Resource, { metadata: { name, labels = {} } }: AnyObject): boolean {
  if (labels[PART_OF_LABEL] === PART_OF) return true;
  if (resource === 'secrets') return name === INSTALLATION.certificateSecret;
  return resource === 'leases' && (name === INSTALLATION.name || labels[COMPONENT_LABEL] === 'replica');
}
