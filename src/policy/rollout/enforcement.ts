import { decideEnforcement } from './enforcement/decide.ts';
import { planEffect, wantsEnforcement } from './enforcement/effect.ts';
import type { EnforcementInput, EnforcementPlan } from './enforcement/types.ts';

export { enforcementConditions } from './enforcement/conditions.ts';
export { currentDefault, planEffect, replicaDefault, wantsEnforcement } from './enforcement/effect.ts';
export { evaluationOf, type SweepSummary } from './enforcement/evaluation.ts';
export { ENFORCEMENT_GATE, isFeatureOn } from './enforcement/feature-gate.ts';
export { forcedWarning } from './enforcement/forced-warning.ts';
export { raiseOf, RAISE_INTERVAL_MS, type RaiseInput } from './enforcement/raise.ts';
export { readEnforcement, ROLLOUT_MANAGER } from './enforcement/read.ts';
export {
  EVALUATION_RESULTS,
  ROLLOUT_PHASES,
  type DefaultLevel,
  type EnforcementInput,
  type EnforcementPlan,
  type EvaluationResult,
  type RolloutPhase,
  SYNCER_MODES,
  type SyncerMode,
} from './enforcement/types.ts';

/** Which part of the program changes something. */
export type EnforcementWriter = 'readiness:spec' | 'readiness:status' | 'observer:config';

/** What is to be asked for, decided, run and labelled. What is planned is planned again, until something else changes. */
export function planEnforcement(input: EnforcementInput): EnforcementPlan {
  const { spec, status } = decideEnforcement(input);
  const want = wantsEnforcement({ ...input, status });
  return { spec, status, want, ...planEffect({ ...input, want }) };
}

/** Who has to write for a plan to come true. */
export function writersOf(input: EnforcementInput, plan: EnforcementPlan): readonly EnforcementWriter[] {
  return [
    ...(plan.spec === input.spec ? [] : (['readiness:spec'] as const)),
    ...(plan.status === input.status ? [] : (['readiness:status'] as const)),
    ...(plan.enforce === input.currentEnforce ? [] : (['observer:config'] as const)),
  ];
}
