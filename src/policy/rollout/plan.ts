/**
 * The enforcement plan, including its effect on each namespace and the next steps. Commands, reports and the dashboard
 * display it.
 */
import { shellQuote } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { LABEL_SYNC_LABEL, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { isStricter } from '../psa/policy.ts';
import type { Level, Policy, Version } from '../pss/policy.ts';
import type {
  Category,
  NamespaceEvaluation,
  NamespaceInput,
  ViolatingWorkload,
  WorkloadVerdict,
} from './evaluation.ts';
import { violationReason } from './readiness.ts';

/** The verdict of an evaluation. `exempt` means that no level applies to the namespace. */
type PlanVerdict = NamespaceEvaluation['verdict'] | 'exempt';

export interface PlannedNamespace extends Pick<
  NamespaceEvaluation,
  'name' | 'current' | 'categories' | 'workloads' | 'excepted'
> {
  /** Source of the current level. */
  readonly currentSource: 'label' | 'default' | 'exemption';
  /** The level under enforcement. Absent if it cannot be computed. */
  readonly planned?: Level | undefined;
  readonly verdict: PlanVerdict;
  /** The reason in the PSAEnforcementConfig status. */
  readonly reason?: string | undefined;
  /** Why the evaluation is inconclusive. */
  readonly error?: string | undefined;
  /** Next steps. Each item is one sentence. */
  readonly steps: readonly string[];
}

/** A planned change to settings or labels. */
export interface PlanScope {
  /** Restricts the plan to this namespace. */
  readonly only?: string | undefined;
  /** Default policy for unlabeled namespaces. Defaults to the rollout's default. */
  readonly policy?: Policy | undefined;
  /** Level that replaces weaker labels or, combined with `only`, any label. If absent, namespaces keep their labels. */
  readonly newLabel?: Level | undefined;
}

/** Chooses which policies to evaluate for a namespace, based on the rollout or on a change. */
export function choosePolicies(
  { isSelected, current, planned }: Pick<NamespaceInput, 'current' | 'planned' | 'isSelected'>,
  { only, policy, newLabel }: PlanScope,
) {
  const isReplaced = newLabel !== undefined && (only !== undefined || isStricter(newLabel, current.level));
  const label = !isSelected && isReplaced ? { level: newLabel, version: current.version } : undefined;
  return {
    current,
    planned: (isSelected ? policy : label) ?? planned,
    currentSource: isSelected ? ('default' as const) : ('label' as const),
    isNewLabel: label !== undefined,
  };
}

/** Returns the plan for a namespace that no level applies to. */
export function planExempt({ metadata }: Namespace): PlannedNamespace {
  const level = { current: 'privileged', planned: 'privileged', currentSource: 'exemption' } as const;
  const nothing = { categories: [], workloads: [], excepted: [], steps: [] };
  return { name: metadata?.name ?? '', ...level, verdict: 'exempt', ...nothing };
}

/** Kubernetes versions before and after the upgrade. */
export interface Upgrade {
  readonly from: Version;
  readonly to: Version;
}

interface UpgradeEvaluation extends Partial<Pick<NamespaceEvaluation, 'workloads' | 'error'>> {
  readonly from: Version;
  /** The evaluated level. */
  readonly level: Level;
  /** Workloads that the current version denies. */
  readonly before: readonly ViolatingWorkload[];
}

/**
 * Returns the plan for a namespace before a Kubernetes upgrade. Lists only the workloads that the current version
 * admits.
 */
export function planUpgrade(
  planned: PlannedNamespace,
  { from, level, before, workloads: denied = [], error }: UpgradeEvaluation,
): PlannedNamespace {
  const workloads = denied.filter(
    ({ kind, name }) => !before.some((other) => other.kind === kind && other.name === name),
  );
  const isViolating = workloads.length > 0;
  const label = `${POD_SECURITY_LABELS.enforceVersion}=${from}`;
  const step = `Change the workloads before the upgrade, or keep the current version: kubectl label namespace/${planned.name} ${label}.`;
  return {
    ...planned,
    planned: level,
    verdict: error === undefined ? (isViolating ? 'violating' : 'clean') : 'inconclusive',
    categories: [],
    reason: undefined,
    workloads,
    excepted: [],
    error,
    steps: isViolating ? [step] : [],
  };
}

interface PlanContext extends Pick<PlannedNamespace, 'currentSource' | 'planned'> {
  /** True if the plan changes the namespace's label. */
  readonly isNewLabel: boolean;
}

/** Returns the plan for an evaluated namespace. */
export function planNamespace(evaluation: NamespaceEvaluation, context: PlanContext): PlannedNamespace {
  const { name, current, verdict, categories, workloads, excepted, error } = evaluation;
  const { currentSource, planned } = context;
  const steps = nextSteps(evaluation, context);
  const reason = violationReason(categories);
  return { name, current, currentSource, planned, verdict, categories, reason, workloads, excepted, error, steps };
}

/** Numbers of namespaces by verdict, of workloads, and of the workloads' running pods. */
export interface NamespaceCounts extends Readonly<Record<PlanVerdict | 'namespaces', number>> {
  readonly workloads: Readonly<Record<WorkloadVerdict, WorkloadCount>>;
}

interface WorkloadCount {
  readonly workloads: number;
  readonly pods: number;
}

/** Counts the namespaces and workloads by verdict. */
export function countNamespaces(namespaces: readonly PlannedNamespace[]): NamespaceCounts {
  const count = (verdict: PlanVerdict): number => namespaces.filter((one) => one.verdict === verdict).length;
  const countWorkloads = (verdict: WorkloadVerdict): WorkloadCount => {
    const found = namespaces.flatMap(({ workloads }) => workloads.filter((one) => one.verdict === verdict));
    return { workloads: found.length, pods: found.reduce((sum, { pods }) => sum + pods, 0) };
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

function nextSteps(evaluation: NamespaceEvaluation, context: PlanContext): readonly string[] {
  const { name, verdict, workloads, categories, current } = evaluation;
  if (verdict === 'inconclusive') return ['Resolve the error so the namespace can be evaluated.'];
  const restarts = restartSteps(name, workloads);
  if (context.isNewLabel) return [...newLabelSteps(evaluation), ...restarts];
  const weaker = evaluation.level === 'baseline' ? 'privileged' : 'LEVEL';
  const ofCategories = categories.map((category) => STEPS[category](name, weaker));
  if (ofCategories.length > 0 || (verdict !== 'deniedNow' && verdict !== 'violating'))
    return [...ofCategories, ...restarts];
  const change = labelCommand(name, current === 'baseline' ? 'privileged' : 'LEVEL', context);
  return [`Change the workloads, or set a weaker level: ${change}.`, ...restarts];
}

/** Returns the next steps for a plan that changes the namespace's label. */
function newLabelSteps({ name, verdict, current, level }: NamespaceEvaluation): readonly string[] {
  const command = labelCommand(name, level, { currentSource: 'label' });
  const isDenied = verdict === 'violating' || verdict === 'deniedNow';
  if (level === current) return isDenied ? ['Change the workloads.'] : [];
  return [isDenied ? `Change the workloads, then set the label: ${command}.` : `Set the label: ${command}.`];
}

/**
 * The next step for a namespace, and a level weaker than the planned level. The level is `LEVEL` if there are two
 * weaker levels.
 */
const STEPS: Readonly<Record<Category, (name: string, weaker: string) => string>> = {
  runLevelZero: (name) => `The namespace belongs to the cluster. Set its level: ${labelCommand(name, 'privileged')}.`,
  openshift: (name, weaker) =>
    `The namespace belongs to the platform, and its labels are not managed. Set a level: ${labelCommand(name, weaker)}. Alternatively, enable label management: kubectl label namespace/${name} ${LABEL_SYNC_LABEL}=true.`,
  disabledSyncer: (name, weaker) =>
    `The labels of the namespace are not managed. Enable label management: kubectl label namespace/${name} ${LABEL_SYNC_LABEL}-. Alternatively, set a level: ${labelCommand(name, weaker)}.`,
  userSCC: (name) =>
    `Pods were admitted only because of their creators' permissions. Grant the SCC to the service account (portcullis scc plan -n ${name} --bindings FILE), or change the workloads.`,
  unknown: (name, weaker) => `Change the workloads, or set a weaker level: ${labelCommand(name, weaker)}.`,
};

function labelCommand(name: string, weaker: string, { currentSource }: Partial<PlanContext> = {}): string {
  const overwrite = currentSource === 'label' ? ' --overwrite' : '';
  const choice = weaker === 'LEVEL' ? ' (LEVEL: baseline or privileged)' : '';
  return `kubectl label namespace/${name} ${POD_SECURITY_LABELS.enforce}=${weaker}${overwrite}${choice}`;
}

/** Kinds that `kubectl rollout restart` supports. */
const RESTARTABLE: ReadonlySet<string> = new Set(['DaemonSet', 'Deployment', 'StatefulSet']);

/** Returns one command for all workloads that kubectl can restart, and a sentence for each other kind. */
function restartSteps(namespace: string, workloads: readonly ViolatingWorkload[]): readonly string[] {
  const list = (isListed: (kind: string) => boolean): string =>
    workloads
      .filter(({ verdict, kind }) => verdict === 'restart' && isListed(kind))
      .map(({ kind, name }) => shellQuote(`${kind.toLowerCase()}/${name}`))
      .join(' ');
  const restarted = list((kind) => RESTARTABLE.has(kind));
  const controlled = list((kind) => !RESTARTABLE.has(kind) && kind !== 'Pod');
  const pods = list((kind) => kind === 'Pod');
  return [
    ...(restarted === '' ? [] : [`Restart the workloads: kubectl rollout restart -n ${namespace} ${restarted}.`]),
    ...(controlled === '' ? [] : [`Delete the running pods so their controllers recreate them: ${controlled}.`]),
    ...(pods === '' ? [] : [`Delete the pods and recreate them from their manifests: ${pods}.`]),
  ];
}
