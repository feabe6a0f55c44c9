import type { ContainerFields, PodFields, SetterFields } from '../fields.ts';
import { containersWhere, forbidden, missing, settersWhere } from '../offenders.ts';
import { unlessUserNamespace } from '../relax.ts';
import { namesOf, settersText } from '../text.ts';
import type { Check, Finding } from '../types.ts';

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
  const offenders = settersWhere(pod, saysFalse);
  return (
    offenders && {
      reason: 'runAsNonRoot != true',
      detail: `${settersText(offenders)} must not set securityContext.runAsNonRoot=false`,
      fields: () => offenders.map((setter) => forbidden(setter, FIELD, false)),
    }
  );
}

function implicitlyRoot(pod: PodFields): Finding | undefined {
  const offenders = containersWhere(pod, saysNothing);
  return (
    offenders && {
      reason: 'runAsNonRoot != true',
      detail: `pod or ${namesOf(offenders)} must set securityContext.runAsNonRoot=true`,
      fields: () => offenders.map((container) => missing(container, FIELD)),
    }
  );
}

function saysFalse(setter: SetterFields): boolean {
  return setter.runAsNonRoot === false;
}

function saysNothing(container: ContainerFields): boolean {
  return container.runAsNonRoot === undefined;
}
