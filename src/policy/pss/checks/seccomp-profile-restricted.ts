import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { missing } from '../offenders.ts';
import { unlessWindows } from '../relax.ts';
import { onlySafeSeccompProfiles } from '../rules/seccomp-profile.ts';
import { containersText } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const FIELD = 'securityContext.seccompProfile.type';
const overrides = ['seccompProfile_baseline'];

/**
 * Every container runs under a seccomp profile, its own or the pod's.
 *
 * Fields   spec.securityContext.seccompProfile.type
 *          spec.{init,ephemeral,}containers[*].securityContext.seccompProfile.type
 * Allowed  RuntimeDefault, Localhost; in containers nothing, too, if the pod has one of them
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const seccompProfileRestricted: Check = {
  id: 'seccompProfile_restricted',
  level: 'restricted',
  remedy:
    'Set spec.securityContext.seccompProfile.type to RuntimeDefault, and no other type in containers but Localhost.',
  versions: [
    { since: 'v1.19', check: mustHaveProfile, overrides },
    { since: 'v1.25', check: unlessWindows(mustHaveProfile), overrides },
  ],
};

function mustHaveProfile(pod: PodFields): Finding | undefined {
  return onlySafeSeccompProfiles(pod) ?? (pod.seccompProfile === undefined ? noneInContainers(pod) : undefined);
}

function noneInContainers(pod: PodFields): Finding | undefined {
  const containers = containersText(pod, hasNone);
  if (!containers) return undefined;
  const detail = `pod or ${containers} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`;
  return { reason: 'seccompProfile', detail, fields };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.containers.filter(hasNone).map((container) => missing(container, FIELD));
}

const hasNone = (container: ContainerFields): boolean => container.seccompProfile === undefined;
