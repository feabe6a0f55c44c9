import type { FieldError } from '../../../kube/field-error.ts';
import type { PodFields, SetterFields } from '../fields.ts';
import { forbidden, settersWhere } from '../offenders.ts';
import { unlessUserNamespace } from '../relax.ts';
import { settersText } from '../text.ts';
import type { Check, Finding } from '../types.ts';

/**
 * Nothing may ask to run as user 0; in a user namespace it is nobody on the host.
 *
 * Fields   spec.securityContext.runAsUser
 *          spec.{init,ephemeral,}containers[*].securityContext.runAsUser
 * Allowed  any other number or nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const runAsUser: Check = {
  id: 'runAsUser',
  level: 'restricted',
  remedy: 'Set securityContext.runAsUser to a number other than 0, or remove it.',
  passesUnlessSet: ['runAsUser'],
  versions: [
    { since: 'v1.23', check: notUserZero },
    { since: 'v1.35', check: unlessUserNamespace(notUserZero) },
  ],
};

function notUserZero(pod: PodFields): Finding | undefined {
  const setters = settersText(pod, isZero);
  return !setters
    ? undefined
    : {
        reason: 'runAsUser=0',
        detail: `${setters} must not set runAsUser=0`,
        fields,
      };
}

function fields(pod: PodFields): readonly FieldError[] {
  return settersWhere(pod, isZero).map((setter) => forbidden(setter, 'securityContext.runAsUser', 0));
}

const isZero = (setter: SetterFields): boolean => setter.runAsUser === 0;
