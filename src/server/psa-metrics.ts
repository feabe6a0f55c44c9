import type { AdmissionRequest } from '../kube/admission.ts';
import { policyVersionLabel, requestLabels, type RequestLabels } from '../policy/psa/metric-labels.ts';
import type { PodSecurityCount } from '../policy/psa/types.ts';
import { newestVersion } from '../policy/pss/evaluate.ts';
import type { Cell } from '../telemetry/hot.ts';
import type { Metrics } from '../telemetry/metrics.ts';

const OPERATIONS = ['create', 'update'] as const;

/** Those of Kubernetes. Whoever reaches this server may send any other name, and a series lives for ever: they are one. */
const SUBRESOURCES: ReadonlySet<string> = new Set([
  '',
  'attach',
  'binding',
  'ephemeralcontainers',
  'eviction',
  'exec',
  'log',
  'portforward',
  'proxy',
  'resize',
  'scale',
  'status',
]);
const OTHER = 'other';

type Counts = readonly PodSecurityCount[];

/** Records what reviews count; the series that upstream shows from the start begin at 0. */
export function createPodSecurityRecorder(
  metrics: Metrics['podSecurity'],
): (request: AdmissionRequest, counts: Counts) => void {
  for (const request_operation of OPERATIONS) {
    const pod = { request_operation, resource: 'pod', subresource: '' };
    metrics.evaluations.cell({
      decision: 'allow',
      policy_level: 'privileged',
      policy_version: 'latest',
      mode: 'enforce',
      ...pod,
    });
    metrics.exemptions.cell(pod);
    metrics.exemptions.cell({ ...pod, resource: 'controller' });
  }
  // Pods that pass share the counts of their namespace: what these mean for a kind of request is found out once.
  const known = new WeakMap<Counts, Map<string, readonly Cell[]>>();
  return (request, counts) => {
    const labels = labelsOf(request);
    const key = `${labels.request_operation} ${labels.resource} ${labels.subresource}`;
    let byRequest = known.get(counts);
    if (!byRequest) known.set(counts, (byRequest = new Map<string, readonly Cell[]>()));
    let cells = byRequest.get(key);
    if (!cells) byRequest.set(key, (cells = counts.map((count) => cellOf(metrics, labels, count))));
    for (const cell of cells) cell.count++;
  };
}

/** A bounded set of values, whatever is asked. */
function labelsOf(request: AdmissionRequest): RequestLabels {
  const labels = requestLabels(request);
  return SUBRESOURCES.has(labels.subresource) ? labels : { ...labels, subresource: OTHER };
}

function cellOf(metrics: Metrics['podSecurity'], labels: RequestLabels, count: PodSecurityCount): Cell {
  switch (count.metric) {
    case 'exemptions':
      return metrics.exemptions.cell(labels);
    case 'errors':
      return metrics.errors.cell({ fatal: String(count.fatal), ...labels });
    case 'evaluations':
      return metrics.evaluations.cell({
        decision: count.decision,
        policy_level: count.policy.level,
        policy_version: policyVersionLabel(count.policy, newestVersion),
        mode: count.mode,
        ...labels,
      });
  }
}
