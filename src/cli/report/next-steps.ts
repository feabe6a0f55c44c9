/** Determines the next steps for each namespace in the enforcement plan. */
import { ENFORCE_LABEL } from '../../api/names.ts';
import { shellQuote } from '../../kube/text.ts';
import { LABEL_SYNC_LABEL, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import type { Version } from '../../policy/pss/index.ts';
import type {
  NamespaceEvaluation,
  NextStep,
  PlanContext,
  PlannedNamespace,
  ViolatingWorkload,
} from '../../policy/rollout/index.ts';
import { addFlags } from '../output/shell.ts';

/** Formats a step as one sentence. The flags of its command select the cluster. */
export function printStep({ text, command }: NextStep, clusterFlags: readonly string[]): string {
  return command === undefined ? text : `${text}: ${addFlags(command, clusterFlags)}.`;
}

/** Returns the next steps for a namespace whose workloads an upgrade would deny. `from` is the current version. */
export function upgradeSteps({ name, workloads }: PlannedNamespace, from: Version): readonly NextStep[] {
  if (workloads.length === 0) return [];
  const label = `${POD_SECURITY_LABELS.enforceVersion}=${from}`;
  const text = 'Change the workloads before the upgrade, or keep the current version';
  return [{ text, command: `kubectl label namespace/${name} ${label} --overwrite` }];
}

/** Returns the next steps for an evaluated namespace. */
export function nextSteps(evaluation: NamespaceEvaluation, context: PlanContext): readonly NextStep[] {
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
 * Next steps for a namespace by the owner of its labels. They set a weaker level than planned. If both other levels are
 * weaker, the commands contain the placeholder `LEVEL`.
 */
const STEPS: Readonly<
  Record<PlannedNamespace['categories'][number], (target: LabelTarget, level: string) => readonly NextStep[]>
> = {
  runLevelZero: (target) => [labelStep('The namespace is a system namespace. Set its level', target, 'privileged')],
  openshift: (target, level) => [
    labelStep('The namespace belongs to the platform, and its labels are not managed. Set a level', target, level),
    {
      text: 'Alternatively, enable label management',
      command: `kubectl label namespace/${target.name} ${LABEL_SYNC_LABEL}=true --overwrite`,
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
