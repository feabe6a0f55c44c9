import { setImmediate } from 'node:timers/promises';
import { LABEL_SYNC_LABEL, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import type {
  Category,
  NamespaceEvaluation,
  FixableViolation,
  ViolatingWorkload,
} from '../../policy/rollout/evaluation.ts';
import { violationReason } from '../../policy/rollout/readiness.ts';
import { canUseScc } from '../../cluster/access.ts';
import { createNamespaceEvaluator } from '../../controllers/readiness-evaluator.ts';
import { compareBytes } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { createSccLevelCache } from '../../cluster/rollout.ts';
import { planLabels, isTerminating } from '../../policy/rollout/label-sync.ts';
import { isLevel, type Level } from '../../policy/pss/policy.ts';
import type { Io } from '../command.ts';
import {
  assumptionBlocks,
  createProgress,
  printable,
  printColumns,
  printData,
  styleOf,
  type Style,
} from '../output/print.ts';
import type { RolloutFacts, NamespaceCounts, PlannedNamespace } from './gather.ts';

/** Next steps for a namespace with violations, or with an inconclusive evaluation. */
function nextSteps({ name, verdict, categories, level }: NamespaceEvaluation): readonly string[] {
  if (verdict === 'inconclusive') return ['Resolve the error, so that the namespace can be evaluated.'];
  const target: Target = { name, weaker: level === 'baseline' ? 'privileged' : 'LEVEL' };
  return categories.map((category) => STEPS[category](target));
}

/** A namespace and a level that is weaker than the planned level; `LEVEL` if there are two. */
interface Target {
  readonly name: string;
  readonly weaker: string;
}

const STEPS: Readonly<Record<Category, (target: Target) => string>> = {
  runLevelZero: ({ name }) => `The namespace belongs to the cluster: ${labelCommand({ name, weaker: 'privileged' })}.`,
  openshift: (target) =>
    `The namespace belongs to the platform, and its labels are not managed: ${labelCommand(target)}; or enable label management: kubectl label namespace/${target.name} ${LABEL_SYNC_LABEL}=true.`,
  disabledSyncer: (target) =>
    `Its labels are not managed: enable label management with kubectl label namespace/${target.name} ${LABEL_SYNC_LABEL}-; or set a level: ${labelCommand(target)}.`,
  userSCC: ({ name }) =>
    `Pods were admitted only because of their creators' permissions: grant the SCC to the service account (portcullis scc plan -n ${name} --bindings FILE), or change the workloads.`,
  unknown: (target) => `Change the workloads; or set a weaker level: ${labelCommand(target)}.`,
};

function labelCommand({ name, weaker }: Target): string {
  const choice = weaker === 'LEVEL' ? ' (LEVEL: baseline or privileged)' : '';
  return `kubectl label namespace/${name} ${POD_SECURITY_LABELS.enforce}=${weaker}${choice}`;
}

/**
 * Computes the effect of enforcement on each namespace, except on terminating ones. Prints the progress to a terminal.
 * Rejects if the signal is aborted.
 */
export async function planNamespaces(facts: RolloutFacts, io: Io, only?: string): Promise<readonly PlannedNamespace[]> {
  const plan = createNamespacePlanner(facts);
  const namespaces = facts.store
    .list('Namespace')
    .filter((namespace) => !isTerminating(namespace))
    .filter((namespace) => only === undefined || nameOf(namespace) === only)
    .toSorted((a, b) => compareBytes(nameOf(a), nameOf(b)));
  const progress = createProgress(io.stderr);
  const planned: PlannedNamespace[] = [];
  try {
    for (const [index, namespace] of namespaces.entries()) {
      progress.show(`Evaluating ${printable(nameOf(namespace))} (${index + 1} of ${namespaces.length})`);
      planned.push(plan(namespace));
      // Yields to signal handlers.
      await setImmediate(undefined, { signal: io.signal });
    }
  } finally {
    progress.clear();
  }
  return planned;
}

/** Counts the namespaces by verdict. */
export function countNamespaces(namespaces: readonly PlannedNamespace[]): NamespaceCounts {
  const count = (verdict: string): number => namespaces.filter((one) => one.verdict === verdict).length;
  const workloads = namespaces.flatMap((one) => one.workloads);
  return {
    namespaces: namespaces.length,
    clean: count('clean'),
    violating: count('violating'),
    inconclusive: count('inconclusive'),
    labeled: count('labeled'),
    exempt: count('exempt'),
    workloads: workloads.length,
    pods: workloads.reduce((sum, { pods }) => sum + pods, 0),
  };
}

function createNamespacePlanner(facts: RolloutFacts): (namespace: Namespace) => PlannedNamespace {
  const { store, podSecurity, management, state } = facts;
  const exemptions = () => podSecurity.configuration.exemptions;
  const evaluator = createNamespaceEvaluator({ exemptions, management });
  const plannedLabel = createLabelPlanner(facts);
  return (namespace) => {
    const name = nameOf(namespace);
    const kept = (current: Level, planned = current) =>
      ({ name, current, planned, categories: [], workloads: [], steps: [] }) as const;
    if (podSecurity.exemptions.namespace(name)) {
      return { ...kept('privileged'), currentSource: 'exemption', verdict: 'exempt' };
    }
    if (!evaluator.isSelected(namespace)) {
      const current = effectiveLevel(namespace.metadata?.labels?.[POD_SECURITY_LABELS.enforce]);
      return { ...kept(current, plannedLabel(namespace)), currentSource: 'label', verdict: 'labeled' };
    }
    const evaluation = finish(evaluator.evaluate(namespace, store));
    const { verdict, categories, workloads, error } = evaluation;
    return {
      name,
      current: state.enforce,
      currentSource: 'default',
      planned: evaluator.predictLevel(namespace, store),
      verdict,
      categories,
      reason: violationReason(categories),
      workloads,
      error,
      steps: nextSteps(evaluation),
    };
  };
}

/** The label that the syncer sets on a labeled namespace; `undefined` if the label does not change. */
function createLabelPlanner({ store, management }: RolloutFacts): (namespace: Namespace) => Level | undefined {
  const sccLevels = createSccLevelCache();
  return (namespace) => {
    const accounts = store.list('ServiceAccount', nameOf(namespace));
    const { apply } = planLabels({
      namespace,
      serviceAccounts: accounts.flatMap(({ metadata }) => metadata?.name ?? []),
      sccLevels: sccLevels(store),
      canUse: canUseScc(store),
      mode: 'Enforce',
      settings: management,
    });
    const label = apply?.metadata?.labels?.[POD_SECURITY_LABELS.enforce];
    return isLevel(label) ? label : undefined;
  };
}

/** An invalid label enforces the level restricted. */
function effectiveLevel(label: string | undefined): Level {
  return isLevel(label) ? label : 'restricted';
}

function finish<T>(steps: Iterator<unknown, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

function nameOf({ metadata }: Namespace): string {
  return metadata?.name ?? '';
}

const VERDICTS: Readonly<Record<PlannedNamespace['verdict'], string>> = {
  clean: 'no violations',
  violating: 'violating',
  inconclusive: 'inconclusive',
  labeled: 'labeled already',
  exempt: 'exempt',
};

/** The table of namespaces. */
export function printNamespaceTable(namespaces: readonly PlannedNamespace[]): string {
  const header = ['NAMESPACE', 'CURRENT', 'PLANNED', 'VERDICT', 'REFUSED', 'REASON'];
  const rows = namespaces.map(({ name, current, currentSource, planned, verdict, workloads, reason, error }) => [
    name,
    `${current} (${currentSource})`,
    planned ?? 'unknown',
    VERDICTS[verdict],
    workloads.length === 0 ? '' : String(workloads.length),
    error ?? reason ?? '',
  ]);
  return printColumns(header, rows);
}

/** True for a namespace with workloads that would be refused, or without a conclusive evaluation. */
export function isBlocking({ verdict }: PlannedNamespace): boolean {
  return verdict === 'violating' || verdict === 'inconclusive';
}

/** One block for each blocking namespace: fields, fixes and next steps. */
export function namespaceBlocks(namespaces: readonly PlannedNamespace[], style: Style): readonly string[] {
  return namespaces.filter(isBlocking).map((namespace) => {
    const { name, planned = 'unknown', workloads, error, steps } = namespace;
    const lines = [
      style('bold', printable(`${name} (${planned})`)),
      ...(error === undefined ? [] : [`  ${printable(error)}`]),
      ...workloads.flatMap((workload) => workloadLines(workload, style)),
      ...steps.map((step) => `  ${style('yellow', 'Next:')} ${printable(step)}`),
    ];
    return `${lines.join('\n')}\n`;
  });
}

function workloadLines({ kind, name, pods, causes, violations }: ViolatingWorkload, style: Style): readonly string[] {
  const running = pods === 0 || kind === 'Pod' ? '' : ` (${pods} running ${pods === 1 ? 'pod' : 'pods'})`;
  const through = causes.includes('user') ? ", admitted only because of its creator's permissions" : '';
  return [
    `  ${style('red', printable(`${kind} ${name}`))}${running}${through}`,
    ...violations.flatMap((violation) => violationLines(violation, style)),
  ];
}

function violationLines({ check, reason, detail, fields, fix }: FixableViolation, style: Style): readonly string[] {
  const why = detail === '' ? reason : `${reason} (${detail})`;
  return [
    `    ${printable(check)}: ${printable(why)}`,
    ...fields.map((field) => `      ${printable(field)}`),
    `      ${style('dim', `Fix: ${printable(fix)}`)}`,
  ];
}

/** `12 namespaces: 9 no violations, 1 violating, 2 labeled already; 3 workloads (7 running pods) would be refused` */
export function printCounts(counts: NamespaceCounts): string {
  const { namespaces, workloads, pods } = counts;
  const parts = (['clean', 'violating', 'inconclusive', 'labeled', 'exempt'] as const)
    .filter((verdict) => counts[verdict] > 0)
    .map((verdict) => `${counts[verdict]} ${VERDICTS[verdict]}`);
  const refused =
    workloads === 0
      ? 'no workload would be refused'
      : `${number(workloads, 'workload')} (${number(pods, 'running pod')}) would be refused`;
  return `${number(namespaces, 'namespace')}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}; ${refused}`;
}

/** `1 pod`, `2 pods` */
export function number(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** The result of a rollout command: data, and the blocks of its table. */
interface RolloutReport {
  readonly data: object;
  /** Blocks between the assumptions and the end, separated by empty lines. */
  blocks(style: Style): readonly string[];
}

/** Prints a report in the format of the option `--output`. */
export function printReport(
  io: Io,
  output: 'table' | 'json' | 'yaml',
  { assumptions }: Pick<RolloutFacts, 'assumptions'>,
  { data, blocks }: RolloutReport,
): void {
  const text =
    output === 'table'
      ? [...assumptionBlocks(assumptions), ...blocks(styleOf(io))].join('\n')
      : printData(output, { ...data, assumptions });
  io.stdout.write(text);
}
