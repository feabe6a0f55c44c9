/** Counts the decisions about pods, workloads and namespaces. */
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { objectMember } from '../kube/types.ts';
import type { PodSecurityCount, PodSecurityReview } from '../policy/psa/index.ts';
import { compareVersions, newestVersion, type Policy } from '../policy/pss/index.ts';
import type { NamespaceMode, SccDecision } from '../policy/scc/index.ts';
import type { CounterSeries } from './counters.ts';
import type { Metrics } from './metrics.ts';

// Pod Security

const OPERATIONS = ['create', 'update'] as const;

const RESOURCES: ReadonlyMap<string, string> = new Map([
  ['pods', 'pod'],
  ['namespaces', 'namespace'],
]);

/**
 * Subresources in Kubernetes. Clients may send other names, which share one series, because series are never removed.
 */
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

/**
 * Creates the function that counts an evaluation, and pods that are admitted because of an exemption or exception. As
 * upstream does, creates some series with the value 0 at the start.
 */
export function createPodSecurityRecorder(metrics: Metrics['podSecurity']) {
  for (const request_operation of OPERATIONS) {
    const pod = { request_operation, resource: 'pod', subresource: '' };
    const privileged = { decision: 'allow', policy_level: 'privileged', policy_version: 'latest', mode: 'enforce' };
    metrics.evaluations.cell({ ...privileged, ...pod });
    metrics.exemptions.cell(pod);
    metrics.exemptions.cell({ ...pod, resource: 'controller' });
  }
  return (request: AdmissionRequest, { decision, counts }: PodSecurityReview): void => {
    const labels = requestLabels(request);
    for (const count of counts) findCell(metrics, labels, count).count++;
    for (const use of exemptionUses(request, decision)) metrics.exemptionUses.cell(use).count++;
  };
}

/** Returns the exemption and the exceptions that admit a pod. Returns none for dry runs and for other resources. */
function exemptionUses(request: AdmissionRequest, { auditAnnotations }: Decision) {
  const { resource, dryRun, namespace = '' } = request;
  if (resource.group || resource.resource !== 'pods' || dryRun === true) return [];
  const { exempt, exception } = auditAnnotations ?? {};
  return [
    ...(exempt === undefined ? [] : [{ exemption: exempt, name: exemptName(request, exempt) }]),
    ...(exception?.split(', ') ?? []).map((name) => ({ exemption: 'exception', name: `${namespace}/${name}` })),
  ];
}

function exemptName({ namespace, userInfo, object }: AdmissionRequest, exemption: string): string {
  if (exemption === 'namespace') return namespace ?? '';
  if (exemption === 'user') return userInfo.username ?? '';
  const { runtimeClassName } = objectMember(object, 'spec');
  return typeof runtimeClassName === 'string' ? runtimeClassName : '';
}

type RequestLabels = ReturnType<typeof requestLabels>;

/** @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/metrics/metrics.go */
function requestLabels({ operation, resource, requestSubResource }: AdmissionRequest) {
  const subresource = requestSubResource ?? '';
  return {
    request_operation: operation.toLowerCase(),
    resource: (!resource.group ? RESOURCES.get(resource.resource) : undefined) ?? 'controller',
    subresource: SUBRESOURCES.has(subresource) ? subresource : 'other',
  };
}

function findCell(metrics: Metrics['podSecurity'], labels: RequestLabels, count: PodSecurityCount): CounterSeries {
  switch (count.metric) {
    case 'exemptions':
      return metrics.exemptions.cell(labels);
    case 'errors':
      return metrics.errors.cell({ fatal: String(count.fatal), ...labels });
    case 'evaluations':
      return metrics.evaluations.cell({
        decision: count.decision,
        policy_level: count.policy.level,
        policy_version: policyVersionLabel(count.policy),
        mode: count.mode,
        ...labels,
      });
  }
}

/** Returns a version label from a bounded set. All versions newer than the newest known version are `future`. */
function policyVersionLabel({ level, version }: Policy): string {
  if (level === 'privileged' || version === 'latest') return 'latest';
  return compareVersions(version, newestVersion) <= 0 ? version : 'future';
}

// SCCs

/** A decision and the SCC mode of the pod's namespace. */
export interface DecisionInMode {
  readonly mode: NamespaceMode;
  readonly decision: SccDecision;
}

/** Counts one decision. */
export type SccRecorder = (request: AdmissionRequest, outcome: DecisionInMode) => void;

const SCC_SUBRESOURCES: ReadonlySet<string> = new Set(['attach', 'ephemeralcontainers', 'exec', 'resize']);

/** Creates the recorder of SCC decisions. Decisions in report mode are counted in `reports`. */
export function createSccRecorder(decisions: Metrics['scc']['decisions'], reports = decisions): SccRecorder {
  return (request, { mode: { mode }, decision: { allowed, facts } }) => {
    const operation = operationLabel(request);
    const { scc = '', subjectType: subject_type = '' } = facts ?? {};
    // Decisions about pods to which SCCs do not apply, such as Windows pods, have no facts.
    const result = !allowed ? 'deny' : facts ? 'allow' : 'skip';
    const counter = mode === 'report' ? reports : decisions;
    counter.cell({ operation, mode, decision: result, scc, subject_type }).count++;
  };
}

/** Returns a label value from a fixed set. */
function operationLabel({ operation, subResource = '' }: AdmissionRequest): string {
  if (subResource !== '') return SCC_SUBRESOURCES.has(subResource) ? subResource : 'other';
  return operation === 'CREATE' || operation === 'UPDATE' ? operation.toLowerCase() : 'other';
}
