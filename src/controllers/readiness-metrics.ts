/** The readiness controller's metrics. Only the leader exposes them, so replicas do not contradict each other. */
import { ENFORCEMENT_MODES, type PSAEnforcementConfig } from '../kube/psa-enforcement-config.ts';
import { parseTimestamp } from '../kube/units.ts';
import { INSTALLATION } from '../kube/well-known.ts';
import type { RolloutView } from '../policy/rollout/state.ts';
import type { Metrics } from '../telemetry/metrics.ts';

export type ReadinessMetrics = Metrics['rollout']['readiness'];

export function setStatusMetrics(metrics: ReadinessMetrics, { status }: PSAEnforcementConfig, view: RolloutView): void {
  for (const mode of ENFORCEMENT_MODES) {
    metrics.enforcementMode.set({ mode }, (status?.enforcementMode ?? '') === mode ? 1 : 0);
  }
  metrics.enforcing.set(view.enforce === 'restricted' ? 1 : 0);
  metrics.lastEvaluation.set((parseTimestamp(status?.lastEvaluationTime) ?? 0) / 1000);
  metrics.progressing.reset();
  metrics.operatorConditions.reset();
  for (const { type, reason, status: value } of status?.conditions ?? []) {
    if (type === 'Progressing' && value === 'True') metrics.progressing.set({ reason }, 1);
    if (!type.endsWith('EvaluationConditionsDetected')) continue;
    metrics.operatorConditions.set({ name: INSTALLATION.name, condition: type, reason }, value === 'True' ? 1 : 0);
  }
}

export function resetMetrics(metrics: ReadinessMetrics): void {
  metrics.namespaces.reset();
  metrics.violatingWorkloads.reset();
  metrics.enforcementMode.reset();
  metrics.operatorConditions.reset();
  metrics.progressing.reset();
  metrics.enforcing.reset();
  metrics.lastEvaluation.reset();
  metrics.evaluationDuration.reset();
}
