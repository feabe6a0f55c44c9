/**
 * The enforcement plan, including its effect on each namespace and the next steps. Commands, reports and the dashboard
 * display it.
 */
import { shellQuote } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { ENFORCE_LABEL, LABEL_SYNC_LABEL, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { isStricter } from '../psa/index.ts';
import type { Level, Policy, Version } from '../pss/index.ts';
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
  'name' | 'current' | 'currentVersion' | 'categories' | 'workloads' | 'excepted'
> {
  /** Source of the current level. */
  readonly currentSource: 'label' | 'default' | 'exemption';
  /** The level under enforcement and its version. Absent if it cannot be computed. */
  readonly planned?: Level | undefined;
  readonly plannedVersion?: Version | undefined;
  readonly verdict: PlanVerdict;
  /** The reason in the PSAEnforcementConfig status. */
  readonly reason?: string | undefined;
  /** Why the evaluation is inconclusive. */
  readonly error?: string | undefined;
  readonly steps: readonly NextStep[];
}

/** A next step, which `printStep` prints as one sentence. */
interface NextStep {
  /** A sentence, or a phrase before the command. */
  readonly text: string;
  readonly command?: string | undefined;
}

export function printStep({ text, command }: NextStep): string {
  return command === undefined ? text : `${text}: ${command}.`;
}

/** A planned change to settings or labels. */
export interface PlanScope {
  /** The only namespace to plan. If absent, all namespaces are planned. */
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
    planned: (isSelected ? policy && { ...policy, version: current.version } : label) ?? planned,
    currentSource: isSelected ? ('default' as const) : ('label' as const),
    isNewLabel: label !== undefined,
  };
}

/** Returns the plan for a namespace that no level applies to. */
export function planExempt({ metadata }: Namespace): PlannedNamespace {
  const latest = { currentVersion: 'latest', plannedVersion: 'latest' } as const;
  const level = { current: 'privileged', planned: 'privileged', currentSource: 'exemption', ...latest } as const;
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
  { from, policy, before, workloads: denied = [], error }: UpgradeEvaluation,
): PlannedNamespace {
  const workloads = denied.filter(
    ({ kind, name }) => !before.some((other) => other.kind === kind && other.name === name),
  );
  const isViolating = workloads.length > 0;
  const label = `${POD_SECURITY_LABELS.enforceVersion}=${from}`;
  const text = 'Change the workloads before the upgrade, or keep the current version';
  const step = { text, command: `kubectl label namespace/${planned.name} ${label}` };
  return {
    ...planned,
    planned: policy.level,
    plannedVersion: policy.version,
    verdict: error === undefined ? (isViolating ? 'violating' : 'clean') : 'inconclusive',
    categories: [],
    reason: undefined,
    workloads,
    excepted: [],
    error,
    steps: isViolating ? [step] : [],
  };
}

interface PlanContext extends Pick<PlannedNamespace, 'currentSource' | 'planned' | 'plannedVersion'> {
  /** True if the plan changes the namespace's label. */
  readonly isNewLabel: boolean;
  /** True if the namespace also has Portcullis's own label, so a weaker upstream label has no effect. */
  readonly hasOwnLabel: boolean;
}

/** Returns the plan for an evaluated namespace. */
export function planNamespace(evaluation: NamespaceEvaluation, context: PlanContext): PlannedNamespace {
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
    steps: nextSteps(evaluation, context),
  };
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

function nextSteps(evaluation: NamespaceEvaluation, context: PlanContext): readonly NextStep[] {
  const { name, verdict, workloads, categories, current } = evaluation;
  if (verdict === 'inconclusive') return [{ text: 'Resolve the error so the namespace can be evaluated.' }];
  const restarts = restartSteps(name, workloads);
  if (context.isNewLabel) return [...newLabelSteps(evaluation, context), ...restarts];
  const target = { name, ...context };
  const weaker = evaluation.level === 'baseline' ? 'privileged' : 'LEVEL';
  const ofCategories = categories.flatMap((category) => STEPS[category](target, weaker));
  if (ofCategories.length > 0 || (verdict !== 'deniedNow' && verdict !== 'violating'))
    return [...ofCategories, ...restarts];
  const change = labelStep(WEAKER, target, current === 'baseline' ? 'privileged' : 'LEVEL');
  return [change, ...restarts];
}

/** Returns the next steps for a plan that changes the namespace's label. */
function newLabelSteps(
  { name, verdict, current, level }: NamespaceEvaluation,
  { hasOwnLabel }: PlanContext,
): readonly NextStep[] {
  const isDenied = verdict === 'violating' || verdict === 'deniedNow';
  if (level === current) return isDenied ? [{ text: 'Change the workloads.' }] : [];
  const text = isDenied ? 'Change the workloads, then set the label' : 'Set the label';
  return [labelStep(text, { name, currentSource: 'label', hasOwnLabel }, level)];
}

const WEAKER = 'Change the workloads, or set a weaker level';

/**
 * The next steps for a namespace, and a level weaker than the planned level. The level is `LEVEL` if there are two
 * weaker levels.
 */
const STEPS: Readonly<Record<Category, (target: LabelTarget, level: string) => readonly NextStep[]>> = {
  runLevelZero: (target) => [labelStep('The namespace belongs to the cluster. Set its level', target, 'privileged')],
  openshift: (target, level) => [
    labelStep('The namespace belongs to the platform, and its labels are not managed. Set a level', target, level),
    {
      text: 'Alternatively, enable label management',
      command: `kubectl label namespace/${target.name} ${LABEL_SYNC_LABEL}=true`,
    },
  ],
  disabledSyncer: (target, level) => [
    {
      text: 'The labels of the namespace are not managed. Enable label management',
      command: `kubectl label namespace/${target.name} ${LABEL_SYNC_LABEL}-`,
    },
    labelStep('Alternatively, set a level', target, level),
  ],
  userSCC: ({ name }) => [
    {
      text: "Pods were admitted only because of their creators' permissions. Change the workloads, or grant the SCC to their service accounts",
      command: `portcullis scc plan -n ${name} --bindings FILE`,
    },
  ],
  unknown: (target, level) => [labelStep(WEAKER, target, level)],
};

interface LabelTarget extends Pick<PlanContext, 'hasOwnLabel' | 'currentSource'> {
  readonly name: string;
}

function labelStep(text: string, { name, currentSource, hasOwnLabel }: LabelTarget, level: string): NextStep {
  const overwrite = currentSource === 'label' || hasOwnLabel ? ' --overwrite' : '';
  const choice = level === 'LEVEL' ? ' (LEVEL: baseline or privileged)' : '';
  const labels = [...(hasOwnLabel ? [ENFORCE_LABEL] : []), POD_SECURITY_LABELS.enforce];
  const changes = labels.map((label) => `${label}=${level}`).join(' ');
  return { text: `${text}${choice}`, command: `kubectl label namespace/${name} ${changes}${overwrite}` };
}

/** Kinds that `kubectl rollout restart` supports. */
const RESTARTABLE: ReadonlySet<string> = new Set(['DaemonSet', 'Deployment', 'StatefulSet']);

/** Returns one command for all workloads that kubectl can restart, and a sentence for each other kind. */
function restartSteps(namespace: string, workloads: readonly ViolatingWorkload[]): readonly NextStep[] {
  const list = (isListed: (kind: string) => boolean): string =>
    workloads
      .filter(({ verdict, kind }) => verdict === 'restart' && isListed(kind))
      .map(({ kind, name }) => shellQuote(`${kind.toLowerCase()}/${name}`))
      .join(' ');
  const restarted = list((kind) => RESTARTABLE.has(kind));
  const controlled = list((kind) => !RESTARTABLE.has(kind) && kind !== 'Pod');
  const pods = list((kind) => kind === 'Pod');
  const command = `kubectl rollout restart -n ${namespace} ${restarted}`;
  return [
    ...(restarted === ''
      ? []
      : [{ text: 'Restart the workloads, unless their rolling update is in progress', command }]),
    ...(controlled === ''
      ? []
      : [{ text: `Delete the running pods so their controllers recreate them: ${controlled}.` }]),
    ...(pods === '' ? [] : [{ text: `Delete the pods and recreate them from their manifests: ${pods}.` }]),
  ];
}
