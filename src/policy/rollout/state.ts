/** Computes the current state of the enforcement rollout. */
import type { Condition, ConditionState } from '../../kube/conditions.ts';
import type { EnforcementMode, PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { parseTimestamp } from '../../kube/units.ts';
import type { Level } from '../pss/index.ts';
import type { SccMode } from '../scc/index.ts';
import { currentConditions, findNextRaise, type RaiseTimes } from './enforcement-conditions.ts';
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
import { isPastDate, type RolloutSettings } from './settings.ts';

/** The rollout state as one replica computes it. */
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

/** Summary of the replicas, based on their Leases. */
interface Replicas {
  /** Number of replicas that have renewed their Lease. */
  readonly running: number;
  /** Holder of the leader election Lease. Absent if the Lease has expired. */
  readonly leader?: string | undefined;
}

/** The current state of the rollout. Times are in RFC 3339 format. */
export interface RolloutState extends Pick<RolloutSettings, 'phase'>, RaiseTimes, RolloutView {
  /** Set while break-glass is on, so nothing is enforced. */
  readonly isBreakGlassOn?: true | undefined;
  /** The announced enforcement date, unless it has passed. */
  readonly enforcementDate?: string | undefined;
  readonly sccMode: SccMode;
  /** The level of namespaces without a label. */
  readonly default: Level;
  /** The replicas. Absent if the Leases are unknown. */
  readonly replicas?: Replicas | undefined;
  /** Result of the evaluation that the leader has stored. */
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
  /** The level of namespaces without a label. */
  readonly default: Level;
  readonly isBreakGlassOn?: true | undefined;
  /** The current time. Absent for manifests, because their age is unknown. */
  readonly nowMs: number | undefined;
  /** The replicas that have renewed their Lease, and the leader. Absent if the Leases are unknown. */
  readonly live: { readonly replicas: readonly PublishedLevel[]; readonly leader: string | undefined } | undefined;
  /** Time when the default was last raised, in RFC 3339 format. */
  readonly raisedAt: string | undefined;
  /** Managed namespaces that lack a label that they need, and namespaces that have a label from the syncer. */
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
    isBreakGlassOn: input.isBreakGlassOn,
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

/** Types of conditions that the state determines. All other conditions describe the leader's evaluation. */
const CURRENT_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing', 'LegacyProposed', 'SpecInvalid']);

/** Returns the stored conditions that contradict the current conditions. Their messages may differ. */
function findOutdated(stored: readonly Condition[], current: readonly ConditionState[]): readonly Condition[] {
  return stored.filter(({ type, status, reason }) => {
    const now = current.find((condition) => condition.type === type);
    const isSame = now === undefined ? status === 'False' : now.status === status && now.reason === reason;
    return CURRENT_CONDITIONS.has(type) && !isSame;
  });
}

/**
 * The states of a rollout. In the `Blocked` state, a user must take action. In the `Evaluating` state, enforcement has
 * not started yet.
 */
type RolloutStateName = 'Off' | 'Evaluating' | 'Blocked' | 'Enforcing';

/**
 * The state of a rollout with its reasons, and the next action. Each reason is a clause, and the action is a sentence.
 */
export interface RolloutStatus {
  readonly state: RolloutStateName;
  readonly reasons: readonly string[];
  /** The next action. Absent if there is nothing to do. */
  readonly next?: string | undefined;
}

/** A step in the enforcement rollout. */
export interface RolloutStep {
  readonly name: string;
  readonly state: 'done' | 'current' | 'waiting';
  readonly detail: string;
}
