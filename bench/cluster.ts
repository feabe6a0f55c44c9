/** Clusters in a store, for decisions about security context constraints: an ordinary one, and a very large one. */
import { createStore, type Store, type WritableStore } from '../src/cluster/store.ts';
import type { SecurityContextConstraints } from '../src/kube/scc.ts';
import type { ClusterRole, Kind, Kinds, Namespace, RoleBinding } from '../src/kube/types.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
  useRoleName,
} from '../src/policy/scc/standard.ts';

/** What a cluster consists of; `bindings` counts those of the platform, too. */
export interface Size {
  readonly namespaces: number;
  readonly sccs: number;
  readonly bindings: number;
}

/** What a test cluster has. */
export const SMALL: Size = { namespaces: 10, sccs: 13, bindings: 50 };
export const LARGE: Size = { namespaces: 10_000, sccs: 200, bindings: 50_000 };

/** The namespace that every cluster has. */
export const NAMESPACE = 'shop';

const RBAC = 'rbac.authorization.k8s.io';

/** All objects of a cluster of that size: SCCs of teams beside the standard ones, each granted to some of the service accounts. */
export function objectsOf(size: Size): readonly (readonly [Kind, Kinds[Kind]])[] {
  const ours = Array.from({ length: size.sccs - STANDARD_SCCS.length }, (_, index) => index);
  const own = Array.from({ length: size.bindings - STANDARD_CLUSTER_ROLE_BINDINGS.length }, (_, index) => index);
  return [
    ...Array.from({ length: size.namespaces }, (_, index) => ['Namespace', namespace(index)] as const),
    ...[...STANDARD_SCCS.map(({ scc }) => scc), ...ours.map(sccOfTeam)].map(
      (scc) => ['SecurityContextConstraints', scc] as const,
    ),
    ...[...STANDARD_CLUSTER_ROLES, ...ours.map((team) => roleFor(sccNameOf(team)))].map(
      (role) => ['ClusterRole', role] as const,
    ),
    ...STANDARD_CLUSTER_ROLE_BINDINGS.map((binding) => ['ClusterRoleBinding', binding] as const),
    ...own.map((index) => ['RoleBinding', binding(index, index % size.namespaces, ours.length)] as const),
  ];
}

/** Fills a store. */
export function fill(objects: readonly (readonly [Kind, Kinds[Kind]])[]): WritableStore {
  const store = createStore();
  for (const [kind, object] of objects) store.put(kind, object);
  store.markSynced();
  return store;
}

/** A binding like those that are there; it lets somebody use the first of the teams' SCCs, or else `anyuid`. */
export function anotherBinding(store: Store, index: number): RoleBinding {
  return binding(index, 0, store.list('SecurityContextConstraints').length - STANDARD_SCCS.length);
}

/** The name of a namespace: the first is the one that every cluster has. */
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

const sccNameOf = (team: number): string => `team-${team}`;

/** A standard SCC that a team has changed for itself, some of them with a priority. */
function sccOfTeam(team: number): SecurityContextConstraints {
  const { scc } = STANDARD_SCCS[team % STANDARD_SCCS.length] ?? {};
  const priority = team % 10 === 0 ? team : null;
  return { ...scc, metadata: { name: sccNameOf(team) }, priority, users: [], groups: [] };
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

/** Lets a service account of the namespace use an SCC; that of the reviews is none of them. */
function binding(index: number, place: number, teams: number): RoleBinding {
  const namespace = namespaceName(place);
  return {
    apiVersion: `${RBAC}/v1`,
    kind: 'RoleBinding',
    metadata: { name: `worker-${index}`, namespace },
    roleRef: {
      apiGroup: RBAC,
      kind: 'ClusterRole',
      name: useRoleName(teams === 0 ? 'anyuid' : sccNameOf(index % teams)),
    },
    subjects: [{ kind: 'ServiceAccount', name: `worker-${index}`, namespace }],
  };
}
