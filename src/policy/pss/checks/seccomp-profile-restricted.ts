import { LOST, type PodFields } from '../../pod/index.ts';
import { bind, type BuildCel, celNames, violatingNames } from '../cel.ts';
import { type Check, findContainers, type Finding, formatNames, missing } from '../check.ts';
import { ONLY_SAFE_SECCOMP_PROFILES as SAFE } from './seccomp-profile-baseline.ts';

const FIELD = 'securityContext.seccompProfile.type';
const overrides = ['seccompProfile_baseline'];

const hasProfile = (owner: string): string => `${owner}.?securityContext.?seccompProfile.hasValue()`;
const cel: BuildCel = (inputs) => {
  const safe = SAFE.cel(inputs);
  const missingText = bind(
    { seccompMissing: violatingNames(inputs, hasProfile('c')) },
    `"seccompProfile (pod or " + ${celNames('seccompMissing')} + " must set ${FIELD} to \\"RuntimeDefault\\" or \\"Localhost\\")"`,
  );
  return {
    passes: `${safe.passes} && (${hasProfile(inputs.spec)} || ${inputs.containers}.all(c, ${hasProfile('c')}))`,
    text: `${safe.passes} ? ${missingText} : ${safe.text}`,
  };
};

/**
 * Every container must have a seccomp profile, either its own or the pod's.
 *
 * Fields   spec.securityContext.seccompProfile.type
 *          spec.{init,ephemeral,}containers[*].securityContext.seccompProfile.type
 * Allowed  RuntimeDefault or Localhost, or not set in containers if the pod sets one of them
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const seccompProfileRestricted: Check = {
  id: 'seccompProfile_restricted',
  level: 'restricted',
  why: 'Without a profile, all system calls are permitted, unless the kubelet sets a default. The default profile of the container runtime denies rarely used system calls, through which many kernel vulnerabilities can be exploited.',
  fix: 'Set spec.securityContext.seccompProfile.type to RuntimeDefault. In containers, set only RuntimeDefault or Localhost.',
  violation: ['spec.securityContext', { runAsNonRoot: true }],
  cis: '5.6.2',
  nsa: 'seccomp profiles',
  repairs: [
    { missing: true, path: 'spec.securityContext.seccompProfile.type', set: 'RuntimeDefault' },
    { set: 'RuntimeDefault', note: LOST.seccomp, explicit: true },
  ],
  versions: [
    { since: 'v1.19', check: mustHaveProfile, cel, overrides },
    { since: 'v1.25', check: mustHaveProfile, cel, unless: 'windows', overrides },
  ],
};

/** Returns a finding for unsafe profiles or, if there are none, for containers that have no profile. */
function mustHaveProfile(pod: PodFields): Finding | undefined {
  const unsafe = SAFE.check(pod);
  if (pod.seccompProfile !== undefined) return unsafe;
  const containers = findContainers(pod, (container) => container.seccompProfile === undefined);
  const fields = () => containers.map((container) => missing(container, FIELD));
  if (unsafe !== undefined) return { ...unsafe, omitted: fields };
  if (containers.length === 0) return undefined;
  return {
    reason: 'seccompProfile',
    detail: `pod or ${formatNames('container', containers)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`,
    fields,
  };
}
