/** Evaluates the workloads of a namespace, and plans the grants that would admit denied workloads. */
import { createPod, type FindServiceAccount, type PodCreator } from '../../../kube/controller-pod.ts';
import { defined } from '../../../kube/defined.ts';
import { objectName } from '../../../kube/resources.ts';
import { compareBy } from '../../../kube/text.ts';
import type { UserInfo } from '../../../kube/types.ts';
import { printFieldPath } from '../../pod/index.ts';
import type { TemplateInput } from '../assign.ts';
import type { SccMode } from '../mode.ts';
import { decidePod, type PodInput, type PodVerdict } from './explain.ts';

/** Input for the decisions on all workloads in a namespace. */
export interface WorkloadContext extends TemplateInput {
  /** The assumed creator of pods that have no controller. */
  readonly creator: UserInfo;
  readonly findAccount: FindServiceAccount;
}

/** The pod that a workload creates. */
interface WorkloadPod {
  /** Name of the service account. Absent for mirror pods. */
  readonly serviceAccount?: string;
  /** The API server's error for a pod whose service account does not exist. */
  readonly denial?: string;
  readonly input: PodInput;
}

/**
 * Returns the pod that a workload creates, as SCC admission receives it. Returns `undefined` for a workload that has no
 * pod template.
 */
export function workloadPod(
  source: PodCreator,
  { creator, findAccount, ...context }: WorkloadContext,
): WorkloadPod | undefined {
  const created = createPod(source, { namespace: objectName(context.namespace), creator, findAccount });
  if (created === undefined) return undefined;
  const { pod, requester, ...account } = created;
  return { ...account, input: { ...context, object: pod, userInfo: requester } };
}

/** A namespace and its workloads, sorted by kind and name. */
export interface AdmissionPlan {
  readonly name: string;
  readonly mode: SccMode;
  readonly workloads: readonly PlannedWorkload[];
}

/** A pod, or an object that creates pods. */
export interface WorkloadName {
  readonly kind: string;
  readonly name: string;
  /** Path of the pod template. Set only if the object's kind is not built in. */
  readonly template?: string;
}

/** A workload and the verdict on its pods. `off` means that SCC admission is off in the namespace. */
export interface PlannedWorkload extends WorkloadName, Omit<WorkloadPod, 'input'> {
  readonly result: PodVerdict | { readonly outcome: 'off' };
}

export interface AdmissionPlanInput extends Omit<WorkloadContext, 'creator'> {
  readonly mode: SccMode;
  readonly sources: readonly PodCreator[];
}

/** Evaluates the pods of all workloads in a namespace. */
export function planAdmission({ mode, sources, ...shared }: AdmissionPlanInput): AdmissionPlan {
  // The creator of a bare pod is unknown, so it is assumed to have no grants.
  const context = { ...shared, creator: {} };
  const workloads = sources.map((source): PlannedWorkload => {
    const { kind, object, template } = source;
    const named = { kind, name: objectName(object), ...(template ? { template: printFieldPath(template) } : {}) };
    if (mode === 'off') return { ...named, result: { outcome: 'off' } };
    const pod = workloadPod(source, context);
    if (pod === undefined) return { ...named, result: { outcome: 'ignored' } };
    const { input, ...account } = pod;
    return { ...named, ...account, result: decidePod(input) };
  });
  return { name: objectName(shared.namespace), mode, workloads };
}

/** A grant of an SCC to a service account in the service account's namespace. */
export interface PlannedGrant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
  /** Denied workloads that the grant admits. */
  readonly workloads: readonly WorkloadName[];
  /** Admitted workloads that the grant moves to this SCC. */
  readonly moves: readonly (WorkloadName & { readonly from: string })[];
}

/**
 * Returns the grants that admit denied workloads in a namespace, sorted by service account and SCC.
 * @param input all workloads in the namespace to which the grants apply
 */
export function planGrants(planned: AdmissionPlan, input: AdmissionPlanInput): readonly PlannedGrant[] {
  const grants = findGrants(planned);
  if (grants.length === 0) return [];
  const isComplete = planned.workloads.length === input.sources.length;
  const current = isComplete ? planned : planAdmission(input);
  const granted = planAdmission({ ...input, access: withGrants(input.access, grants) });
  return grants.map((grant) => ({ ...grant, moves: findMoves(grant, current, granted) }));
}

type NeededGrant = Omit<PlannedGrant, 'moves'>;

function findGrants({ name: namespace, workloads }: AdmissionPlan): readonly NeededGrant[] {
  const grants = new Map<string, NeededGrant & { readonly workloads: WorkloadName[] }>();
  for (const workload of workloads) {
    const { kind, name, template, serviceAccount = '' } = workload;
    const scc = grantableScc(workload);
    if (scc === undefined) continue;
    const key = `${serviceAccount}/${scc}`;
    const grant = grants.get(key) ?? { namespace, serviceAccount, scc, workloads: [] };
    grants.set(key, grant);
    grant.workloads.push({ kind, name, ...defined({ template }) });
  }
  return [...grants.values()].sort(compareBy(({ serviceAccount, scc }) => [serviceAccount, scc]));
}

/** Returns the workloads that are admitted even without the grant, but that would get another SCC because of it. */
function findMoves(
  { serviceAccount, scc }: NeededGrant,
  { workloads }: AdmissionPlan,
  granted: AdmissionPlan,
): PlannedGrant['moves'] {
  return workloads.flatMap(({ kind, name, serviceAccount: account, result }, index) => {
    const after = granted.workloads[index]?.result;
    if (account !== serviceAccount || result.outcome !== 'admitted' || after?.outcome !== 'admitted') return [];
    return after.scc === scc && result.scc !== scc ? [{ kind, name, from: result.scc }] : [];
  });
}

function withGrants(
  access: AdmissionPlanInput['access'],
  grants: readonly NeededGrant[],
): AdmissionPlanInput['access'] {
  const keys = grants.map(({ namespace, serviceAccount, scc }) =>
    JSON.stringify([`system:serviceaccount:${namespace}:${serviceAccount}`, scc, namespace]),
  );
  const granted = new Set(keys);
  return {
    canUse: (subject, scc, namespace) =>
      granted.has(JSON.stringify([subject.username, scc, namespace])) || access.canUse(subject, scc, namespace),
  };
}

/** Numbers of workloads by result. */
interface PlanSummary extends Readonly<Record<PlannedWorkload['result']['outcome'], number>> {
  readonly workloads: number;
  /** Denied workloads that a binding would admit. */
  readonly grantable: number;
}

export function summarizePlan(namespaces: readonly AdmissionPlan[]): PlanSummary {
  const workloads = namespaces.flatMap((namespace) => namespace.workloads);
  const count = (outcome: PlannedWorkload['result']['outcome']): number =>
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

/**
 * Returns the SCC to grant to the service account of a denied workload. Returns `undefined` if no SCC admits the
 * workload, or if corrections or a custom SCC suffice and the SCC allows everything.
 */
export function grantableScc({ result, serviceAccount }: PlannedWorkload): string | undefined {
  const isGrantable = result.outcome === 'denied' && !result.isLastResort && serviceAccount !== undefined;
  return isGrantable ? result.grantable : undefined;
}
