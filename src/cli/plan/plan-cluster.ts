import type { Store } from '../../cluster/store.ts';
import { podSourcesOf } from '../../cluster/workloads.ts';
import { compareBytes } from '../../kube/order.ts';
import type { Namespace } from '../../kube/types.ts';
import { createAuthorizer } from '../../policy/rbac/index.ts';
import { grantObjects, type Grant } from '../../policy/scc/grants.ts';
import { sccModeOf } from '../../policy/scc/mode.ts';
import { useRoleNameOf } from '../../policy/scc/standard.ts';
import { passWorkload, planWorkload, type PlanInput } from './plan-workload.ts';
import type { Plan, PlannedNamespace, PlannedWorkload } from './types.ts';

/** Says what becomes of all that runs in a namespace; `undefined` where nothing does. */
export function planNamespace(namespace: Namespace, input: PlanInput): PlannedNamespace | undefined {
  const name = namespace.metadata?.name ?? '';
  const sources = podSourcesOf(input.store, name);
  if (sources.length === 0) return undefined;
  const mode = sccModeOf(namespace, input.settings);
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

/** What to grant for the pods that are refused. */
export function bindingsFor(namespaces: readonly PlannedNamespace[], store: Store): Plan['bindings'] {
  const grants = namespaces.flatMap(({ name, workloads }) => workloads.flatMap((workload) => grantFor(name, workload)));
  return grantObjects(grants, { hasRole: (scc) => hasRole(store, scc) });
}

/** What would help a workload, if anything does. */
export function grantFor(namespace: string, { serviceAccount, result }: PlannedWorkload): readonly Grant[] {
  if (result.outcome !== 'refused' || result.grantable === undefined || serviceAccount === undefined) return [];
  return [{ namespace, serviceAccount, scc: result.grantable }];
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
