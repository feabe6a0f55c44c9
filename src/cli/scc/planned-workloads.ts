/** Predicts the decisions of SCC admission about existing workloads, and the bindings that would admit denied workloads. */
import { canUseScc, USE_SCC } from '../../cluster/access.ts';
import type { Store } from '../../cluster/store.ts';
import { listPodCreators } from '../../cluster/workloads.ts';
import { createPod, type CustomPodSource, type PodCreator } from '../../kube/controller-pod.ts';
import { objectName } from '../../kube/resources.ts';
import { compareBytes } from '../../kube/text.ts';
import type { ClusterRole, Namespace, ObjectMeta, RoleBinding } from '../../kube/types.ts';
import { readRules, ruleAllows } from '../../policy/rbac/rules.ts';
import { printFieldPath } from '../../policy/pod/templates.ts';
import { planPod, type PlannedPod } from '../../policy/scc/advice/explain.ts';
import type { CanUse } from '../../policy/scc/access.ts';
import { grantObjects, useRoleName } from '../../policy/scc/standard.ts';
import { sccInput } from './input.ts';
import { expectedMode, type ExpectedMode, type ExpectedSettings } from './options.ts';

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
  /** The path of the pod template in an object that is not of a built-in kind. */
  readonly template?: string;
  /** The service account of the pods; absent for mirror pods and for objects without a pod template. */
  readonly serviceAccount?: string;
  /** The error of the API server for pods whose service account does not exist. */
  readonly denial?: string;
  readonly result: Outcome;
}

export type WorkloadName = Pick<PlannedWorkload, 'kind' | 'name' | 'template'>;

/** A grant of the use of an SCC to a service account in its namespace. */
export interface PlannedGrant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
  /** The denied workloads that the grant admits. */
  readonly workloads: readonly WorkloadName[];
  /** The admitted workloads that the grant moves to this SCC. */
  readonly moves: readonly (WorkloadName & { readonly from: string })[];
}

export interface Plan {
  /** The namespaces with workloads, sorted by name. */
  readonly namespaces: readonly PlannedNamespace[];
  readonly grants: readonly PlannedGrant[];
  /** The grants as objects to apply: the missing ClusterRoles, then one RoleBinding for each grant. */
  readonly bindings: readonly (ClusterRole | RoleBinding)[];
  readonly assumptions: readonly string[];
  /** The source of the settings; absent for defaults. */
  readonly settings?: string | undefined;
}

export interface PlanInput {
  readonly store: Store;
  readonly settings: ExpectedSettings;
  /** Pod templates of kinds that the store does not have. */
  readonly customSources?: readonly CustomPodSource[];
  /** Selects workloads by their labels. By default, all are selected. */
  isSelected?(labels: ObjectMeta['labels']): boolean;
  /** By default, the grants in the store. */
  readonly canUse?: CanUse;
}

/** Returns the decisions about all workloads of a namespace; `undefined` for a namespace without workloads. */
export function planNamespace(namespace: Namespace, input: PlanInput): PlannedNamespace | undefined {
  const name = objectName(namespace);
  const sources = listPodCreators(input.store, name, input.customSources ?? []).filter(
    ({ object }) => input.isSelected?.(object.metadata?.labels) ?? true,
  );
  if (sources.length === 0) return undefined;
  const mode = expectedMode(namespace, input.settings);
  const workloads = sources.map((source): PlannedWorkload => {
    const workload = workloadName(source);
    return mode.mode === 'off'
      ? { ...workload, result: { outcome: 'off' } }
      : { ...workload, ...planWorkload(source, namespace, input) };
  });
  return { name, ...mode, workloads };
}

function workloadName({ kind, object, template }: PodCreator): WorkloadName {
  return { kind, name: objectName(object), ...(template ? { template: printFieldPath(template) } : {}) };
}

/** The creator of a pod without a controller is unknown: it has no grants. */
function planWorkload(
  source: PodCreator,
  namespace: Namespace,
  { store, settings, canUse }: PlanInput,
): Omit<PlannedWorkload, keyof WorkloadName> {
  const name = objectName(namespace);
  const findAccount = (account: string) => store.get('ServiceAccount', account, name);
  const created = createPod(source, { namespace: name, creator: {}, findAccount });
  if (created === undefined) return { result: { outcome: 'ignored' } };
  const { pod, requester, ...account } = created;
  const input = { ...sccInput(store, settings), ...(canUse ? { canUse } : {}) };
  return { ...account, result: planPod({ ...input, object: pod, namespace, userInfo: requester }) };
}

/**
 * Returns the grants that admit denied workloads, sorted by namespace, service account and SCC. A grant may also move
 * workloads that are not selected.
 */
export function planGrants(
  namespaces: readonly PlannedNamespace[],
  { isSelected, ...input }: PlanInput,
): readonly PlannedGrant[] {
  return namespaces.flatMap((namespace) => {
    const grants = neededGrants(namespace);
    const object = input.store.get('Namespace', namespace.name);
    if (grants.length === 0 || object === undefined) return [];
    const current = (isSelected && planNamespace(object, input)) ?? namespace;
    const granted = planNamespace(object, { ...input, canUse: withGrants(input.store, grants) });
    return grants.map((grant) => ({ ...grant, moves: findMoves(grant, current, granted) }));
  });
}

type NeededGrant = Omit<PlannedGrant, 'moves'>;

function neededGrants({ name: namespace, workloads }: PlannedNamespace): readonly NeededGrant[] {
  const grantable = workloads.flatMap((workload) => {
    const { kind, name, template, serviceAccount = '' } = workload;
    const scc = grantableScc(workload);
    const named = { kind, name, ...(template === undefined ? {} : { template }) };
    return scc === undefined ? [] : [{ serviceAccount, scc, workload: named }];
  });
  const groups = Map.groupBy(grantable, ({ serviceAccount, scc }) => `${serviceAccount}/${scc}`).values();
  return [...groups]
    .flatMap((group) =>
      group.slice(0, 1).map(({ serviceAccount, scc }) => {
        return { namespace, serviceAccount, scc, workloads: group.map(({ workload }) => workload) };
      }),
    )
    .sort((a, b) => compareBytes(a.serviceAccount, b.serviceAccount) || compareBytes(a.scc, b.scc));
}

/** Returns the workloads that are admitted without the grant, and that the grant moves to its SCC. */
function findMoves(
  { serviceAccount, scc }: NeededGrant,
  { workloads }: PlannedNamespace,
  granted: PlannedNamespace | undefined,
): PlannedGrant['moves'] {
  return workloads.flatMap(({ kind, name, serviceAccount: account, result }, index) => {
    const after = granted?.workloads[index]?.result;
    if (account !== serviceAccount || result.outcome !== 'admitted' || after?.outcome !== 'admitted') return [];
    return after.scc === scc && result.scc !== scc ? [{ kind, name, from: result.scc }] : [];
  });
}

function withGrants(store: Store, grants: readonly NeededGrant[]): CanUse {
  const canUse = canUseScc(store);
  const keys = grants.map(({ namespace, serviceAccount, scc }) =>
    JSON.stringify([`system:serviceaccount:${namespace}:${serviceAccount}`, scc, namespace]),
  );
  const granted = new Set(keys);
  return (subject, scc, namespace) =>
    granted.has(JSON.stringify([subject.username, scc, namespace])) || canUse(subject, scc, namespace);
}

/** Returns the grants as objects to apply: the missing ClusterRoles, then one RoleBinding for each grant. */
export function grantBindings(grants: readonly PlannedGrant[], store: Store): Plan['bindings'] {
  return grantObjects(grants, { hasRole: (scc) => hasUseRole(store, scc) });
}

/** True if the ClusterRole for the use of an SCC exists and grants it. */
function hasUseRole(store: Store, scc: string): boolean {
  const rules = readRules(store.get('ClusterRole', useRoleName(scc))?.rules);
  return rules.some((rule) => ruleAllows(rule, { ...USE_SCC, name: scc }));
}

/** The number of workloads by result. */
interface PlanSummary extends Readonly<Record<Outcome['outcome'], number>> {
  readonly workloads: number;
  /** The denied workloads that a binding would admit. */
  readonly grantable: number;
}

export function summarizePlan(namespaces: readonly PlannedNamespace[]): PlanSummary {
  const workloads = namespaces.flatMap((namespace) => namespace.workloads);
  const count = (outcome: Outcome['outcome']): number =>
    workloads.filter(({ result }) => result.outcome === outcome).length;
  return {
    workloads: workloads.length,
    admitted: count('admitted'),
    denied: count('denied'),
    grantable: workloads.filter((workload) => grantableScc(workload) !== undefined).length,
    ignored: count('ignored'),
    off: count('off'),
  };
}

/** Returns the SCC to grant to the service account of a denied workload; `undefined` if none admits it or only one that allows everything. */
export function grantableScc({ result, serviceAccount }: PlannedWorkload): string | undefined {
  const isGrantable = result.outcome === 'denied' && result.suggestedScc === undefined && serviceAccount !== undefined;
  return isGrantable ? result.grantable : undefined;
}
