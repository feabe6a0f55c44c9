import type { ResourceInfo } from './types.ts';

/** By resource and group: where an update need not say which version it replaces, most do not. */
const CONDITIONAL: ReadonlySet<string> = new Set([
  'mutatingwebhookconfigurations.admissionregistration.k8s.io',
  'validatingwebhookconfigurations.admissionregistration.k8s.io',
  'customresourcedefinitions.apiextensions.k8s.io',
  'leases.coordination.k8s.io',
  'runtimeclasses.node.k8s.io',
  'poddisruptionbudgets.policy',
]);

/** A PUT creates what is not there. */
const CREATED_BY_UPDATE: ReadonlySet<string> = new Set([
  'endpoints.',
  'events.',
  'limitranges.',
  'services.',
  'leases.coordination.k8s.io',
  'events.events.k8s.io',
  'runtimeclasses.node.k8s.io',
  'roles.rbac.authorization.k8s.io',
  'rolebindings.rbac.authorization.k8s.io',
  'clusterroles.rbac.authorization.k8s.io',
  'clusterrolebindings.rbac.authorization.k8s.io',
]);

/** A deletion answers with the object instead of a Status. */
const RETURNED_ON_DELETE: ReadonlySet<string> = new Set([
  'pods.',
  'podtemplates.',
  'services.',
  'serviceaccounts.',
  'persistentvolumes.',
  'persistentvolumeclaims.',
  'resourcequotas.',
]);

/** True if an update may leave `metadata.resourceVersion` out. */
export function allowsUnconditionalUpdate(info: ResourceInfo): boolean {
  return !info.custom && !CONDITIONAL.has(keyOf(info));
}

/** True if an update of a missing object creates it. */
export function allowsCreateOnUpdate(info: ResourceInfo): boolean {
  return CREATED_BY_UPDATE.has(keyOf(info));
}

/** True if a deletion answers with the deleted object. */
export function returnsDeleted(info: ResourceInfo): boolean {
  return RETURNED_ON_DELETE.has(keyOf(info));
}

function keyOf({ group, resource }: ResourceInfo): string {
  return `${resource}.${group}`;
}
