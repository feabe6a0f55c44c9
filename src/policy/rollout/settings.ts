import type { RolloutPhase } from './enforcement.ts';

/** What becomes of an evaluation that could not judge every namespace: it holds enforcement back, or not. */
export const INCONCLUSIVE_POLICIES = ['Block', 'Ignore'] as const;
export type InconclusivePolicy = (typeof INCONCLUSIVE_POLICIES)[number];

/** Who judges: this program, or whoever enforces in the cluster, asked by dry runs of labels. */
export const EVALUATORS = ['InProcess', 'DryRun'] as const;
export type Evaluator = (typeof EVALUATORS)[number];

/** How an installation comes to enforce the Pod Security Standards. */
export interface RolloutSettings {
  readonly phase: RolloutPhase;
  /** The day (`2027-01-31`) from which authors of workloads are told to expect enforcement; it switches nothing itself. */
  readonly enforcementDate?: string;
  /** How often all namespaces are evaluated for the record. */
  readonly evaluationIntervalMs: number;
  /** What is older decides nothing. */
  readonly maxEvaluationAgeMs: number;
  /** Whether namespaces are evaluated again before enforcement, if that was too long ago. */
  readonly recheckBeforeEnforce: boolean;
  readonly inconclusivePolicy: InconclusivePolicy;
  /** How long all namespaces must have had their labels before the default is raised. */
  readonly raiseSettleMs: number;
  readonly evaluator: Evaluator;
  /** Of the dry runs: so many a second, and so many at once. */
  readonly clientQps: number;
  readonly clientBurst: number;
  /** Features by name, for clusters without a FeatureGate; what is not named is off, and on in the phase `Enforce`. */
  readonly featureGates: ReadonlyMap<string, boolean>;
}

/** What holds where nothing is said. */
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
