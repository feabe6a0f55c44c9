import type { AdmissionRequest } from '../../kube/admission.ts';
import { compareVersions, type Policy, type Version } from '../pss/policy.ts';
import type { Mode } from './policy.ts';

/** An event that the metrics of Pod Security Admission count. */
export type PodSecurityCount =
  | {
      readonly metric: 'evaluations';
      readonly decision: 'allow' | 'deny';
      readonly mode: Mode;
      readonly policy: Policy;
    }
  | { readonly metric: 'exemptions' }
  /** `fatal` means that no policy was evaluated. */
  | { readonly metric: 'errors'; readonly fatal: boolean };

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

/** The version label has a bounded set of values: all versions newer than the newest known are `future`. */
export function policyVersionLabel({ level, version }: Policy, newest: Version): string {
  if (level === 'privileged' || version === 'latest') return 'latest';
  return compareVersions(version, newest) <= 0 ? version : 'future';
}
