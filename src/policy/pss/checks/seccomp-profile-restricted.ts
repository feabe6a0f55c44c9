import type { PodFields } from '../../pod/pod.ts';
import { celNames, offendingNames, WINDOWS, type CelRule } from '../cel.ts';
import { findContainers, formatNames, missing, unlessWindows, type Check, type Finding } from '../check.ts';
import { onlySafeSeccompProfiles, SECCOMP_PROFILES_CEL } from './seccomp-profile-baseline.ts';

const FIELD = 'securityContext.seccompProfile.type';
const overrides = ['seccompProfile_baseline'];

const hasProfile = (owner: string): string => `${owner}.?securityContext.?seccompProfile.hasValue()`;
const CEL: CelRule = {
  variables: { ...SECCOMP_PROFILES_CEL.variables, seccompMissing: offendingNames(hasProfile('c')) },
  passes: `${SECCOMP_PROFILES_CEL.passes} && (${hasProfile('variables.spec')} || variables.containers.all(c, ${hasProfile('c')}))`,
  text: `size(variables.seccompSetters) > 0 ? ${SECCOMP_PROFILES_CEL.text} : "seccompProfile (pod or " + ${celNames('variables.seccompMissing')} + " must set ${FIELD} to \\"RuntimeDefault\\" or \\"Localhost\\")"`,
};

/**
 * Each container must have a seccomp profile, either its own or the pod's.
 *
 * Fields   spec.securityContext.seccompProfile.type
 *          spec.{init,ephemeral,}containers[*].securityContext.seccompProfile.type
 * Allowed  RuntimeDefault or Localhost, or not set in containers if the pod sets one of them
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const seccompProfileRestricted: Check = {
  id: 'seccompProfile_restricted',
  level: 'restricted',
  fix: 'Set spec.securityContext.seccompProfile.type to RuntimeDefault. In containers, set only RuntimeDefault or Localhost.',
  repairs: [
    { missing: true, path: 'spec.securityContext.seccompProfile.type', set: 'RuntimeDefault' },
    { set: 'RuntimeDefault' },
  ],
  versions: [
    { since: 'v1.19', check: mustHaveProfile, cel: CEL, overrides },
    { since: 'v1.25', check: unlessWindows(mustHaveProfile), cel: { ...CEL, unless: WINDOWS }, overrides },
  ],
};

/** Containers without a profile are reported only if no profile is unsafe. */
function mustHaveProfile(pod: PodFields): Finding | undefined {
  const unsafe = onlySafeSeccompProfiles(pod);
  if (unsafe !== undefined || pod.seccompProfile !== undefined) return unsafe;
  const offenders = findContainers(pod, (container) => container.seccompProfile === undefined);
  if (offenders.length === 0) return undefined;
  return {
    reason: 'seccompProfile',
    detail: `pod or ${formatNames('container', offenders)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`,
    fields: () => offenders.map((container) => missing(container, FIELD)),
  };
}
