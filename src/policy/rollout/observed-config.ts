/** The Pod Security configuration that the rollout publishes. */
import type { JsonObject } from '../../kube/types.ts';
import type { PodSecurityConfiguration } from '../psa/index.ts';
import type { DefaultLevel } from './enforcement.ts';

/** Returns the defaults for an enforced level. The audit and warn levels are always restricted. */
export function podSecurityDefaultsFor(enforce: DefaultLevel): PodSecurityConfiguration['defaults'] {
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
 * Returns an `--admission-control-config-file` that makes kube-apiserver enforce the same defaults.
 * @see https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/
 */
export function buildAdmissionConfiguration(
  defaults: PodSecurityConfiguration['defaults'],
  exemptions?: PodSecurityConfiguration['exemptions'],
): JsonObject {
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      {
        name: 'PodSecurity',
        configuration: {
          apiVersion: 'pod-security.admission.config.k8s.io/v1',
          kind: 'PodSecurityConfiguration',
          defaults,
          ...(exemptions ? { exemptions } : {}),
        },
      },
    ],
  };
}
