/** The phases of the rollout, in order: no evaluation; evaluation; evaluation and enforcement. */
export const ROLLOUT_PHASES = ['Disabled', 'Evaluate', 'Enforce'] as const;
export type RolloutPhase = (typeof ROLLOUT_PHASES)[number];

/** Whether an evaluation without a verdict for some namespaces blocks enforcement. */
export type InconclusivePolicy = 'Block' | 'Ignore';

/** `InProcess`: Portcullis evaluates namespaces. `DryRun`: the API server does so, by dry runs of labels. */
export type Evaluator = 'InProcess' | 'DryRun';

/** Settings of the rollout of enforcement. */
export interface RolloutSettings {
  readonly phase: RolloutPhase;
  /** The announced date of enforcement (`2027-01-31`). Previews contain it; it has no other effect. */
  readonly enforcementDate?: string;
  /** Interval between evaluations of all namespaces. */
  readonly evaluationIntervalMs: number;
  /** Older evaluations have no effect on decisions. */
  readonly maxEvaluationAgeMs: number;
  /** Whether a decision to enforce requires a recent evaluation. */
  readonly recheckBeforeEnforce: boolean;
  readonly inconclusivePolicy: InconclusivePolicy;
  /** How long all namespaces must have had their labels before the default level is raised. */
  readonly raiseSettleMs: number;
  readonly evaluator: Evaluator;
  /** Rate of dry runs per second, and their burst. */
  readonly clientQps: number;
  readonly clientBurst: number;
  /** Feature gates by name, for clusters without a FeatureGate object. A gate without an entry is on in phase `Enforce`. */
  readonly featureGates: ReadonlyMap<string, boolean>;
}

/** True if the day (`2027-01-31`, UTC) is over. */
export function isPastDate(date: string, now: Date): boolean {
  return date < now.toISOString().slice(0, 10);
}

export const DEFAULT_ROLLOUT: RolloutSettings = {
  phase: 'Disabled',
  evaluationIntervalMs: 4 * 3_600_000,
  maxEvaluationAgeMs: 8 * 3_600_000,
  recheckBeforeEnforce: true,
  inconclusivePolicy: 'Block',
  raiseSettleMs: 30_000,
  evaluator: 'InProcess',
  clientQps: 2,
  clientBurst: 2,
  featureGates: new Map(),
};
