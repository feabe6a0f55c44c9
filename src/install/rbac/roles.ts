import type { V1ClusterRole, V1ClusterRoleBinding, V1Role, V1RoleBinding } from '@kubernetes/client-node';
import { INSTALLATION } from '../../kube/installation.ts';
import { clusterMetadata, metadataIn } from '../metadata.ts';
import type { ManifestOf } from '../types.ts';
import type { Rule } from './rule.ts';

const apiGroup = 'rbac.authorization.k8s.io';
const apiVersion = `${apiGroup}/v1`;

/** Lets the replicas do something everywhere. */
export function clusterRole(
  name: string,
  rules: readonly Rule[],
  namespace: string,
): readonly [ManifestOf<V1ClusterRole>, ManifestOf<V1ClusterRoleBinding>] {
  const metadata = clusterMetadata(name);
  const roleRef = { apiGroup, kind: 'ClusterRole', name };
  return [
    { apiVersion, kind: 'ClusterRole', metadata, rules },
    { apiVersion, kind: 'ClusterRoleBinding', metadata, roleRef, subjects: subjectsIn(namespace) },
  ];
}

/** Lets the replicas do something in their own namespace. */
export function role(
  name: string,
  rules: readonly Rule[],
  namespace: string,
): readonly [ManifestOf<V1Role>, ManifestOf<V1RoleBinding>] {
  const metadata = metadataIn(namespace, name);
  const roleRef = { apiGroup, kind: 'Role', name };
  return [
    { apiVersion, kind: 'Role', metadata, rules },
    { apiVersion, kind: 'RoleBinding', metadata, roleRef, subjects: subjectsIn(namespace) },
  ];
}

function subjectsIn(namespace: string) {
  return [{ kind: 'ServiceAccount', name: INSTALLATION.name, namespace }];
}
