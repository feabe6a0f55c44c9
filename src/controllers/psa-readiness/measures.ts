import type { RolloutView } from '../../cluster/rollout.ts';
import { INSTALLATION } from '../../kube/installation.ts';
import { ENFORCEMENT_MODES, type PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { readTimestamp } from '../../kube/timestamp.ts';
import { measure, type NamespaceEvaluation } from '../../policy/rollout/readiness.ts';
import type { ReadinessMetrics } from '../../telemetry/rollout.ts';

/** What the object says, as metrics. */
export function measureStatus(metrics: ReadinessMetrics, object: PSAEnforcementConfig, view: RolloutView): void {
  const { status } = object;
  for (const mode of ENFORCEMENT_MODES) {
    metrics.enforcementMode.set({ mode }, (status?.enforcementMode ?? '') === mode ? 1 : 0);
  }
  metrics.enforcing.set(view.enforce === 'restricted' ? 1 : 0);
  metrics.lastEvaluation.set((readTimestamp(status?.lastEvaluationTime) ?? 0) / 1000);
  metrics.progressing.reset();
  metrics.operatorConditions.reset();
  for (const { type, reason, status: isSo } of status?.conditions ?? []) {
    if (type === 'Progressing' && isSo === 'True') metrics.progressing.set({ reason }, 1);
    if (!type.endsWith('EvaluationConditionsDetected')) continue;
    metrics.operatorConditions.set({ name: INSTALLATION.name, condition: type, reason }, isSo === 'True' ? 1 : 0);
  }
}

/** What was found, as metrics. */
export function measureFindings(metrics: ReadinessMetrics, evaluations: readonly NamespaceEvaluation[]): void {
  const { namespaces, workloads } = measure(evaluations);
  for (const [category, count] of Object.entries(namespaces)) metrics.namespaces.set({ category }, count);
  metrics.violatingWorkloads.reset();
  for (const { namespace, count } of workloads) metrics.violatingWorkloads.set({ namespace }, count);
}

/** Who does not lead says nothing, lest two replicas say different things. */
export function forgetMeasures(metrics: ReadinessMetrics): void {
  for (const gauge of [
    metrics.namespaces,
    metrics.violatingWorkloads,
    metrics.enforcementMode,
    metrics.operatorConditions,
    metrics.progressing,
    metrics.enforcing,
    metrics.lastEvaluation,
    metrics.evaluationDuration,
  ]) {
    gauge.reset();
  }
}
