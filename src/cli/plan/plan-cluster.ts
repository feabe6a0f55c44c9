import type { Store } from '../../cluster/store.ts';
import { podSourcesOf } from '../../cluster/workloads.ts';
import { compareBytes } from '../../kube/order.ts';
import type { Namespace } from '../../kube/types.ts';
import { createAuthorizer } from '../../policy/rbac/index.ts';
import { grantObjects } from '../../policy/scc/grants.ts';
import { useRoleNameOf } from '../../policy/scc/standard.ts';
import { foretoldModeOf } from '../scc-options.ts';
import { passWorkload, planWorkload, type PlanInput } from './plan-workload.ts';
import type { Plan, PlannedGrant, PlannedNamespace } from './types.ts';

/** Says what becomes of all that runs in a namespace; `undefined` where nothing does. */
export function planNamespace(namespace: Namespace, input: PlanInput): PlannedNamespace | undefined {
  const name = namespace.metadata?.name ?? '';
  const sources = podSourcesOf(input.store, name);
  if (sources.length === 0) return undefined;
  const mode = foretoldModeOf(namespace, input.settings);
  const workloads = sources.map((source) =>
    mode.mode === 'off' ? passWorkload(source) : planWorkload(source, namespace, input),
  );
  return { name, ...mode, workloads };
}

/** The namespaces to plan, sorted by name. */
export function namespacesOf(store: Store, only: string | undefined): readonly Namespace[] {
  const nameOf = ({ metadata }: Namespace): string => metadata?.name ?? '';
  return store
    .list('Namespace')
    .filter((namespace) => only === undefined || nameOf(namespace) === only)
    .toSorted((a, b) => compareBytes(nameOf(a), nameOf(b)));
}

/** What grants are as objects to apply. */
export function bindingsOf(grants: readonly PlannedGrant[], store: Store): Plan['bindings'] {
  return grantObjects(grants, { hasRole: (scc) => hasRole(store, scc) });
}

/** True if the role for the use of an SCC is there and does what its name says. */
function hasRole(store: Store, scc: string): boolean {
  const role = store.get('ClusterRole', useRoleNameOf(scc));
  if (role === undefined) return false;
  const user = { username: 'anybody' };
  const binding = {
    roleRef: { kind: 'ClusterRole', name: useRoleNameOf(scc) },
    subjects: [{ kind: 'User', name: user.username }],
  };
  const authorize = createAuthorizer({
    roles: [],
    clusterRoles: [role],
    roleBindings: [],
    clusterRoleBindings: [binding],
  });
  return authorize(user, {
    verb: 'use',
    apiGroup: 'security.openshift.io',
    resource: 'securitycontextconstraints',
    name: scc,
  });
}
