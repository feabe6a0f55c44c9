import { podSourcesOf } from '../../cluster/workloads.ts';
import type { Store } from '../../cluster/store.ts';
import type { AuditInput } from '../../policy/rollout/user-namespace-audit.ts';

/** Everything that the audit of user namespaces reads. */
export function gatherAudit(store: Store, include: AuditInput['include']): AuditInput {
  const namespaces = store.list('Namespace');
  return {
    sccs: store.list('SecurityContextConstraints'),
    namespaces,
    pods: store.list('Pod'),
    sources: namespaces.flatMap(({ metadata }) => podSourcesOf(store, metadata?.name ?? '')),
    nodes: store.list('Node'),
    rbac: {
      roles: store.list('Role'),
      clusterRoles: store.list('ClusterRole'),
      roleBindings: store.list('RoleBinding'),
      clusterRoleBindings: store.list('ClusterRoleBinding'),
    },
    include,
  };
}
