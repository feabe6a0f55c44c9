/** The Pod Security configuration that the rollout publishes. */
import type { JsonObject } from '../../kube/types.ts';
import { DEFAULTS_FIELDS, type PodSecurityConfiguration } from '../psa/configuration.ts';
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

/** An invalid level, so a server that has an incomplete configuration fails to start instead of enforcing nothing. */
const PLACEHOLDER = 'invalid-to-force-substitution';

/**
 * Returns an `--admission-control-config-file` that makes kube-apiserver enforce the same defaults.
 * @see https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/
 */
export function buildAdmissionConfiguration(
  defaults: Partial<PodSecurityConfiguration['defaults']>,
  exemptions?: PodSecurityConfiguration['exemptions'],
): JsonObject {
  const base = Object.fromEntries(DEFAULTS_FIELDS.map((field) => [field, PLACEHOLDER]));
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      {
        name: 'PodSecurity',
        configuration: {
          apiVersion: 'pod-security.admission.config.k8s.io/v1',
          kind: 'PodSecurityConfiguration',
          defaults: { ...base, ...defaults },
          ...(exemptions ? { exemptions } : {}),
        },
      },
    ],
  };
}
