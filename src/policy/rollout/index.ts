/**
 * Rolls out enforcement of the Pod Security Standards. Syncs labels, evaluates namespaces, decides on enforcement, and
 * reports results.
 */
export {
  type AffectedNamespaces,
  type AffectingKind,
  findAffectedNamespaces,
  grantedSccs,
  serviceAccountSubjects,
} from './affected-namespaces.ts';
export {
  currentConditions,
  enforcementConditions,
  findNextRaise,
  findPendingPhase,
  phaseConditions,
  printRaiseTimes,
} from './enforcement-conditions.ts';
export {
  defaultInForce,
  type DefaultLevel,
  type EnforcementInput,
  type EnforcementPlan,
  type EvaluationResult,
  enforcementWarning,
  forcedWarning,
  getEvaluationResult,
  isEnforcementDesired,
  planEffect,
  planEnforcement,
  planRaise,
  type PublishedLevel,
  readEnforcement,
  ROLLOUT_MANAGER,
  SYNCER_MODES,
  type SyncerMode,
  buildAdmissionConfiguration,
  podSecurityDefaultsFor,
  ENFORCEMENT_GATE,
  isFeatureOn,
} from './enforcement.ts';
export {
  classify,
  evaluateStepwise,
  type ExceptedWorkload,
  type FixableViolation,
  inconclusive,
  type NamespaceEvaluation,
  type NamespaceInput,
  podOwner,
  type ViolatingWorkload,
  WORKLOAD_VERDICTS,
  type WorkloadVerdict,
} from './evaluation.ts';
export { type LabelSyncInput, type LabelSyncPlan, planLabels, releaseLabels, withWarnLevel } from './label-sync.ts';
export {
  isManaged,
  isRelaxed,
  isTerminating,
  type ManagementSettings,
  managementSettings,
  UNMANAGED_NAMESPACES,
} from './managed-namespaces.ts';
export { createSccAccess, createSccLevels, findNeededLevel, sccLevelProfile, type SccLevels } from './needed-level.ts';
export {
  choosePolicies,
  countNamespaces,
  type NamespaceCounts,
  needsFix,
  type NextStep,
  type PlanContext,
  planExempt,
  planNamespace,
  type PlannedNamespace,
  type PlanScope,
  planUpgrade,
  type Upgrade,
} from './plan.ts';
export {
  formatPreviewWarning,
  isEnforcementPending,
  isEvaluated,
  isSelected,
  predictLevel,
  previewEnforcement,
  previewLabelRevert,
} from './preview.ts';
export { isSweepAwaited, scheduleSweep } from './readiness-schedule.ts';
export {
  type CompletedSweep,
  countFindings,
  decidedConditions,
  decideReadiness,
  isBlocking,
  newlyViolating,
  readinessCondition,
  readinessConditions,
  type ReadinessDecision,
  summarize,
} from './readiness.ts';
export {
  labeledPolicy,
  loweredLabels,
  type ObjectWrite,
  planRelaxation,
  planRestoration,
  remainingLabel,
  restorationProblem,
} from './relaxation.ts';
export {
  buildClusterReport,
  buildReport,
  printExceptions,
  REPORT_APIS,
  REPORT_NAME,
  type ReportApi,
  type ReportedWorkload,
  type ReportOwner,
} from './reports.ts';
export { planRunLevelZero, RUN_LEVEL_ZERO_NAMESPACES } from './label-owners.ts';
export { DEFAULT_ROLLOUT, isPastDate, ROLLOUT_PHASES, type RolloutPhase, type RolloutSettings } from './settings.ts';
export { computeState, type RolloutState, type RolloutStatus, type RolloutStep, type RolloutView } from './state.ts';
export { getSyncState, isAwaitingLabel, type SyncState } from './sync-state.ts';
export { admitTemplatePod, getTemplatePod } from './template-pod.ts';
export {
  AUDIT_RULES,
  type AuditCode,
  type AuditFinding,
  type AuditSeverity,
  auditUserNamespaces,
  findSkew,
  SKEW_RELEASES,
} from './user-namespace-audit.ts';
