/** Simulates a request for an enforcement mode. */
import type { EnforcementMode } from '../../kube/psa-enforcement-config.ts';
import { printCount, quote, summarizeNames } from '../../kube/text.ts';
import { LEVELS } from '../pss/policy.ts';
import { ENFORCEMENT_GATE, type EvaluationResult, planEffect, planEnforcement } from './enforcement.ts';
import { countNamespaces, type NamespaceCounts, type PlannedNamespace } from './plan.ts';
import type { RolloutPhase } from './settings.ts';
import type { RolloutState } from './state.ts';

/** The simulated request. */
interface Scenario {
  readonly mode: EnforcementMode;
  readonly phase: RolloutPhase;
  readonly gate: boolean;
}

interface SimulationInput {
  readonly state: RolloutState;
  readonly namespaces: readonly PlannedNamespace[];
  /** Namespaces whose labels the syncer manages, and namespaces that have a label of the syncer. */
  readonly managed: ReadonlySet<string>;
  readonly released: readonly string[];
}

/** Simulates the full effect of a request without writing anything. */
export function simulateEnforcement(scenario: Scenario, input: SimulationInput) {
  const { state, namespaces } = input;
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
    /** The resulting default level for namespaces without a label. */
    enforce,
    /** The events in order. */
    events: [
      ...decisionEvents(state, { ...scenario, ...decided }, counts),
      ...(want ? raiseEvents(input) : releaseEvents(input, enforce)),
    ],
    /** Namespaces with workloads that are denied now or would be denied under enforcement. */
    denying: namespaces.filter(
      ({ verdict, currentSource }) =>
        (verdict === 'violating' && enforce === 'restricted') ||
        (verdict === 'deniedNow' && (enforce === 'restricted' || currentSource === 'label')),
    ),
    summary: counts,
  };
}

export type Simulation = ReturnType<typeof simulateEnforcement>;

function evaluationResult({ violating, inconclusive }: NamespaceCounts): EvaluationResult {
  if (violating > 0) return 'violations';
  return inconclusive > 0 ? 'inconclusive' : 'clean';
}

function decisionEvents(
  state: RolloutState,
  { mode, phase, gate, requested, decided }: Scenario & { readonly requested: string; readonly decided: string },
  { violating, inconclusive }: NamespaceCounts,
): readonly string[] {
  if (phase === 'Disabled') return [`In the Disabled phase, only the ${ENFORCEMENT_GATE} feature has an effect.`];
  return [
    ...(mode === '' && phase === 'Enforce' && state.decided !== 'Restricted'
      ? [`All namespaces are evaluated: ${violating} violating, ${inconclusive} inconclusive.`]
      : []),
    ...(requested === mode ? [] : [`spec.enforcementMode becomes ${quote(requested)}.`]),
    decided === state.decided
      ? `status.enforcementMode remains ${quote(decided)}.`
      : `status.enforcementMode becomes ${quote(decided)}.`,
    ...(decided === 'Restricted' && !gate ? [`The ${ENFORCEMENT_GATE} feature is off, so nothing is enforced.`] : []),
    ...(mode === '' && phase === 'Enforce' && decided === ''
      ? ['The evaluation is repeated until it is conclusive.']
      : []),
  ];
}

function releaseEvents({ state, released }: SimulationInput, enforce: RolloutState['enforce']): readonly string[] {
  const verb = released.length === 1 ? 'loses' : 'lose';
  return [
    state.published === enforce
      ? 'The default remains privileged.'
      : 'The default becomes privileged immediately in every replica.',
    ...(released.length === 0
      ? []
      : [
          `${printCount(released.length, 'namespace')} ${verb} the label that Portcullis set: ${summarizeNames(released)}.`,
        ]),
  ];
}

function raiseEvents({ state, namespaces, managed }: SimulationInput): readonly string[] {
  const open = namespaces.filter(({ currentSource }) => currentSource === 'default');
  const labeled = open.filter(({ name }) => managed.has(name));
  const others = open.filter(({ name }) => !managed.has(name)).map(({ name }) => name);
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
