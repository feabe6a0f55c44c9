/** How far an installation participates: not at all; it only evaluates; it decides and enforces. In this order. */
export const ROLLOUT_PHASES = ['Disabled', 'Evaluate', 'Enforce'] as const;
export type RolloutPhase = (typeof ROLLOUT_PHASES)[number];

/** Whether an evaluation without a verdict for some namespaces blocks enforcement. */
export const INCONCLUSIVE_POLICIES = ['Block', 'Ignore'] as const;
export type InconclusivePolicy = (typeof INCONCLUSIVE_POLICIES)[number];

/** `InProcess`: Portcullis evaluates namespaces. `DryRun`: the API server does, by dry runs of labels. */
export const EVALUATORS = ['InProcess', 'DryRun'] as const;
export type Evaluator = (typeof EVALUATORS)[number];

/** Settings of the rollout of enforcement. */
export interface RolloutSettings {
  readonly phase: RolloutPhase;
  /** The announced date of enforcement (`2027-01-31`). Previews name it; it changes nothing itself. */
  readonly enforcementDate?: string;
  /** Interval between evaluations of all namespaces. */
  readonly evaluationIntervalMs: number;
  /** Older evaluations decide nothing. */
  readonly maxEvaluationAgeMs: number;
  /** Whether a decision to enforce needs a recent evaluation. */
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
