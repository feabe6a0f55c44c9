import type { PodFields } from '../../pod/pod.ts';
import { findSetters, forbidden, formatSetters, unlessUserNamespace, type Check, type Finding } from '../check.ts';

/**
 * User 0 must not be set, except in user namespaces, where it has no rights on the host.
 *
 * Fields   spec.securityContext.runAsUser
 *          spec.{init,ephemeral,}containers[*].securityContext.runAsUser
 * Allowed  another number or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const runAsUser: Check = {
  id: 'runAsUser',
  level: 'restricted',
  fix: 'Set securityContext.runAsUser to a number other than 0, or remove it.',
  versions: [
    { since: 'v1.23', check: notUserZero },
    { since: 'v1.35', check: unlessUserNamespace(notUserZero) },
  ],
};

function notUserZero(pod: PodFields): Finding | undefined {
  const setters = findSetters(pod, (setter) => setter.runAsUser === 0);
  if (setters.length === 0) return undefined;
  return {
    reason: 'runAsUser=0',
    detail: `${formatSetters(setters)} must not set runAsUser=0`,
    fields: () => setters.map((setter) => forbidden(setter, 'securityContext.runAsUser', 0)),
  };
}
