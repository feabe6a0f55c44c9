/** Plans the effect of enforcement on each namespace. Commands, reports and the dashboard display the plan. */
import type { Namespace } from '../../kube/types.ts';
import { isStricter } from '../psa/index.ts';
import type { Level, Policy, Version } from '../pss/index.ts';
import type { NamespaceEvaluation, NamespaceInput, ViolatingWorkload, WorkloadVerdict } from './evaluation.ts';
import { violationReason } from './readiness.ts';

/** The verdict of an evaluation, or `exempt` if no level applies to the namespace. */
type PlanVerdict = NamespaceEvaluation['verdict'] | 'exempt';

export interface PlannedNamespace extends Pick<
  NamespaceEvaluation,
  'name' | 'current' | 'currentVersion' | 'categories' | 'workloads' | 'excepted'
> {
  /** Source of the current level. */
  readonly currentSource: 'label' | 'default' | 'exemption';
  /** The level under enforcement and its version. Absent if they cannot be computed. */
  readonly planned?: Level | undefined;
  readonly plannedVersion?: Version | undefined;
  readonly verdict: PlanVerdict;
  /** The reason in the PSAEnforcementConfig status. */
  readonly reason?: string | undefined;
  /** The reason why the evaluation is inconclusive. */
  readonly error?: string | undefined;
  readonly steps: readonly NextStep[];
}

/** A next step for a namespace. */
export interface NextStep {
  /** A sentence, or a phrase that introduces the command. */
  readonly text: string;
  readonly command?: string | undefined;
}

/** The scope of a plan, and a planned change to settings or labels. */
export interface PlanScope {
  /** The only namespace to plan. If absent, all namespaces are planned. */
  readonly only?: string | undefined;
  /** Default policy for unlabeled namespaces. Defaults to the rollout's default. */
  readonly policy?: Policy | undefined;
  /**
   * Level that replaces less strict labels. If `only` is set, it replaces any label. If absent, namespaces keep their
   * labels.
   */
  readonly newLabel?: Level | undefined;
}

/** Chooses the policies to evaluate for a namespace, based on the rollout or on a planned change. */
export function choosePolicies(
  { isSelected, current, planned }: Pick<NamespaceInput, 'current' | 'planned' | 'isSelected'>,
  { only, policy, newLabel }: PlanScope,
) {
  const isReplaced = newLabel !== undefined && (only !== undefined || isStricter(newLabel, current.level));
  const label = !isSelected && isReplaced ? { level: newLabel, version: current.version } : undefined;
  return {
    current,
    planned: (isSelected ? policy && { ...policy, version: current.version } : label) ?? planned,
    currentSource: isSelected ? ('default' as const) : ('label' as const),
    isNewLabel: label !== undefined,
  };
}

/** Returns the plan for a namespace to which no level applies. */
export function planExempt({ metadata }: Namespace): PlannedNamespace {
  const latest = { currentVersion: 'latest', plannedVersion: 'latest' } as const;
  const level = { current: 'privileged', planned: 'privileged', currentSource: 'exemption', ...latest } as const;
  const nothing = { categories: [], workloads: [], excepted: [], steps: [] };
  return { name: metadata?.name ?? '', ...level, verdict: 'exempt', ...nothing };
}

/** The Kubernetes versions before and after the upgrade. */
export interface Upgrade {
  readonly from: Version;
  readonly to: Version;
}

interface UpgradeEvaluation extends Partial<Pick<NamespaceEvaluation, 'workloads' | 'error'>> {
  /** The evaluated policy. */
  readonly policy: Policy;
  /** Workloads that the current version denies. */
  readonly before: readonly ViolatingWorkload[];
}

/**
 * Returns the plan for a namespace before a Kubernetes upgrade. Lists only the workloads that the current version
 * admits.
 */
export function planUpgrade(
  planned: PlannedNamespace,
  { policy, before, workloads: denied = [], error }: UpgradeEvaluation,
): PlannedNamespace {
  const workloads = denied.filter(
    ({ kind, name }) => !before.some((other) => other.kind === kind && other.name === name),
  );
  return {
    ...planned,
    planned: policy.level,
    plannedVersion: policy.version,
    verdict: error === undefined ? (workloads.length > 0 ? 'violating' : 'clean') : 'inconclusive',
    categories: [],
    reason: undefined,
    workloads,
    excepted: [],
    error,
  };
}

export interface PlanContext extends Pick<PlannedNamespace, 'currentSource' | 'planned' | 'plannedVersion'> {
  /** True if the plan changes the namespace's label. */
  readonly isNewLabel: boolean;
  /** True if the namespace also has the `ENFORCE_LABEL`, so a less strict upstream label has no effect. */
  readonly hasOwnLabel: boolean;
}

/** Returns the plan for an evaluated namespace. */
export function planNamespace(evaluation: NamespaceEvaluation, context: PlanContext): Omit<PlannedNamespace, 'steps'> {
  const { name, current, currentVersion, verdict, categories, workloads, excepted, error } = evaluation;
  const { currentSource, planned, plannedVersion } = context;
  return {
    name,
    current,
    currentVersion,
    currentSource,
    planned,
    plannedVersion,
    verdict,
    categories,
    reason: violationReason(categories),
    workloads,
    excepted,
    error,
  };
}

/** Numbers of namespaces by verdict, and of workloads and their running pods by verdict. */
export interface NamespaceCounts extends Readonly<Record<PlanVerdict | 'namespaces', number>> {
  readonly workloads: Readonly<Record<WorkloadVerdict, WorkloadCount>>;
}

interface WorkloadCount {
  readonly workloads: number;
  readonly pods: number;
}

/** Counts the namespaces and workloads by verdict. */
export function countNamespaces(namespaces: readonly PlannedNamespace[]): NamespaceCounts {
  const count = (verdict: PlanVerdict): number =>
    namespaces.filter((namespace) => namespace.verdict === verdict).length;
  const countWorkloads = (verdict: WorkloadVerdict): WorkloadCount => {
    const matching = namespaces.flatMap(({ workloads }) =>
      workloads.filter((workload) => workload.verdict === verdict),
    );
    return { workloads: matching.length, pods: matching.reduce((sum, { pods }) => sum + pods, 0) };
  };
  return {
    namespaces: namespaces.length,
    clean: count('clean'),
    restart: count('restart'),
    deniedNow: count('deniedNow'),
    violating: count('violating'),
    inconclusive: count('inconclusive'),
    exempt: count('exempt'),
    workloads: {
      deniedNow: countWorkloads('deniedNow'),
      wouldBeDenied: countWorkloads('wouldBeDenied'),
      restart: countWorkloads('restart'),
    },
  };
}

/** Returns true if workloads in the namespace are or would be denied, or if its evaluation is inconclusive. */
export function needsFix({ verdict }: PlannedNamespace): boolean {
  return verdict === 'violating' || verdict === 'deniedNow' || verdict === 'inconclusive';
}
