/** Creates stores of a small and a large cluster for SCC decisions. */
import { createStore, type Store, type WritableStore } from '../src/cluster/store.ts';
import type { Kind, Kinds } from '../src/kube/kinds.ts';
import type { SecurityContextConstraints } from '../src/kube/scc.ts';
import type { ClusterRole, Namespace, RoleBinding } from '../src/kube/types.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
  useRoleName,
} from '../src/policy/scc/index.ts';

/** Numbers of objects. `bindings` includes the standard bindings. */
export interface Size {
  readonly namespaces: number;
  readonly sccs: number;
  readonly bindings: number;
}

export const SMALL: Size = { namespaces: 10, sccs: 13, bindings: 50 };
export const LARGE: Size = { namespaces: 10_000, sccs: 200, bindings: 50_000 };

/** The first namespace of each cluster. */
export const NAMESPACE = 'shop';

const RBAC = 'rbac.authorization.k8s.io';

/**
 * Returns the objects of a cluster, which are standard SCCs, team SCCs, and grants of team SCCs to service accounts.
 */
export function objectsOf(size: Size): readonly (readonly [Kind, Kinds[Kind]])[] {
  const teams = Array.from({ length: size.sccs - STANDARD_SCCS.length }, (_, index) => index);
  const bindings = Array.from({ length: size.bindings - STANDARD_CLUSTER_ROLE_BINDINGS.length }, (_, index) => index);
  return [
    ...Array.from({ length: size.namespaces }, (_, index) => ['Namespace', namespace(index)] as const),
    ...[...STANDARD_SCCS.map(({ scc }) => scc), ...teams.map(buildTeamScc)].map(
      (scc) => ['SecurityContextConstraints', scc] as const,
    ),
    ...[...STANDARD_CLUSTER_ROLES, ...teams.map((team) => roleFor(teamSccName(team)))].map(
      (role) => ['ClusterRole', role] as const,
    ),
    ...STANDARD_CLUSTER_ROLE_BINDINGS.map((binding) => ['ClusterRoleBinding', binding] as const),
    ...bindings.map((index) => ['RoleBinding', binding(index, index % size.namespaces, teams.length)] as const),
  ];
}

/** Creates a synced store with the given objects. */
export function fill(objects: readonly (readonly [Kind, Kinds[Kind]])[]): WritableStore {
  const store = createStore();
  for (const [kind, object] of objects) store.put(kind, object);
  store.markSynced();
  return store;
}

/** Builds an additional binding of a team's SCC, or of `anyuid` in a cluster without teams. */
export function anotherBinding(store: Store, index: number): RoleBinding {
  return binding(index, 0, store.list('SecurityContextConstraints').length - STANDARD_SCCS.length);
}

export function namespaceName(index: number): string {
  return index === 0 ? NAMESPACE : `team-${index}`;
}

function namespace(index: number): Namespace {
  const start = 1_000_000_000 + index * 10_000;
  const annotations = {
    'openshift.io/sa.scc.uid-range': `${start}/10000`,
    'openshift.io/sa.scc.supplemental-groups': `${start}/10000`,
    'openshift.io/sa.scc.mcs': `s0:c${(index >> 9) + 1},c${index & 511}`,
  };
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespaceName(index), annotations } };
}

const teamSccName = (team: number): string => `team-${team}`;

/** Returns a copy of a standard SCC. Some copies have a priority. */
function buildTeamScc(team: number): SecurityContextConstraints {
  const { scc } = STANDARD_SCCS[team % STANDARD_SCCS.length] ?? {};
  const priority = team % 10 === 0 ? team : null;
  return { ...scc, metadata: { name: teamSccName(team) }, priority, users: [], groups: [] };
}

function roleFor(scc: string): ClusterRole {
  return {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRole',
    metadata: { name: useRoleName(scc) },
    rules: [
      {
        apiGroups: ['security.openshift.io'],
        resources: ['securitycontextconstraints'],
        resourceNames: [scc],
        verbs: ['use'],
      },
    ],
  };
}

/** Grants an SCC to a service account that no review uses. */
function binding(index: number, namespaceIndex: number, teams: number): RoleBinding {
  const namespace = namespaceName(namespaceIndex);
  return {
    apiVersion: `${RBAC}/v1`,
    kind: 'RoleBinding',
    metadata: { name: `worker-${index}`, namespace },
    roleRef: {
      apiGroup: RBAC,
      kind: 'ClusterRole',
      name: useRoleName(teams === 0 ? 'anyuid' : teamSccName(index % teams)),
    },
    subjects: [{ kind: 'ServiceAccount', name: `worker-${index}`, namespace }],
  };
}
