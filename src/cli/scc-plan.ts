/** Predicts the decisions of SCC admission about existing workloads, and the bindings that would admit refused workloads. */
import { canUseScc } from '../cluster/access.ts';
import type { Store } from '../cluster/store.ts';
import { listPodSources, type PodSource } from '../cluster/workloads.ts';
import { completePod, getControllerPod, isMirrorPod, nodeUser, type ControllerPod } from '../kube/controller-pod.ts';
import { withoutEphemeralContainers } from '../kube/pod.ts';
import { compareBytes } from '../kube/text.ts';
import type { ClusterRole, Kinds, Namespace, RoleBinding } from '../kube/types.ts';
import { createAuthorizer } from '../policy/rbac/index.ts';
import { planPod, type PlannedPod, type SuggestedScc } from '../policy/scc/advice/explain.ts';
import type { CanUse } from '../policy/scc/access.ts';
import { grantObjects, useRoleName } from '../policy/scc/standard.ts';
import { serviceAccountError } from './inventory/assumptions.ts';
import { expectedMode, type ExpectedMode, type ExpectedSettings } from './scc-options.ts';

/** A namespace with its workloads, sorted by kind and name. */
export interface PlannedNamespace extends ExpectedMode {
  readonly name: string;
  readonly workloads: readonly PlannedWorkload[];
}

/** `off`: SCC admission is off in the namespace. */
export type Outcome = PlannedPod | { readonly outcome: 'off' };

/** An object that creates pods, or a pod, with the decision about its pods. */
export interface PlannedWorkload {
  readonly kind: string;
  readonly name: string;
  /** The service account of the pods; absent for mirror pods and for objects without a pod template. */
  readonly serviceAccount?: string;
  /** The error of the API server for pods whose service account does not exist. */
  readonly refusal?: string;
  readonly result: Outcome;
}

export type WorkloadName = Pick<PlannedWorkload, 'kind' | 'name'>;

/** A grant of the use of an SCC to a service account in its namespace. */
export interface PlannedGrant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
  /** The refused workloads that the grant admits. */
  readonly workloads: readonly WorkloadName[];
  /** The admitted workloads that the grant moves to this SCC. */
  readonly moves: readonly (WorkloadName & { readonly from: string })[];
}

/** A workload that only an unrestricted SCC admits, and a custom SCC that should be written instead. */
export interface NeededScc {
  readonly namespace: string;
  readonly workload: WorkloadName;
  readonly instead: string;
  readonly scc: SuggestedScc;
}

export interface Plan {
  /** The namespaces with workloads, sorted by name. */
  readonly namespaces: readonly PlannedNamespace[];
  readonly grants: readonly PlannedGrant[];
  /** The grants as objects to apply. */
  readonly bindings: readonly (ClusterRole | RoleBinding)[];
  readonly assumptions: readonly string[];
}

export interface PlanInput {
  readonly store: Store;
  readonly settings: ExpectedSettings;
  /** By default, the grants in the store. */
  readonly canUse?: CanUse;
}

/** Returns the decisions about all workloads of a namespace; `undefined` for a namespace without workloads. */
export function planNamespace(namespace: Namespace, input: PlanInput): PlannedNamespace | undefined {
  const name = namespace.metadata?.name ?? '';
  const sources = listPodSources(input.store, name);
  if (sources.length === 0) return undefined;
  const mode = expectedMode(namespace, input.settings);
  const workloads = sources.map((source): PlannedWorkload => {
    if (mode.mode !== 'off') return planWorkload(source, namespace, input);
    return { kind: source.kind, name: source.object.metadata?.name ?? '', result: { outcome: 'off' } };
  });
  return { name, ...mode, workloads };
}

function planWorkload(
  source: PodSource,
  namespace: Namespace,
  { store, settings, canUse = canUseScc(store) }: PlanInput,
): PlannedWorkload {
  const { kind, object } = source;
  const { name = '', namespace: namespaceName = '' } = object.metadata ?? {};
  const created = createPod(source, store);
  if (created === undefined) return { kind, name, result: { outcome: 'ignored' } };
  const { compatibility, preferUserNamespaces } = settings;
  const result = planPod({
    object: created.pod,
    namespace,
    userInfo: created.requester,
    sccs: store.list('SecurityContextConstraints'),
    canUse,
    compatibility,
    preferUserNamespaces,
  });
  const account: unknown = created.pod.spec?.serviceAccountName;
  const refusal = serviceAccountError(created.pod, namespaceName, (name) =>
    store.get('ServiceAccount', name, namespaceName),
  );
  return {
    kind,
    name,
    ...(typeof account === 'string' && account !== '' ? { serviceAccount: account } : {}),
    ...(refusal === undefined ? {} : { refusal }),
    result,
  };
}

/** Returns the pod that a controller would create. The creator of a pod without a controller is unknown: it has no grants. */
function createPod({ kind, object }: PodSource, store: Store): ControllerPod | undefined {
  const findAccount = (account: string) => store.get('ServiceAccount', account, object.metadata?.namespace);
  if (kind !== 'Pod') return getControllerPod(object, kind, findAccount);
  const pod = withoutEphemeralContainers(object as Kinds['Pod']);
  const requester = isMirrorPod(pod) ? nodeUser(pod.spec?.nodeName ?? '') : {};
  return { pod: completePod(pod, findAccount), requester };
}

/** Returns the grants that admit refused workloads, sorted by namespace, service account and SCC. */
export function planGrants(namespaces: readonly PlannedNamespace[], input: PlanInput): readonly PlannedGrant[] {
  return namespaces.flatMap((namespace) => {
    const grants = neededGrants(namespace);
    return grants.length === 0 ? [] : withMoves(grants, namespace, input);
  });
}

interface NeededGrant extends Omit<PlannedGrant, 'moves'> {
  readonly workloads: WorkloadName[];
}

function neededGrants({ name: namespace, workloads }: PlannedNamespace): readonly NeededGrant[] {
  const needed = new Map<string, NeededGrant>();
  for (const workload of workloads) {
    const { kind, name, serviceAccount, result } = workload;
    if (!isGrantable(workload) || result.outcome !== 'refused') continue;
    const { grantable: scc } = result;
    if (serviceAccount === undefined || scc === undefined) continue;
    const key = `${serviceAccount}/${scc}`;
    const grant = needed.get(key) ?? { namespace, serviceAccount, scc, workloads: [] };
    grant.workloads.push({ kind, name });
    needed.set(key, grant);
  }
  return [...needed.values()].sort(
    (a, b) => compareBytes(a.serviceAccount, b.serviceAccount) || compareBytes(a.scc, b.scc),
  );
}

/** Adds the admitted workloads with the same service account that the grants move to another SCC. */
function withMoves(
  grants: readonly NeededGrant[],
  { name, workloads }: PlannedNamespace,
  input: PlanInput,
): readonly PlannedGrant[] {
  const namespace = input.store.get('Namespace', name);
  const accounts = new Set(grants.map(({ serviceAccount }) => serviceAccount));
  const canUse = withGrants(input.store, grants);
  const sources = listPodSources(input.store, name);
  const moves = workloads.flatMap(({ kind, name: workload, serviceAccount = '', result }, index) => {
    if (namespace === undefined || result.outcome !== 'admitted' || !accounts.has(serviceAccount)) return [];
    const source = sources[index];
    const after = source && planWorkload(source, namespace, { ...input, canUse }).result;
    if (after?.outcome !== 'admitted' || after.scc === result.scc) return [];
    return [{ serviceAccount, to: after.scc, move: { kind, name: workload, from: result.scc } }];
  });
  return grants.map((grant) => ({
    ...grant,
    moves: moves
      .filter(({ serviceAccount, to }) => serviceAccount === grant.serviceAccount && to === grant.scc)
      .map(({ move }) => move),
  }));
}

function withGrants(store: Store, grants: readonly NeededGrant[]): CanUse {
  const canUse = canUseScc(store);
  const key = (...names: readonly string[]): string => JSON.stringify(names);
  const granted = new Set(
    grants.map(({ namespace, serviceAccount, scc }) =>
      key(`system:serviceaccount:${namespace}:${serviceAccount}`, scc, namespace),
    ),
  );
  return (subject, scc, namespace) =>
    granted.has(key(subject.username, scc, namespace)) || canUse(subject, scc, namespace);
}

/** Returns the grants as objects to apply. */
export function grantBindings(grants: readonly PlannedGrant[], store: Store): Plan['bindings'] {
  return grantObjects(grants, { hasRole: (scc) => hasUseRole(store, scc) });
}

/** True if the ClusterRole for the use of an SCC exists and grants it. */
function hasUseRole(store: Store, scc: string): boolean {
  const role = store.get('ClusterRole', useRoleName(scc));
  if (role === undefined) return false;
  const user = { username: 'test' };
  const binding = {
    roleRef: { kind: 'ClusterRole', name: useRoleName(scc) },
    subjects: [{ kind: 'User', name: user.username }],
  };
  const objects = { roles: [], clusterRoles: [role], roleBindings: [], clusterRoleBindings: [binding] };
  const resource = { apiGroup: 'security.openshift.io', resource: 'securitycontextconstraints' };
  return createAuthorizer(objects)(user, { verb: 'use', ...resource, name: scc });
}

/** The number of workloads by result. */
export interface PlanSummary {
  readonly workloads: number;
  readonly admitted: number;
  readonly refused: number;
  /** The refused workloads that a binding would admit. */
  readonly grantable: number;
  /** Windows pods, and objects without a pod template. */
  readonly ignored: number;
  /** Workloads in namespaces without SCC admission. */
  readonly off: number;
}

export function summarizePlan({ namespaces }: Plan): PlanSummary {
  const workloads = namespaces.flatMap((namespace) => namespace.workloads);
  const count = (outcome: Outcome['outcome']): number =>
    workloads.filter(({ result }) => result.outcome === outcome).length;
  return {
    workloads: workloads.length,
    admitted: count('admitted'),
    refused: count('refused'),
    grantable: workloads.filter(isGrantable).length,
    ignored: count('ignored'),
    off: count('off'),
  };
}

/** True for a refused workload that a grant would admit without allowing everything. */
export function isGrantable({ result, serviceAccount }: PlannedWorkload): boolean {
  return (
    result.outcome === 'refused' &&
    result.grantable !== undefined &&
    result.suggestedScc === undefined &&
    serviceAccount !== undefined
  );
}

/** Returns the custom SCCs that refused workloads need. */
export function neededSccs({ namespaces }: Pick<Plan, 'namespaces'>): readonly NeededScc[] {
  return namespaces.flatMap(({ name: namespace, workloads }) =>
    workloads.flatMap(({ kind, name, result }): NeededScc[] => {
      if (result.outcome !== 'refused' || result.suggestedScc === undefined) return [];
      return [{ namespace, workload: { kind, name }, instead: result.grantable ?? '', scc: result.suggestedScc }];
    }),
  );
}
