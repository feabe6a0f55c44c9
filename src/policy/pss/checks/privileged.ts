import type { ContainerFields, PodFields } from '../fields.ts';
import { containersWhere, forbidden } from '../offenders.ts';
import { namesOf } from '../text.ts';
import type { Check, Finding } from '../types.ts';

/**
 * No container may run with the rights of the host.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.privileged
 * Allowed  false or nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const privileged: Check = {
  id: 'privileged',
  level: 'baseline',
  remedy: 'Remove securityContext.privileged from the containers, or set it to false.',
  passesUnlessSet: ['privileged'],
  versions: [{ since: 'v1.0', check: notPrivileged }],
};

function notPrivileged(pod: PodFields): Finding | undefined {
  const offenders = containersWhere(pod, isPrivileged);
  return (
    offenders && {
      reason: 'privileged',
      detail: `${namesOf(offenders)} must not set securityContext.privileged=true`,
      fields: () => offenders.map((container) => forbidden(container, 'securityContext.privileged', true)),
    }
  );
}

function isPrivileged(container: ContainerFields): boolean {
  return container.privileged === true;
}
