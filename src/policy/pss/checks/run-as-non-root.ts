import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields, SetterFields } from '../fields.ts';
import { forbidden, missing, settersWhere } from '../offenders.ts';
import { unlessUserNamespace } from '../relax.ts';
import { containersText, settersText } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const REASON = 'runAsNonRoot != true';

const FIELD = 'securityContext.runAsNonRoot';

/**
 * The kubelet has to refuse images that run as root; in a user namespace root is nobody on the host.
 *
 * Fields   spec.securityContext.runAsNonRoot
 *          spec.{init,ephemeral,}containers[*].securityContext.runAsNonRoot
 * Allowed  true; in containers nothing, too, if the pod says true
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const runAsNonRoot: Check = {
  id: 'runAsNonRoot',
  level: 'restricted',
  remedy: 'Set spec.securityContext.runAsNonRoot to true, and nowhere to false.',
  versions: [
    { since: 'v1.0', check: mustNotBeRoot },
    { since: 'v1.35', check: unlessUserNamespace(mustNotBeRoot) },
  ],
};

function mustNotBeRoot(pod: PodFields): Finding | undefined {
  return explicitlyRoot(pod) ?? (pod.runAsNonRoot === true ? undefined : implicitlyRoot(pod));
}

function explicitlyRoot(pod: PodFields): Finding | undefined {
  const setters = settersText(pod, saysFalse);
  if (!setters) return undefined;
  return {
    reason: REASON,
    detail: `${setters} must not set securityContext.runAsNonRoot=false`,
    fields: explicitFields,
  };
}

function implicitlyRoot(pod: PodFields): Finding | undefined {
  const containers = containersText(pod, saysNothing);
  if (!containers) return undefined;
  return {
    reason: REASON,
    detail: `pod or ${containers} must set securityContext.runAsNonRoot=true`,
    fields: implicitFields,
  };
}

function explicitFields(pod: PodFields): readonly FieldError[] {
  return settersWhere(pod, saysFalse).map((setter) => forbidden(setter, FIELD, false));
}

function implicitFields(pod: PodFields): readonly FieldError[] {
  return pod.containers.filter(saysNothing).map((container) => missing(container, FIELD));
}

const saysFalse = (setter: SetterFields): boolean => setter.runAsNonRoot === false;

const saysNothing = (container: ContainerFields): boolean => container.runAsNonRoot === undefined;
