import { type EnforcementMode, isEnforcementMode } from '../../kube/psa-enforcement-config.ts';
import { quote, summarizeNames } from '../../kube/text.ts';
import {
  planEffect,
  planEnforcement,
  type EvaluationResult,
  ENFORCEMENT_GATE,
} from '../../policy/rollout/enforcement.ts';
import { ROLLOUT_PHASES, type RolloutPhase } from '../../policy/rollout/settings.ts';
import { getSyncState } from '../../policy/rollout/label-sync.ts';
import { LEVELS } from '../../policy/pss/policy.ts';
import { countNamespaces, type NamespaceCounts, type PlannedNamespace } from '../../policy/rollout/plan.ts';
import {
  gatherRollout,
  namespaceSections,
  planNamespaces,
  printNamespaceCounts,
  type RolloutFacts,
  rolloutOptions,
  type RolloutState,
} from './facts.ts';
import { UserError } from '../../config/files.ts';
import { defineCommand, EXIT } from '../command.ts';
import { boolean, oneOf, option } from '../options.ts';
import { assumptionBlocks, printable, printCount, printReport, type Style } from '../output/print.ts';

/** The simulated request. */
interface Scenario {
  readonly mode: EnforcementMode;
  readonly phase: RolloutState['phase'];
  readonly gate: boolean;
}

/** Simulates a request to its end, without writes. */
function simulate(scenario: Scenario, facts: RolloutFacts, namespaces: readonly PlannedNamespace[]) {
  const { state } = facts;
  const counts = countNamespaces(namespaces);
  const { mode, phase, gate } = scenario;
  const decision = planEnforcement({
    phase,
    gate,
    spec: mode,
    status: state.decided,
    specOwner: undefined,
    evaluation: evaluationResult(counts),
    isSettled: false,
    currentEnforce: state.published,
  });
  const { want } = decision;
  const { enforce } = planEffect({ want, currentEnforce: state.published, isSettled: true });
  const decided = { requested: decision.spec, decided: decision.status };
  return {
    ...scenario,
    ...decided,
    /** The resulting default level of namespaces without a label. */
    enforce,
    /** The events in order. */
    events: [
      ...decisionEvents(state, { ...scenario, ...decided }, counts),
      ...(want ? raiseEvents(facts, namespaces) : releaseEvents(facts, enforce)),
    ],
    /** Namespaces with workloads that are denied now or would be denied with enforcement. */
    denying: namespaces.filter(
      ({ verdict, currentSource }) =>
        (verdict === 'violating' && enforce === 'restricted') ||
        (verdict === 'deniedNow' && (enforce === 'restricted' || currentSource === 'label')),
    ),
    summary: counts,
  };
}

type Simulation = ReturnType<typeof simulate>;

function evaluationResult({ violating, inconclusive }: NamespaceCounts): EvaluationResult {
  if (violating > 0) return 'violations';
  return inconclusive > 0 ? 'inconclusive' : 'clean';
}

function decisionEvents(
  state: RolloutState,
  { mode, phase, gate, requested, decided }: Scenario & { readonly requested: string; readonly decided: string },
  { violating, inconclusive }: NamespaceCounts,
): readonly string[] {
  if (phase === 'Disabled') return [`In phase Disabled, only the feature ${ENFORCEMENT_GATE} has an effect.`];
  return [
    ...(mode === '' && phase === 'Enforce' && state.decided !== 'Restricted'
      ? [`All namespaces are evaluated: ${violating} violating, ${inconclusive} inconclusive.`]
      : []),
    ...(requested === mode ? [] : [`spec.enforcementMode becomes ${quote(requested)}.`]),
    decided === state.decided
      ? `status.enforcementMode remains ${quote(decided)}.`
      : `status.enforcementMode becomes ${quote(decided)}.`,
    ...(decided === 'Restricted' && !gate ? [`The feature ${ENFORCEMENT_GATE} is off: nothing is enforced.`] : []),
    ...(mode === '' && phase === 'Enforce' && decided === ''
      ? ['The evaluation is repeated until it is conclusive.']
      : []),
  ];
}

function releaseEvents(facts: RolloutFacts, enforce: RolloutState['enforce']): readonly string[] {
  const released = facts.store
    .list('Namespace')
    .filter((namespace) => getSyncState(namespace, facts.management).ownsEnforceLabel)
    .map(({ metadata }) => metadata?.name ?? '');
  const verb = released.length === 1 ? 'loses' : 'lose';
  return [
    facts.state.published === enforce
      ? 'The default remains privileged.'
      : 'The default becomes privileged at once in every replica.',
    ...(released.length === 0
      ? []
      : [
          `${printCount(released.length, 'namespace')} ${verb} the label that Portcullis set: ${summarizeNames(released)}.`,
        ]),
  ];
}

function raiseEvents(
  { store, management, state }: RolloutFacts,
  namespaces: readonly PlannedNamespace[],
): readonly string[] {
  const isManaged = (name: string): boolean => {
    const namespace = store.get('Namespace', name);
    return namespace !== undefined && getSyncState(namespace, management).isManaged;
  };
  const open = namespaces.filter(({ currentSource }) => currentSource === 'default');
  const labeled = open.filter(({ name }) => isManaged(name));
  const others = open.filter(({ name }) => !isManaged(name)).map(({ name }) => name);
  const levels = LEVELS.map((level) => ({ level, count: labeled.filter(({ planned }) => planned === level).length }))
    .filter(({ count }) => count > 0)
    .map(({ level, count }) => `${count} ${level}`);
  return [
    ...(labeled.length === 0
      ? ['No namespace needs a label.']
      : [
          `${printCount(labeled.length, 'namespace')} ${labeled.length === 1 ? 'is' : 'are'} labeled: ${levels.join(', ')}.`,
        ]),
    state.published === 'restricted'
      ? 'The default remains restricted.'
      : `The default becomes restricted after all labels have existed for ${state.raiseSettleMs / 1000}s${state.nextRaiseTime === undefined ? '' : `, and not before ${state.nextRaiseTime}`}.`,
    ...(others.length === 0
      ? []
      : [
          `${printCount(others.length, 'namespace')} without a label ${others.length === 1 ? 'gets' : 'get'} the default: ${summarizeNames(others)}.`,
        ]),
  ];
}

const DETAILS = `
Simulates a request for an enforcement mode: the decision, the changes of labels and of the default, and
the workloads that would be denied when their pods are created again. The command changes nothing.

Exit codes:
  0  no workload is or would be denied
  1  some workloads are or would be denied
  2  wrong usage, or the input cannot be read

Examples:
  portcullis rollout simulate --mode Restricted
  portcullis rollout simulate --mode Legacy
  portcullis rollout simulate --mode '' --phase Enforce -f exported/ --scc-mode enforce
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...rolloutOptions,
    mode: option('MODE', enforcementMode, 'Restricted', {
      help: "Requested spec.enforcementMode: Restricted, Legacy, or '' for a decision by evaluation",
    }),
    phase: option('PHASE', oneOf<RolloutPhase>(ROLLOUT_PHASES), 'Enforce', {
      help: `Simulated phase: ${ROLLOUT_PHASES.join(', ')}`,
    }),
    'feature-gate': option('BOOL', boolean, undefined, {
      help: 'State of the feature OpenShiftPodSecurityAdmission. Default: its current state, or true without a FeatureGate',
    }),
  },
  async run(options, _operands, io) {
    const facts = await gatherRollout(options, io, new Date());
    const namespaces = await planNamespaces(facts, io);
    const { mode, phase, output } = options;
    const { assumptions, settingsSource: settings } = facts;
    const hasGate = facts.store.get('FeatureGate', 'cluster') !== undefined;
    const gate = options['feature-gate'] ?? (hasGate ? facts.state.gate : true);
    const simulation = simulate({ mode, phase, gate }, facts, namespaces);
    printReport(io, output, { ...simulation, settings, assumptions }, (style) => [
      ...assumptionBlocks(assumptions, settings),
      printEvents(simulation),
      ...namespaceSections(simulation.denying, { output }, style),
      printOutcome(simulation, style),
    ]);
    return simulation.denying.length === 0 ? EXIT.passed : EXIT.violations;
  },
});

function enforcementMode(value: string): EnforcementMode {
  if (isEnforcementMode(value)) return value;
  throw new UserError("must be one of Restricted, Legacy, ''");
}

function printEvents({ mode, phase, events }: Simulation): string {
  const title = `With spec.enforcementMode ${quote(mode)} in phase ${phase}:`;
  return [title, ...events.map((event, index) => `  ${index + 1}. ${printable(event)}`), ''].join('\n');
}

function printOutcome({ denying, enforce }: Simulation, style: Style): string {
  if (enforce === 'privileged' && denying.length === 0)
    return `${style('bold', 'No workload would be denied: enforcement is off')}\n`;
  return `${style('bold', printNamespaceCounts(countNamespaces(denying)))}\n`;
}
