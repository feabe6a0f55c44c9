import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { forbidden, missing } from '../offenders.ts';
import { unlessWindows } from '../relax.ts';
import { containersText } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const FIELD = 'securityContext.allowPrivilegeEscalation';

/**
 * No process may gain more privileges than its parent; each container has to say so.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.allowPrivilegeEscalation
 * Allowed  false
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const allowPrivilegeEscalation: Check = {
  id: 'allowPrivilegeEscalation',
  level: 'restricted',
  remedy: 'Set securityContext.allowPrivilegeEscalation to false in each container.',
  versions: [
    { since: 'v1.8', check: mustBeFalse },
    { since: 'v1.25', check: unlessWindows(mustBeFalse) },
  ],
};

function mustBeFalse(pod: PodFields): Finding | undefined {
  const containers = containersText(pod, isNotFalse);
  if (!containers) return undefined;
  return {
    reason: 'allowPrivilegeEscalation != false',
    detail: `${containers} must set securityContext.allowPrivilegeEscalation=false`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.containers.filter(isNotFalse).map((container) => {
    const value = container.allowPrivilegeEscalation ?? 'nil';
    return container.hasSecurityContext ? forbidden(container, FIELD, value) : missing(container, FIELD, value);
  });
}

const isNotFalse = (container: ContainerFields): boolean => container.allowPrivilegeEscalation !== false;
