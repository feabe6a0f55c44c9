export { mergeReadinessConditions, readinessConditions } from './readiness/conditions.ts';
export { verdictOfWarnings } from './readiness/dry-run.ts';
export { evaluateInSteps, evaluateNamespace, type NamespaceInput } from './readiness/evaluate-namespace.ts';
export { measure, type ReadinessMeasures } from './readiness/measures.ts';
export { isSelected, predictedLevelOf } from './readiness/predicted-level.ts';
export { evaluationStatus, summaryOf, type EvaluationStatus } from './readiness/status.ts';
export { templatePodOf, type TemplatePod, type TemplateSurroundings } from './readiness/template.ts';
export type { Category, FixableViolation, NamespaceEvaluation, ViolatingWorkload } from './readiness/types.ts';
export { violationReason, type Sweep } from './readiness/violating-namespaces.ts';
