import type { AdmissionRequest } from '../../kube/admission.ts';
import { type Policy, type Version, compareVersions } from '../pss/policy.ts';

/** The labels that all counters share. */
export interface RequestLabels {
  readonly request_operation: string;
  readonly resource: 'pod' | 'namespace' | 'controller';
  readonly subresource: string;
}

const RESOURCES: ReadonlyMap<string, RequestLabels['resource']> = new Map([
  ['pods', 'pod'],
  ['namespaces', 'namespace'],
]);

/** @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/metrics/metrics.go */
export function requestLabels({ operation, resource, requestSubResource }: AdmissionRequest): RequestLabels {
  return {
    request_operation: operation.toLowerCase(),
    resource: (!resource.group ? RESOURCES.get(resource.resource) : undefined) ?? 'controller',
    subresource: requestSubResource ?? '',
  };
}

/** A bounded set of values: versions that this program does not know yet are one. */
export function policyVersionLabel({ level, version }: Policy, newest: Version): string {
  if (level === 'privileged' || version === 'latest') return 'latest';
  return compareVersions(version, newest) <= 0 ? version : 'future';
}
