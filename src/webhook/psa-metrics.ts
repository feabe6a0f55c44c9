import type { AdmissionRequest } from '../kube/admission.ts';
import { policyVersionLabel, requestLabels } from '../policy/psa/metric-labels.ts';
import type { PodSecurityCount } from '../policy/psa/types.ts';
import { newestVersion } from '../policy/pss/evaluate.ts';
import type { Metrics } from '../telemetry/metrics.ts';

const OPERATIONS = ['create', 'update'] as const;

/** Records what reviews count; the series that upstream shows from the start begin at 0. */
export function createPodSecurityRecorder(
  metrics: Metrics['podSecurity'],
): (request: AdmissionRequest, counts: readonly PodSecurityCount[]) => void {
  for (const request_operation of OPERATIONS) {
    const pod = { request_operation, resource: 'pod', subresource: '' };
    metrics.evaluations.inc(
      { ...pod, decision: 'allow', policy_level: 'privileged', policy_version: 'latest', mode: 'enforce' },
      0,
    );
    metrics.exemptions.inc(pod, 0);
    metrics.exemptions.inc({ ...pod, resource: 'controller' }, 0);
  }
  return (request, counts) => {
    for (const count of counts) record(metrics, request, count);
  };
}

function record(metrics: Metrics['podSecurity'], request: AdmissionRequest, count: PodSecurityCount): void {
  const labels = requestLabels(request);
  switch (count.metric) {
    case 'exemptions': {
      metrics.exemptions.inc({ ...labels });
      return;
    }
    case 'errors': {
      metrics.errors.inc({ ...labels, fatal: String(count.fatal) });
      return;
    }
    case 'evaluations': {
      metrics.evaluations.inc({
        ...labels,
        decision: count.decision,
        mode: count.mode,
        policy_level: count.policy.level,
        policy_version: policyVersionLabel(count.policy, newestVersion),
      });
      return;
    }
  }
}
