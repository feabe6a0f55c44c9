import type { PodSecurityConfiguration } from '../../psa/configuration.ts';
import type { DefaultLevel } from '../enforcement.ts';
import { POD_SECURITY_PATH, type Observer } from './types.ts';

/** The defaults while a cluster is held to a level: whatever is enforced, what restricted forbids is told. */
export function defaultsFor(enforce: DefaultLevel): PodSecurityConfiguration['defaults'] {
  return {
    enforce,
    'enforce-version': 'latest',
    audit: 'restricted',
    'audit-version': 'latest',
    warn: 'restricted',
    'warn-version': 'latest',
  };
}

/**
 * What namespaces without labels are held to. Always all six: a part alone would be completed in silence.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/blob/main/pkg/operator/configobservation/auth/podsecurityadmission.go
 */
export const podSecurityDefaults: Observer = {
  name: 'pod-security-defaults',
  path: [...POD_SECURITY_PATH, 'defaults'],
  observe({ plan: { want, enforce }, error }, before) {
    const isUnknown = error !== undefined || want === undefined;
    return { value: isUnknown && before !== undefined ? before : defaultsFor(enforce), error };
  },
};
