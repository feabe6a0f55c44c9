/** The current state of the enforcement rollout, what blocks it, and the next steps. */
import type { Condition, ConditionState } from '../../kube/conditions.ts';
import {
  ENFORCEMENT_MODES,
  type EnforcementMode,
  isEnforcementMode,
  PSA_ENFORCEMENT_CONFIG,
  type PSAEnforcementConfig,
} from '../../kube/psa-enforcement-config.ts';
import { printCount, quote, summarizeNames } from '../../kube/text.ts';
import { parseTimestamp } from '../../kube/units.ts';
import { EVALUATE_ANNOTATION } from '../../kube/well-known.ts';
import type { Level } from '../pss/index.ts';
import type { SccMode } from '../scc/index.ts';
import { currentConditions, findNextRaise, printRaiseTimes, type RaiseTimes } from './enforcement-conditions.ts';
import {
  defaultInForce,
  type DefaultLevel,
  type EvaluationResult,
  getEvaluationResult,
  planEffect,
  type PublishedLevel,
  readEnforcement,
  type SyncerMode,
} from './enforcement.ts';
import { ENFORCEMENT_GATE } from './feature-gate.ts';
import type { NamespaceCounts } from './plan.ts';
import { isPastDate, type RolloutSettings } from './settings.ts';

/** The rollout state of one replica. */
export interface RolloutView {
  readonly gate: boolean;
  /** True if enforcement is currently desired. */
  readonly want: boolean;
  /** The published level for unlabeled namespaces. */
  readonly published: DefaultLevel;
  /** Generation of the published configuration, or 0 if nothing has been published yet. */
  readonly generation: number;
  /** The published label syncer mode, or `Hold` if nothing has been published yet. */
  readonly syncer: SyncerMode;
  /**
   * The level that this replica enforces. A replica lowers it on its own, but raises it only when the leader publishes
   * it.
   */
  readonly enforce: DefaultLevel;
}

/** The replicas, based on their Leases. */
interface Replicas {
  /** Number of replicas that have renewed their Lease. */
  readonly running: number;
  /** Holder of the leader election Lease. Absent if the Lease has expired. */
  readonly leader?: string | undefined;
}

/** The current state of the rollout. Times are in RFC 3339 format. */
export interface RolloutState extends Pick<RolloutSettings, 'phase'>, RaiseTimes, RolloutView {
  /** The announced enforcement date, unless it has passed. */
  readonly enforcementDate?: string | undefined;
  readonly sccMode: SccMode;
  /** The level for namespaces without a label. */
  readonly default: Level;
  /** Absent if the Leases are unknown. */
  readonly replicas?: Replicas | undefined;
  /** The leader's stored evaluation. */
  readonly evaluation: EvaluationResult;
  /** `spec.enforcementMode`. Absent if there is no PSAEnforcementConfig. */
  readonly requested?: string | undefined;
  readonly requestedBy?: 'rollout' | 'others' | undefined;
  readonly decided: EnforcementMode;
  readonly lastEvaluationTime?: string | undefined;
  /** Conditions that describe the current state. */
  readonly conditions: readonly ConditionState[];
  /** `status.enforcementMode` of the PSAEnforcementConfig, if it no longer applies. */
  readonly outdatedMode: EnforcementMode;
  /** PSAEnforcementConfig conditions that differ from the current state. */
  readonly outdatedConditions: readonly Condition[];
  /** Managed namespaces that need a label before the default can be raised. */
  readonly unlabeled: readonly string[];
}

interface StateInput {
  readonly settings: RolloutSettings;
  readonly view: RolloutView;
  readonly config: PSAEnforcementConfig | undefined;
  readonly sccMode: SccMode;
  /** The level for namespaces without a label. */
  readonly default: Level;
  /** The current time. Absent for manifests, because their age is unknown. */
  readonly nowMs: number | undefined;
  /** The replicas that have renewed their Lease, and the leader. Absent if the Leases are unknown. */
  readonly live: { readonly replicas: readonly PublishedLevel[]; readonly leader: string | undefined } | undefined;
  /** Time when the default was last raised. */
  readonly raisedAt: string | undefined;
  /** Managed namespaces that lack the label they need, and namespaces that have a label from the syncer. */
  readonly labels: { readonly unlabeled: readonly string[]; readonly unreleased: readonly string[] };
}

export function computeState(input: StateInput): RolloutState {
  const { settings, config, nowMs, live, raisedAt, labels } = input;
  const { phase, enforcementDate, raiseSettleMs } = settings;
  const isDisabled = phase === 'Disabled';
  const inactive = { want: false, enforce: 'privileged' } as const;
  const view = { ...input.view, ...(isDisabled && inactive) };
  const modes = readEnforcement(config);
  const storedMs = parseTimestamp(config?.status?.lastEvaluationTime);
  const evaluation = getEvaluationResult({
    status: config?.status,
    nowMs: nowMs ?? storedMs ?? 0,
    maxAgeMs: settings.maxEvaluationAgeMs,
    inconclusivePolicy: settings.inconclusivePolicy,
  });
  const published = { level: view.published, generation: view.generation };
  const replicas = live?.replicas ?? [published];
  const currentEnforce = defaultInForce(published, replicas, raisedAt !== undefined);
  const effect = planEffect({ want: view.want, currentEnforce, isSettled: false });
  const raise = { raiseSettleMs, nextRaiseTime: findNextRaise(parseTimestamp(raisedAt), nowMs) };
  const current = currentConditions({
    ...modes,
    ...effect,
    ...labels,
    phase,
    evaluation,
    replicas,
    currentEnforce,
    gate: view.gate,
    want: view.want,
    generation: view.generation,
    raise,
  }).filter(({ type }) => CURRENT_CONDITIONS.has(type));
  const conditions = isDisabled ? [] : current;
  // No mode applies in the Evaluate phase.
  const decided = phase === 'Evaluate' ? '' : modes.status;
  return {
    ...view,
    phase,
    enforcementDate: isAnnounced(enforcementDate, nowMs) ? enforcementDate : undefined,
    sccMode: input.sccMode,
    default: input.default,
    replicas: live && { running: live.replicas.length, leader: live.leader },
    requested: config && modes.spec,
    requestedBy: modes.specOwner,
    decided,
    outdatedMode: decided === modes.status && !isDisabled ? '' : modes.status,
    lastEvaluationTime: config?.status?.lastEvaluationTime ?? undefined,
    evaluation,
    ...raise,
    conditions,
    outdatedConditions: findOutdated(config?.status?.conditions ?? [], conditions),
    unlabeled: labels.unlabeled,
  };
}

function isAnnounced(date: string | undefined, nowMs: number | undefined): boolean {
  return date !== undefined && (nowMs === undefined || !isPastDate(date, new Date(nowMs)));
}

/** Conditions that the state determines. All other conditions describe the leader's evaluation. */
const CURRENT_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing', 'LegacyProposed', 'SpecInvalid']);

/** Finds the stored conditions that contradict the current ones. Messages may differ. */
function findOutdated(stored: readonly Condition[], current: readonly ConditionState[]): readonly Condition[] {
  return stored.filter(({ type, status, reason }) => {
    const now = current.find((condition) => condition.type === type);
    const isSame = now === undefined ? status === 'False' : now.status === status && now.reason === reason;
    return CURRENT_CONDITIONS.has(type) && !isSame;
  });
}

/** The states of a rollout. `Blocked` requires an action of a user. While `Evaluating`, enforcement has not started. */
type RolloutStateName = 'Off' | 'Evaluating' | 'Blocked' | 'Enforcing';

/** The state of a rollout with its reasons, and the next action. Each reason is a clause, and the action a sentence. */
export interface RolloutStatus {
  readonly state: RolloutStateName;
  readonly reasons: readonly string[];
  /** Absent if there is nothing to do. */
  readonly next?: string | undefined;
}

export const CONFIG = `psaenforcementconfig ${PSA_ENFORCEMENT_CONFIG}`;
const CLEAR = `Resume it: kubectl patch ${CONFIG} --type=merge -p '{"spec":{"enforcementMode":""}}'.`;
const EVALUATE = `Evaluate all namespaces: kubectl annotate ${CONFIG} --overwrite ${EVALUATE_ANNOTATION}=$(date -u +%Y-%m-%dT%H:%M:%SZ).`;

const EVALUATE_NEXT: Readonly<Record<EvaluationResult, readonly [blocker: string, next: string]>> = {
  never: ['no complete evaluation of all namespaces exists', EVALUATE],
  stale: ['the last complete evaluation of all namespaces is too old', EVALUATE],
  inconclusive: ['the leader could not evaluate all namespaces', EVALUATE],
  violations: ['the last evaluation of the leader found violations', EVALUATE],
  clean: ['the leader has not decided yet', 'Wait until the leader evaluates all namespaces again and decides.'],
};

/** Computes the state of the rollout, and the next action, from which all others follow. */
export function rolloutStatus(state: RolloutState, counts: NamespaceCounts): RolloutStatus {
  const { phase, requested = '', requestedBy, decided, gate, replicas, evaluation } = state;
  if (phase === 'Disabled') {
    return status('Off', 'no level is planned', 'Set spec.rollout.phase of the PortcullisConfiguration to Evaluate.');
  }
  if (replicas !== undefined && replicas.leader === undefined) {
    const reason = 'there is no leader, so nothing is evaluated or decided';
    return status('Blocked', reason, 'Find the cause with portcullis doctor.');
  }
  if (!isEnforcementMode(requested)) {
    const valid = ENFORCEMENT_MODES.map(quote).join(', ');
    const reason = `spec.enforcementMode is ${quote(requested)}, which is invalid`;
    return status('Blocked', reason, `Set it to one of ${valid}.`);
  }
  const { reasons, blocking, other } = findingsStatus(counts);
  const isLegacy = requested === 'Legacy';
  if (phase === 'Enforce' && decided === 'Restricted' && !isLegacy) {
    return isEnforcing(state) ? { state: 'Enforcing', reasons: [], next: blocking ?? other } : pendingStatus(state);
  }
  // Portcullis proposes Legacy because of the violations, which are the reason.
  const isConsequence = requestedBy === 'rollout' && reasons.length > 0;
  const requests = isLegacy && !isConsequence ? [printLegacy(state)] : [];
  const clear = isLegacy ? CLEAR : undefined;
  if (phase === 'Evaluate') {
    const found = [...reasons, ...requests];
    const next = blocking ?? clear ?? TO_ENFORCE;
    return { state: 'Evaluating', reasons: found.length === 0 ? ['no workload would be denied'] : found, next };
  }
  const all = [...reasons, ...requests, ...(gate ? [] : [FEATURE_OFF])];
  if (all.length > 0) return { state: 'Blocked', reasons: all, next: blocking ?? clear ?? ENABLE_FEATURE };
  return status('Evaluating', ...EVALUATE_NEXT[requested === 'Restricted' ? 'clean' : evaluation]);
}

const TO_ENFORCE = 'Set spec.rollout.phase of the PortcullisConfiguration to Enforce.';
const FEATURE_OFF = `the ${ENFORCEMENT_GATE} feature is off`;
const ENABLE_FEATURE = `Enable the ${ENFORCEMENT_GATE} feature.`;

function isEnforcing({ conditions }: RolloutState): boolean {
  return conditions.some(({ type, status }) => type === 'Enforcing' && status === 'True');
}

/** Returns the status after the decision to enforce, before enforcement is in effect. */
function pendingStatus(state: RolloutState): RolloutStatus {
  const { gate, unlabeled, published } = state;
  if (!gate) return status('Blocked', FEATURE_OFF, ENABLE_FEATURE);
  if (published === 'restricted') {
    return status('Evaluating', 'not every replica enforces the restricted default yet', 'Wait for the replicas.');
  }
  if (unlabeled.length > 0) {
    const reason = `${printCount(unlabeled.length, 'namespace')} without a label: ${summarizeNames(unlabeled)}`;
    return status('Evaluating', reason, 'Wait for the labels. Errors are reported as events in the namespaces.');
  }
  const next = `Wait. The default becomes restricted ${printRaiseTimes(state)}.`;
  return status('Evaluating', 'the default level is raised after a wait', next);
}

/**
 * Returns the findings that block enforcement, and the first action for them. The other action does not block
 * enforcement, because enforcement does not affect workloads that are denied now or need a restart.
 */
function findingsStatus({ violating, inconclusive, workloads }: NamespaceCounts) {
  const { deniedNow, wouldBeDenied, restart } = workloads;
  const PLAN = 'portcullis rollout plan -o wide';
  const reasons = [
    ...(violating === 0
      ? []
      : [
          `${printCount(wouldBeDenied.workloads, 'workload')} in ${printCount(violating, 'namespace')} would be denied`,
        ]),
    ...(inconclusive === 0 ? [] : [`${printCount(inconclusive, 'namespace')} cannot be evaluated`]),
  ];
  const [blocking] = [
    ...(violating === 0 ? [] : [`Follow the next steps for each namespace: ${PLAN}.`]),
    ...(inconclusive === 0 ? [] : ['Resolve the errors of the namespaces that cannot be evaluated.']),
  ];
  const verb = deniedNow.workloads === 1 ? 'is' : 'are';
  const [other] = [
    ...(deniedNow.workloads === 0
      ? []
      : [`Fix ${printCount(deniedNow.workloads, 'workload')} that ${verb} denied now: ${PLAN}.`]),
    ...(restart.workloads === 0
      ? []
      : [`Restart ${printCount(restart.workloads, 'workload')} whose new pods comply: ${PLAN}.`]),
  ];
  return { reasons, blocking, other };
}

function printLegacy({ requestedBy }: RolloutState): string {
  const reason = requestedBy === 'rollout' ? 'an evaluation found violations' : 'spec.enforcementMode requests Legacy';
  return `enforcement is paused, because ${reason}`;
}

function status(state: RolloutStateName, reason: string, next: string): RolloutStatus {
  return { state, reasons: [reason], next };
}

/** A step in the enforcement rollout. */
export interface RolloutStep {
  readonly name: string;
  readonly state: 'done' | 'current' | 'waiting';
  readonly detail: string;
}

/** Returns the rollout steps. The first unfinished step is the current one. */
export function rolloutSteps(state: RolloutState, counts: NamespaceCounts): readonly RolloutStep[] {
  const { phase } = state;
  const denied = `${printCount(counts.workloads.wouldBeDenied.workloads, 'workload')} in ${printCount(counts.violating, 'namespace')}`;
  const evaluated =
    counts.inconclusive === 0 ? printCount(counts.namespaces, 'namespace') : `${counts.inconclusive} inconclusive`;
  const steps: readonly (readonly [name: string, isDone: boolean, detail: string])[] = [
    ['Evaluate', phase !== 'Disabled' && counts.inconclusive === 0, phase === 'Disabled' ? 'off' : evaluated],
    ['Fix', counts.violating === 0, counts.violating === 0 ? 'no violations' : denied],
    ['Enforce', isEnforcing(state), `default ${state.default}`],
  ];
  const current = steps.findIndex(([, isDone]) => !isDone);
  return steps.map(([name, isDone, detail], index) => {
    return { name, detail, state: isDone ? 'done' : index === current ? 'current' : 'waiting' };
  });
}
