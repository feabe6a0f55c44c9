import type { ProposedScc, PlannedPod } from '../policy/scc/advice/explain.ts';
import type { ClusterRole, RoleBinding } from '../kube/types.ts';
import type { ExpectedMode } from './scc-options.ts';
import { SCC_MODE_LABEL } from '../policy/scc/mode.ts';
import { EXIT } from './command.ts';
import type { Change } from '../policy/scc/advice/suggestion.ts';

/** A namespace with what runs in it. */
export interface PlannedNamespace extends ExpectedMode {
  readonly name: string;
  /** Sorted by kind and name. */
  readonly workloads: readonly PlannedWorkload[];
}

/** `off`: SCCs do not count in the namespace. */
export type Outcome = PlannedPod | { readonly outcome: 'off' };

/** An object that pods come from, and what becomes of its pods. */
export interface PlannedWorkload {
  readonly kind: string;
  readonly name: string;
  /** Of its pods; absent for mirror pods, and where none can be told. */
  readonly serviceAccount?: string;
  /** Why the API server refuses its pods whatever SCCs say. */
  readonly refusal?: string;
  readonly result: Outcome;
}

/** How a workload is called in its namespace. */
export type WorkloadName = Pick<PlannedWorkload, 'kind' | 'name'>;

/** The use of an SCC, to be granted to a service account in its namespace. */
export interface PlannedGrant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
  /** Which it admits. */
  readonly workloads: readonly WorkloadName[];
  /** Which were admitted before, and come under this SCC then. */
  readonly moves: readonly (WorkloadName & { readonly from: string })[];
}

/** A workload that only an SCC would admit which allows everything, and what should be written instead. */
export interface NeededScc {
  readonly namespace: string;
  readonly workload: WorkloadName;
  readonly instead: string;
  readonly scc: ProposedScc;
}

/** A plan for a cluster. */
export interface Plan {
  /** Sorted by name; only those in which something runs. */
  readonly namespaces: readonly PlannedNamespace[];
  /** What would admit all pods that grants can help; `bindings` as what is applied. */
  readonly grants: readonly PlannedGrant[];
  readonly bindings: readonly (ClusterRole | RoleBinding)[];
  /** What was not there and had to be assumed. */
  readonly assumptions: readonly string[];
}

/** How many workloads there are of each kind of result. */
interface PlanSummary {
  readonly workloads: number;
  readonly admitted: number;
  /** Of those that are refused, how many a binding would help. */
  readonly refused: number;
  readonly grantable: number;
  /** Windows pods, and objects without a pod template. */
  readonly ignored: number;
  /** In namespaces where SCCs do not count. */
  readonly off: number;
}

export function summarizePlan({ namespaces }: Plan): PlanSummary {
  const results = namespaces.flatMap(({ workloads }) => workloads);
  const count = (test: (workload: PlannedWorkload) => boolean): number => results.filter(test).length;
  return {
    workloads: results.length,
    admitted: count(({ result }) => result.outcome === 'admitted'),
    refused: count(({ result }) => result.outcome === 'refused'),
    grantable: count(isGrantable),
    ignored: count(({ result }) => result.outcome === 'ignored'),
    off: count(({ result }) => result.outcome === 'off'),
  };
}

/** True for what is refused and would be admitted with a binding that allows no more than it should. */
export function isGrantable({ result, serviceAccount }: PlannedWorkload): boolean {
  return (
    result.outcome === 'refused' &&
    result.grantable !== undefined &&
    result.ownScc === undefined &&
    serviceAccount !== undefined
  );
}

/** What needs an SCC that is not there. */
export function neededSccsOf({ namespaces }: Pick<Plan, 'namespaces'>): readonly NeededScc[] {
  return namespaces.flatMap(({ name: namespace, workloads }) =>
    workloads.flatMap(({ kind, name, result }): NeededScc[] => {
      if (result.outcome !== 'refused' || result.ownScc === undefined) return [];
      return [{ namespace, workload: { kind, name }, instead: result.grantable ?? '', scc: result.ownScc }];
    }),
  );
}

export function exitCodeOfPlan(plan: Plan): number {
  return summarizePlan(plan).refused === 0 ? EXIT.passed : EXIT.violations;
}

/** `5 workloads: 3 admitted, 1 refused, 1 ignored, 2 not judged (off)` */
export function printPlanSummary(plan: Plan): string {
  const { workloads, admitted, refused, ignored, off } = summarizePlan(plan);
  const parts = [
    `${admitted} admitted`,
    `${refused} refused`,
    ...(ignored === 0 ? [] : [`${ignored} ignored`]),
    ...(off === 0 ? [] : [`${off} not judged (off)`]),
  ];
  return `${workloads} ${workloads === 1 ? 'workload' : 'workloads'}: ${parts.join(', ')}`;
}

/** What to do next; `bindingsFile` is where the bindings were written, if they were. */
export function printNextStep(plan: Plan, bindingsFile: string | undefined): string {
  const { workloads, refused, grantable } = summarizePlan(plan);
  if (workloads === 0) return 'Nothing runs here.';
  const own = neededSccsOf(plan).length;
  const rest = refused - grantable - own;
  const isAccountMissing = plan.namespaces.some(({ workloads }) =>
    workloads.some(({ refusal }) => refusal !== undefined),
  );
  const advice = [
    ...(isAccountMissing ? ['create the service accounts that are missing'] : []),
    ...(own === 0 ? [] : [`write and grant the ${own === 1 ? 'SCC that is' : 'SCCs that are'} needed`]),
    ...(grantable === 0 ? [] : [printBindingStep(bindingsFile)]),
    ...(rest === 0 ? [] : [`change what no binding would help`]),
  ];
  return advice.length === 0 ? printEnforceStep(plan) : `Next: ${advice.join('; ')}; then plan again.`;
}

function printBindingStep(file: string | undefined): string {
  if (file === undefined) return 'write the bindings with --bindings FILE, review and apply them';
  return file === '-' ? 'review and apply the bindings' : `review ${file}, and kubectl apply -f ${file}`;
}

const SHOWN = 3;

function printEnforceStep({ namespaces }: Plan): string {
  const reporting = namespaces.filter(({ mode }) => mode === 'report').map(({ name }) => name);
  if (reporting.length === 0) return 'Nothing stands in the way of what is enforced.';
  const rest = reporting.length - SHOWN;
  const names = [...reporting.slice(0, SHOWN), ...(rest > 0 ? [`${rest} more`] : [])].join(', ');
  return `Next: nothing stands in the way of ${SCC_MODE_LABEL}=enforce on ${names}.`;
}

const OWNERS = /^(?:.*\.)?securityContext\./;

/**
 * Changes of a pod, those of one security context in one line:
 * `spec.securityContext: fsGroup=1 seccompProfile.type="RuntimeDefault"`.
 */
export function printChanges(changes: readonly Change[]): readonly string[] {
  const byOwner = Map.groupBy(changes, ({ path }) => OWNERS.exec(path)?.[0] ?? '');
  return [...byOwner].flatMap(([owner, ofOwner]) =>
    owner === ''
      ? ofOwner.map((change) => printChange(change))
      : [`${owner.slice(0, -1)}: ${ofOwner.map((change) => printChange(change, owner.length)).join(' ')}`],
  );
}

function printChange({ path, before, after }: Change, from = 0): string {
  const name = path.slice(from);
  if (after === undefined) return `${name} removed (was ${JSON.stringify(before)})`;
  return `${name}=${JSON.stringify(after)}${before === undefined ? '' : ` (was ${JSON.stringify(before)})`}`;
}
