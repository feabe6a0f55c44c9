import type { PodFields } from '../../pod/pod.ts';
import {
  findContainers,
  findSetters,
  forbidden,
  formatNames,
  formatSetters,
  missing,
  unlessUserNamespace,
  type Check,
  type Finding,
} from '../check.ts';

const REASON = 'runAsNonRoot != true';
const FIELD = 'securityContext.runAsNonRoot';

/**
 * The kubelet must reject images that run as root, except in user namespaces, where root has no rights on the host.
 *
 * Fields   spec.securityContext.runAsNonRoot
 *          spec.{init,ephemeral,}containers[*].securityContext.runAsNonRoot
 * Allowed  true; in containers also not set, if the pod sets true
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const runAsNonRoot: Check = {
  id: 'runAsNonRoot',
  level: 'restricted',
  fix: 'Set runAsNonRoot: true, and do not set it to false in any container.',
  versions: [
    { since: 'v1.0', check: mustRunAsNonRoot },
    { since: 'v1.35', check: unlessUserNamespace(mustRunAsNonRoot) },
  ],
};

/** Containers without a value are reported only if no value is false. */
function mustRunAsNonRoot(pod: PodFields): Finding | undefined {
  const explicit = findSetters(pod, (setter) => setter.runAsNonRoot === false);
  if (explicit.length > 0) {
    return {
      reason: REASON,
      detail: `${formatSetters(explicit)} must not set securityContext.runAsNonRoot=false`,
      fields: () => explicit.map((setter) => forbidden(setter, FIELD, false)),
    };
  }
  const implicit = pod.runAsNonRoot ? [] : findContainers(pod, (container) => container.runAsNonRoot === undefined);
  if (implicit.length === 0) return undefined;
  return {
    reason: REASON,
    detail: `pod or ${formatNames('container', implicit)} must set securityContext.runAsNonRoot=true`,
    fields: () => implicit.map((container) => missing(container, FIELD)),
  };
}
