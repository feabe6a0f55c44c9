/**
 * Holding a whole cluster to the Pod Security Standards: whether that is decided, by what, and in which order default and
 * labels follow. Pure: what was evaluated, which features are on and what replicas run comes in as values.
 */
import type { EnforcementMode } from '../../../kube/psa-enforcement-config.ts';

/**
 * How far an installation takes part: not at all; it evaluates and enforces nothing; it decides and enforces. In this order
 * from the first to the last.
 */
export const ROLLOUT_PHASES = ['Disabled', 'Evaluate', 'Enforce'] as const;
export type RolloutPhase = (typeof ROLLOUT_PHASES)[number];

/**
 * What is known of the namespaces. `never`: nothing yet. `stale`: what is known is too old to act on. `inconclusive`: the
 * newest evaluation could not judge all of them.
 */
export const EVALUATION_RESULTS = ['never', 'stale', 'clean', 'violations', 'inconclusive'] as const;
export type EvaluationResult = (typeof EVALUATION_RESULTS)[number];

/** What namespaces are held to that say nothing themselves. */
export type DefaultLevel = 'privileged' | 'restricted';

/**
 * What becomes of labels that enforce. `Enforce`: they are kept. `Hold`: those that are there stay as they are. `Advise`:
 * they are given up. The labels that warn and audit are kept in every mode.
 */
export const SYNCER_MODES = ['Enforce', 'Hold', 'Advise'] as const;
export type SyncerMode = (typeof SYNCER_MODES)[number];

/** What decides about enforcement. */
export interface EnforcementInput {
  readonly phase: RolloutPhase;
  /** Whether the feature is on; absent: not known yet. */
  readonly gate?: boolean | undefined;
  /** What the administrator asks for; may be no mode at all. */
  readonly spec: string;
  /** What was decided last. */
  readonly status: EnforcementMode;
  /** Who wrote `spec.enforcementMode`; a value of others is never overwritten. Absent: nobody. */
  readonly specOwner?: 'rollout' | 'others' | undefined;
  readonly evaluation: EvaluationResult;
  /** Every managed namespace has had its label for long enough. */
  readonly isSettled: boolean;
  /** The default in force: `restricted` if it is published or any replica runs it. */
  readonly currentEnforce: DefaultLevel;
  /** The syncer's mode until now; absent: not known. */
  readonly syncer?: SyncerMode | undefined;
  /** `any age`: a result that is stale counts, and a violation that was not there when it was evaluated does not. */
  readonly acceptEvaluations?: 'fresh' | 'any age';
}

/** What follows. */
export interface EnforcementPlan {
  readonly spec: string;
  readonly status: EnforcementMode;
  /** The default to run. */
  readonly enforce: DefaultLevel;
  readonly syncer: SyncerMode;
  /** True: enforcement is wanted; absent: that cannot be told yet. */
  readonly want?: boolean | undefined;
}
