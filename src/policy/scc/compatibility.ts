import type { Compatibility, Deviations } from './types.ts';

/**
 * The SCCs without which OpenShift admits no pod.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export const OPENSHIFT_REQUIRED_SCCS = [
  'anyuid',
  'hostaccess',
  'hostmount-anyuid',
  'hostnetwork',
  'hostnetwork-v2',
  'nonroot',
  'nonroot-v2',
  'privileged',
  'restricted',
  'restricted-v2',
] as const;

const OPENSHIFT: Required<Deviations> = {
  identity: 'openshift',
  brokenScc: 'refuse',
  requiredSccs: OPENSHIFT_REQUIRED_SCCS,
  unprocessedPods: 'judge',
};

const DEFAULTS: Required<Deviations> = {
  identity: 'accurate',
  brokenScc: 'skip',
  requiredSccs: [],
  unprocessedPods: 'pass',
};

export function resolveCompatibility(compatibility: Compatibility = {}): Required<Deviations> {
  return compatibility === 'openshift' ? OPENSHIFT : { ...DEFAULTS, ...compatibility };
}
