/**
 * Rollout phases, in order. `Disabled` has no planned levels, `Evaluate` evaluates planned levels, and `Enforce` also
 * enforces them.
 */
export const ROLLOUT_PHASES = ['Disabled', 'Evaluate', 'Enforce'] as const;
export type RolloutPhase = (typeof ROLLOUT_PHASES)[number];

/** Settings of the enforcement rollout. */
export interface RolloutSettings {
  readonly phase: RolloutPhase;
  /** Announced enforcement date, such as `2027-01-31`. Only previews use it. */
  readonly enforcementDate?: string;
  /** Interval between evaluations of all namespaces. */
  readonly evaluationIntervalMs: number;
  /** Maximum age of an evaluation on which decisions are based. It is twice the interval. */
  readonly maxEvaluationAgeMs: number;
  /** API group of the reports if the cluster serves both groups. */
  readonly reportApi: 'openreports.io' | 'wgpolicyk8s.io';
  /** Time for which all namespaces must have had their labels before the default level is raised. */
  readonly raiseSettleMs: number;
}

/** Returns true if the day, such as `2027-01-31`, is over in UTC. */
export function isPastDate(date: string, now: Date): boolean {
  return date < now.toISOString().slice(0, 10);
}

export const DEFAULT_ROLLOUT: RolloutSettings = {
  phase: 'Disabled',
  evaluationIntervalMs: 4 * 3_600_000,
  maxEvaluationAgeMs: 8 * 3_600_000,
  raiseSettleMs: 30_000,
  reportApi: 'openreports.io',
};
