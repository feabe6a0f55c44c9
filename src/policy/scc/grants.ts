import { compareBytes } from '../../kube/text.ts';
import { apiVersionOf, RESOURCES } from '../../kube/resources.ts';
import type { ClusterRole, RoleBinding } from '../../kube/types.ts';
import { useRoleNameOf } from './standard.ts';

/** The use of an SCC by a service account, in the namespace of the account. */
export interface Grant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
}

const { group: RBAC_GROUP } = RESOURCES.RoleBinding;

/**
 * The objects to apply for grants, each once, sorted by namespace, service account and SCC; first the roles that are
 * missing.
 */
export function grantObjects(
  grants: readonly Grant[],
  { hasRole }: { readonly hasRole: (scc: string) => boolean },
): readonly (ClusterRole | RoleBinding)[] {
  const unique = [...new Map(grants.map((grant) => [keyOf(grant), grant])).values()].sort(compareGrants);
  const sccs = new Set(unique.map(({ scc }) => scc));
  return [
    ...[...sccs]
      .filter((scc) => !hasRole(scc))
      .sort(compareBytes)
      .map(useRole),
    ...unique.map(useBinding),
  ];
}

/** The names of service accounts and SCCs hold no colon. */
function useBinding({ namespace, serviceAccount, scc }: Grant): RoleBinding {
  return {
    apiVersion: apiVersionOf('RoleBinding'),
    kind: 'RoleBinding',
    metadata: { name: `portcullis:scc:${scc}:${serviceAccount}`, namespace },
    roleRef: { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name: useRoleNameOf(scc) },
    subjects: [{ kind: 'ServiceAccount', name: serviceAccount, namespace }],
  };
}

function useRole(scc: string): ClusterRole {
  const { group, resource } = RESOURCES.SecurityContextConstraints;
  return {
    apiVersion: apiVersionOf('ClusterRole'),
    kind: 'ClusterRole',
    metadata: { name: useRoleNameOf(scc) },
    rules: [{ apiGroups: [group], resources: [resource], resourceNames: [scc], verbs: ['use'] }],
  };
}

function keyOf({ namespace, serviceAccount, scc }: Grant): string {
  return `${namespace}/${serviceAccount}/${scc}`;
}

function compareGrants(a: Grant, b: Grant): number {
  return (
    compareBytes(a.namespace, b.namespace) ||
    compareBytes(a.serviceAccount, b.serviceAccount) ||
    compareBytes(a.scc, b.scc)
  );
}
