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
import { createProgress, printable, printColumns, type Style } from '../output/print.ts';
import type { RolloutFacts, NamespaceCounts, PlannedNamespace } from './gather.ts';

/** What to do about a namespace in which something would be refused, or that cannot be judged. */
function stepsFor({ name, verdict, categories, level }: NamespaceEvaluation): readonly string[] {
  if (verdict === 'inconclusive') return ['See to it that the namespace can be judged.'];
  const place: Place = { name, weaker: level === 'baseline' ? 'privileged' : 'LEVEL' };
  return categories.map((category) => STEPS[category](place));
}

/** A namespace, and the level that would admit more than the one to come; where there are two, a placeholder. */
interface Place {
  readonly name: string;
  readonly weaker: string;
}

const STEPS: Readonly<Record<Category, (place: Place) => string>> = {
  runLevelZero: ({ name }) => `It belongs to the cluster: ${labelled({ name, weaker: 'privileged' })}.`,
  openshift: (place) =>
    `It belongs to the platform, whose labels are not kept by this program: ${labelled(place)}; or let them be kept: kubectl label namespace/${place.name} ${LABEL_SYNC_LABEL}=true.`,
  disabledSyncer: (place) =>
    `Its labels are not kept: let them be kept with kubectl label namespace/${place.name} ${LABEL_SYNC_LABEL}-; or give it a level: ${labelled(place)}.`,
  userSCC: ({ name }) =>
    `Pods got in by the rights of users: grant the SCC to their service account (portcullis scc plan -n ${name} --bindings FILE), or change the workloads.`,
  unknown: (place) => `Change the workloads; or give the namespace a weaker level: ${labelled(place)}.`,
};

function labelled({ name, weaker }: Place): string {
  const choice = weaker === 'LEVEL' ? ', LEVEL being baseline or privileged' : '';
  return `kubectl label namespace/${name} ${POD_SECURITY_LABELS.enforce}=${weaker}${choice}`;
}

/**
 * Says of each namespace what enforcement would bring; shows how far it is on a terminal, and ends when the process is asked
 * to. Namespaces that are on their way out are left out.
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
      // Evaluating is work without pause: let signals in.
      await setImmediate(undefined, { signal: io.signal });
    }
  } finally {
    progress.clear();
  }
  return planned;
}

/** How many namespaces there are of each kind. */
export function countNamespaces(namespaces: readonly PlannedNamespace[]): NamespaceCounts {
  const count = (verdict: string): number => namespaces.filter((one) => one.verdict === verdict).length;
  const workloads = namespaces.flatMap((one) => one.workloads);
  return {
    namespaces: namespaces.length,
    clean: count('clean'),
    violating: count('violating'),
    inconclusive: count('inconclusive'),
    labelled: count('labelled'),
    exempt: count('exempt'),
    workloads: workloads.length,
    pods: workloads.reduce((sum, { pods }) => sum + pods, 0),
  };
}

function createNamespacePlanner(facts: RolloutFacts): (namespace: Namespace) => PlannedNamespace {
  const { store, podSecurity, management, state } = facts;
  const exemptions = () => podSecurity.configuration.exemptions;
  const evaluator = createNamespaceEvaluator({ exemptions, management });
  const labelToCome = createLabelForecast(facts);
  return (namespace) => {
    const name = nameOf(namespace);
    const nothing = { name, categories: [], workloads: [], steps: [] } as const;
    if (podSecurity.exemptions.namespace(name)) {
      return { ...nothing, today: 'privileged', todayBy: 'exemption', toCome: 'privileged', verdict: 'exempt' };
    }
    if (!evaluator.isSelected(namespace)) {
      const today = heldTo(namespace.metadata?.labels?.[POD_SECURITY_LABELS.enforce]);
      return { ...nothing, today, todayBy: 'label', toCome: labelToCome(namespace) ?? today, verdict: 'labelled' };
    }
    const evaluation = finish(evaluator.evaluate(namespace, store));
    const level = evaluator.predictLevel(namespace, store);
    return {
      ...nothing,
      today: state.enforce,
      todayBy: 'default',
      ...(level === undefined ? {} : { toCome: level }),
      ...findingsOf(evaluation),
      steps: stepsFor(evaluation),
    };
  };
}

function findingsOf({ verdict, categories, workloads, error }: NamespaceEvaluation) {
  const reason = violationReason(categories);
  return {
    verdict,
    categories,
    ...(reason === undefined ? {} : { reason }),
    workloads,
    ...(error === undefined ? {} : { error }),
  };
}

/** The label that a labelled namespace would get; `undefined` if it keeps the one it has. */
function createLabelForecast({ store, management }: RolloutFacts): (namespace: Namespace) => Level | undefined {
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

/** A label that names no level holds to the strictest. */
function heldTo(label: string | undefined): Level {
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

/** A line for each namespace. */
export function printNamespaceTable(namespaces: readonly PlannedNamespace[]): string {
  const header = ['NAMESPACE', 'TODAY', 'TO COME', 'VERDICT', 'REFUSED', 'REASON'];
  return printColumns(header, namespaces.map(cellsOf));
}

function cellsOf({ name, today, todayBy, toCome, verdict, workloads, reason, error }: PlannedNamespace): string[] {
  const refused = workloads.length === 0 ? '' : String(workloads.length);
  return [name, `${today} (${todayBy})`, toCome ?? 'unknown', verdict, refused, error ?? reason ?? ''];
}

/** Of each namespace that is in the way what is wrong, where, how to fix it, and what to do; one block each. */
export function namespaceBlocks(namespaces: readonly PlannedNamespace[], style: Style): readonly string[] {
  return namespaces
    .filter(({ verdict }) => verdict === 'violating' || verdict === 'inconclusive')
    .map((namespace) => {
      const { name, toCome = 'unknown', workloads, error, steps } = namespace;
      const lines = [
        style('bold', printable(`${name} (${toCome})`)),
        ...(error === undefined ? [] : [`  ${printable(error)}`]),
        ...workloads.flatMap((workload) => workloadLines(workload, style)),
        ...steps.map((step) => `  ${style('yellow', 'To do:')} ${printable(step)}`),
      ];
      return `${lines.join('\n')}\n`;
    });
}

function workloadLines({ kind, name, pods, causes, violations }: ViolatingWorkload, style: Style): readonly string[] {
  const running = pods === 0 ? '' : `, ${pods} ${pods === 1 ? 'pod' : 'pods'}`;
  const through = causes.includes('user') ? ', let in by the rights of users' : '';
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

/** `12 namespaces: 9 clean, 1 violating, 2 labelled; 3 workloads with 7 pods would be refused` */
export function printCounts(counts: NamespaceCounts): string {
  const { namespaces, workloads, pods } = counts;
  const parts = (['clean', 'violating', 'inconclusive', 'labelled', 'exempt'] as const)
    .filter((verdict) => counts[verdict] > 0)
    .map((verdict) => `${counts[verdict]} ${verdict}`);
  const refused =
    workloads === 0
      ? 'nothing would be refused'
      : `${number(workloads, 'workload')} with ${number(pods, 'pod')} would be refused`;
  return `${number(namespaces, 'namespace')}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}; ${refused}`;
}

/** `1 pod`, `2 pods` */
export function number(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
