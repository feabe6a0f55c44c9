/** Computes the conditions that describe the state of enforcement. */
import { type Condition, type ConditionState, readyConditions } from '../../kube/conditions.ts';
import { defined } from '../../kube/defined.ts';
import { ENFORCEMENT_MODES, isEnforcementMode } from '../../kube/psa-enforcement-config.ts';
import { printCount, quote, summarizeNames } from '../../kube/text.ts';
import { formatTimestamp } from '../../kube/units.ts';
import {
  areAllRaised,
  type EnforcementInput,
  type EnforcementPlan,
  type EvaluationResult,
  type PublishedLevel,
  RAISE_INTERVAL_MS,
} from './enforcement.ts';
import type { RolloutPhase } from './settings.ts';

/** The cluster state from which the conditions are computed. */
interface CurrentState
  extends
    Pick<EnforcementInput, 'phase' | 'gate' | 'spec' | 'status' | 'specOwner' | 'evaluation' | 'currentEnforce'>,
    Pick<EnforcementPlan, 'enforce' | 'syncer' | 'want'>,
    Pick<EnforcementFacts, 'unlabeled' | 'unreleased' | 'raise'> {
  readonly generation: number;
  /** The level that each live replica enforces. */
  readonly replicas: readonly PublishedLevel[];
}

/** Condition while replicas switch to a raised default. The default takes effect once every replica enforces it. */
const ROLLING_OUT = {
  status: 'False',
  reason: 'RollingOutConfiguration',
  message: 'replicas are switching to the restricted default level',
} as const;

/** Returns the conditions for the current state without making a new decision. */
export function currentConditions(state: CurrentState): readonly ConditionState[] {
  const { spec, status, want, enforce, syncer, generation, replicas, unlabeled, unreleased = [], raise } = state;
  const isRollingOut = enforce === 'restricted' && !areAllRaised({ level: enforce, generation }, replicas);
  return enforcementConditions({
    input: { ...state, isSettled: false, currentEnforce: isRollingOut ? 'privileged' : state.currentEnforce },
    plan: { spec, status, want, enforce, syncer },
    unlabeled,
    raise,
    unreleased: want ? [] : unreleased,
  }).map((condition) =>
    isRollingOut && condition.type === 'Enforcing' ? { ...condition, ...ROLLING_OUT } : condition,
  );
}

/** The plan, and the additional state that the conditions describe. */
interface EnforcementFacts {
  readonly input: EnforcementInput;
  readonly plan: EnforcementPlan;
  /** Time of the last complete evaluation, in RFC 3339 format. */
  readonly lastEvaluationTime?: string | undefined;
  readonly violating?: readonly string[];
  /** Number of workloads that need a restart because their running pods violate the level. */
  readonly restarts?: number;
  /** Managed namespaces that lack the enforce label. */
  readonly unlabeled?: readonly string[] | undefined;
  /** Namespaces whose enforce label the syncer still has to remove. */
  readonly unreleased?: readonly string[];
  readonly raise?: RaiseTimes | undefined;
}

/** Determines when the default level is raised after all managed namespaces have labels. */
export interface RaiseTimes {
  /** Time for which the labels must have existed. */
  readonly raiseSettleMs: number;
  /**
   * Earliest time of the raise (RFC 3339), which results from the minimum time between raises. Absent if it has passed.
   */
  readonly nextRaiseTime?: string | undefined;
}

/** Formats the times, such as `after all labels have existed for 30s, and not before 2026-11-22T12:05:00Z`. */
export function printRaiseTimes({ raiseSettleMs, nextRaiseTime }: RaiseTimes): string {
  const earliest = nextRaiseTime === undefined ? '' : `, and not before ${nextRaiseTime}`;
  return `after all labels have existed for ${raiseSettleMs / 1000}s${earliest}`;
}

/** Returns the earliest time of the next raise, or `undefined` if it has passed. */
export function findNextRaise(raisedAtMs: number | undefined, nowMs: number | undefined): string | undefined {
  if (raisedAtMs === undefined || nowMs === undefined) return undefined;
  const nextMs = raisedAtMs + RAISE_INTERVAL_MS;
  return nextMs > nowMs ? formatTimestamp(nextMs) : undefined;
}

type State = Omit<ConditionState, 'type'>;

/** Returns the conditions of the PSAEnforcementConfig. Omits conditions that do not apply. */
export function enforcementConditions(facts: EnforcementFacts): readonly ConditionState[] {
  const states: Readonly<Record<string, State | undefined>> = {
    Evaluated: evaluated(facts),
    ViolationsDetected: violationsDetected(facts),
    Enforcing: enforcing(facts),
    Progressing: progressing(facts),
    LegacyProposed: legacyProposed(facts),
    SpecInvalid: specInvalid(facts),
  };
  return Object.entries(states).flatMap(([type, state]) => (state ? [{ type, ...state }] : []));
}

const INCOMPLETE: Readonly<
  Record<EvaluationResult, { readonly reason: string; readonly message: string } | undefined>
> = {
  never: { reason: 'NeverRan', message: 'no evaluation has been completed yet' },
  stale: { reason: 'Stale', message: 'the last evaluation is too old to act on' },
  inconclusive: { reason: 'Inconclusive', message: 'some namespaces could not be evaluated' },
  clean: undefined,
  violations: undefined,
};

function evaluated({ input, lastEvaluationTime }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  const incomplete = INCOMPLETE[input.evaluation];
  if (!incomplete)
    return yes('Completed', lastEvaluationTime && `all namespaces were evaluated at ${lastEvaluationTime}`);
  return no(incomplete.reason, incomplete.message);
}

function violationsDetected({ input, violating = [], restarts = 0 }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  const incomplete = INCOMPLETE[input.evaluation];
  if (incomplete) return { status: 'Unknown', ...incomplete };
  const older =
    restarts === 0
      ? ''
      : `, but running pods of ${printCount(restarts, 'workload')} violate the level until they are restarted`;
  if (input.evaluation === 'clean') {
    return no(restarts === 0 ? 'NoViolations' : 'RestartsPending', `no workload would be denied${older}`);
  }
  return yes(
    'ViolatingNamespaces',
    `workloads in ${printCount(violating.length, 'namespace')} would be denied: ${summarizeNames(violating)}${older}`,
  );
}

function enforcing({ input, plan, ...facts }: EnforcementFacts): State {
  const { phase, gate } = input;
  const { spec, status, enforce } = plan;
  if (phase === 'Evaluate') return no('PhaseNotEnforcing', 'nothing is enforced in the Evaluate phase');
  if (phase === 'Enforce' && status !== 'Restricted') {
    return spec === 'Legacy' || (status === 'Legacy' && !isWaiting(input, plan))
      ? no('LegacyMode', 'nothing is enforced in Legacy mode')
      : no('AwaitingEvaluation', 'enforcement is waiting for an evaluation of all namespaces');
  }
  if (!gate) return no('FeatureGateDisabled', 'the feature gate is off');
  if (enforce === 'restricted') return yes('Restricted', 'the restricted level applies to namespaces without a label');
  const wait = describeWait(facts);
  if (wait !== undefined) return no('AwaitingRaise', wait);
  const names = missing(facts.unlabeled);
  return no('LabelingNamespaces', `the default level is raised after all namespaces are labeled${names}`);
}

function progressing(facts: EnforcementFacts): State {
  const { input, plan, unlabeled, unreleased = [] } = facts;
  const { want, enforce } = plan;
  if (enforce === 'privileged' && input.currentEnforce === 'restricted') {
    return yes('RevertingConfiguration', 'replicas are switching to the privileged default level');
  }
  if (enforce === 'restricted' && input.currentEnforce === 'privileged') {
    return yes('RollingOutConfiguration', 'replicas are switching to the restricted default level');
  }
  if (want && enforce === 'privileged') {
    const wait = describeWait(facts);
    if (wait !== undefined) return yes('AwaitingRaise', wait);
    return yes('LabelingNamespaces', `namespaces are being labeled${missing(unlabeled)}`);
  }
  if (!want && unreleased.length > 0) {
    return yes('ReleasingLabels', `enforce labels are being removed from ${summarizeNames(unreleased)}`);
  }
  if (isWaiting(input, plan))
    return yes('EvaluationPending', 'the decision is waiting for an evaluation of all namespaces');
  return no('AsExpected');
}

/** Describes why the default level has not been raised yet although all managed namespaces have labels. */
function describeWait({ unlabeled, raise }: Pick<EnforcementFacts, 'unlabeled' | 'raise'>): string | undefined {
  if (unlabeled?.length !== 0 || raise === undefined) return undefined;
  return `all managed namespaces have labels, and the default level is raised ${printRaiseTimes(raise)}`;
}

/** Returns true if no mode is requested and no evaluation has determined the mode yet. */
function isWaiting({ phase, evaluation }: EnforcementInput, { spec, status }: EnforcementPlan): boolean {
  return phase === 'Enforce' && spec === '' && status !== 'Restricted' && evaluation !== 'violations';
}

function legacyProposed({ input, plan }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  if (plan.spec === 'Legacy' && (input.spec === '' || input.specOwner === 'rollout')) {
    return yes(
      'WrittenByController',
      input.evaluation === 'clean'
        ? 'no workload would be denied anymore, so spec.enforcementMode can be cleared'
        : 'workloads would be denied, so fix them before you clear spec.enforcementMode',
    );
  }
  if (plan.spec !== '' || input.specOwner !== 'others' || input.evaluation !== 'violations') return undefined;
  return yes('SpecConflict', 'workloads would be denied, but another field manager owns spec.enforcementMode ""');
}

function specInvalid({ input: { phase, spec } }: EnforcementFacts): State | undefined {
  if (phase === 'Disabled' || isEnforcementMode(spec)) return undefined;
  const valid = ENFORCEMENT_MODES.map(quote).join(', ');
  return yes(
    'UnknownEnforcementMode',
    `spec.enforcementMode: ${quote(spec)} is not one of ${valid}, so the state does not change`,
  );
}

/** Reasons for `Enforcing=False` that persist until a user changes the mode, a workload or the feature gate. */
const BLOCKED: readonly string[] = ['LegacyMode', 'FeatureGateDisabled'];

/** Reasons of `Ready=True` in each phase. */
const REACHED: Readonly<Record<RolloutPhase, readonly string[]>> = {
  Disabled: ['Disabled'],
  Evaluate: ['Evaluated'],
  Enforce: ['Enforcing', ...BLOCKED],
};

/** Returns the Ready condition of the PSAEnforcementConfig if it is not true or describes another phase. */
export function findPendingPhase(
  conditions: readonly Condition[],
  phase: RolloutPhase,
): Pick<Condition, 'message'> | undefined {
  const ready = conditions.find(({ type }) => type === 'Ready');
  if (ready?.status !== 'True') return ready ?? { message: 'the leader has not reported the state of the rollout yet' };
  return REACHED[phase].includes(ready.reason) ? undefined : { message: `the ${phase} phase has not started yet` };
}

interface PhaseInput extends Pick<EnforcementInput, 'phase' | 'evaluation' | 'spec' | 'status'> {
  /** The conditions of the current state. */
  readonly states: readonly ConditionState[];
  /** Generation of the PSAEnforcementConfig. */
  readonly generation: number | undefined;
  /** Generation for which the leader has made a decision. */
  readonly decidedGeneration: number | undefined;
}

/**
 * Returns the conditions for tools that wait for the requested phase or for an upgrade. The phase counts as reached
 * once all replicas apply it. It also counts as reached if only a user can continue the rollout, so tools do not time
 * out.
 */
export function phaseConditions(input: PhaseInput): readonly ConditionState[] {
  const { phase, spec, status, generation } = input;
  const isLegacy = phase !== 'Disabled' && (spec === 'Legacy' || (spec === '' && status === 'Legacy'));
  const clear = 'set spec.enforcementMode to "" once no workload would be denied';
  const fix = spec === 'Legacy' ? clear : 'fix the workloads that would be denied';
  const legacy = `the cluster is in Legacy mode, which a later version may not support: ${fix}`;
  return [
    ...readyPhase(input).map((condition) => ({ ...condition, ...defined({ observedGeneration: generation }) })),
    { type: 'Upgradeable', ...(isLegacy ? no('LegacyMode', legacy) : yes('AsExpected')) },
  ];
}

function readyPhase({
  phase,
  evaluation,
  states,
  generation,
  decidedGeneration,
}: PhaseInput): readonly ConditionState[] {
  const find = (type: string, status: string) =>
    states.find((condition) => condition.type === type && condition.status === status);
  const invalid = find('SpecInvalid', 'True');
  if (invalid) return readyConditions('stalled', invalid);
  if (generation !== decidedGeneration) {
    const message = 'the leader has not decided on the current spec yet';
    return readyConditions('reconciling', { reason: 'DecisionPending', message });
  }
  const change = find('Progressing', 'True') ?? (phase === 'Evaluate' ? INCOMPLETE[evaluation] : undefined);
  if (change) return readyConditions('reconciling', change);
  if (phase === 'Disabled') return readyConditions('ready', { reason: 'Disabled', message: 'the rollout has ended' });
  if (phase === 'Evaluate') {
    return readyConditions('ready', { reason: 'Evaluated', message: 'all namespaces have been evaluated' });
  }
  const enforcing = find('Enforcing', 'True');
  if (enforcing) return readyConditions('ready', { ...enforcing, reason: 'Enforcing' });
  const { reason = '', message = '' } = find('Enforcing', 'False') ?? {};
  return readyConditions(BLOCKED.includes(reason) ? 'ready' : 'reconciling', { reason, message });
}

function missing(unlabeled: readonly string[] = []): string {
  return unlabeled.length === 0 ? '' : `; missing: ${summarizeNames(unlabeled)}`;
}

function yes(reason: string, message = ''): State {
  return { status: 'True', reason, message };
}

function no(reason: string, message = ''): State {
  return { status: 'False', reason, message };
}
