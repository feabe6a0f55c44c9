import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { forbidden } from '../offenders.ts';
import { containersText } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const FIELD = 'securityContext.privileged';

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
  const containers = containersText(pod, isPrivileged);
  if (!containers) return undefined;
  return {
    reason: 'privileged',
    detail: `${containers} must not set securityContext.privileged=true`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.containers.filter(isPrivileged).map((container) => forbidden(container, FIELD, true));
}

const isPrivileged = (container: ContainerFields): boolean => container.privileged === true;
