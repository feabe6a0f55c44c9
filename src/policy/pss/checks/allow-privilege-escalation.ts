import type { ContainerFields, PodFields } from '../../pod/pod.ts';
import { celNames, offendingNames, WINDOWS, type CelRule } from '../cel.ts';
import { findContainers, forbidden, formatNames, missing, unlessWindows, type Check, type Finding } from '../check.ts';

const FIELD = 'securityContext.allowPrivilegeEscalation';

const PASSES = '!c.?securityContext.?allowPrivilegeEscalation.orValue(true)';
const CEL: CelRule = {
  variables: { escalatingContainers: offendingNames(PASSES) },
  passes: `variables.containers.all(c, ${PASSES})`,
  text: `"allowPrivilegeEscalation != false (" + ${celNames('variables.escalatingContainers')} + " must set ${FIELD}=false)"`,
};

/**
 * Each container must forbid privilege escalation, for example by setuid binaries.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.allowPrivilegeEscalation
 * Allowed  false
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const allowPrivilegeEscalation: Check = {
  id: 'allowPrivilegeEscalation',
  level: 'restricted',
  fix: 'Set securityContext.allowPrivilegeEscalation to false in each container.',
  repairs: [{ set: false }],
  versions: [
    { since: 'v1.8', check: mustBeFalse, cel: CEL },
    { since: 'v1.25', check: unlessWindows(mustBeFalse), cel: { ...CEL, unless: WINDOWS } },
  ],
};

function mustBeFalse(pod: PodFields): Finding | undefined {
  const offenders = findContainers(pod, isNotFalse);
  if (offenders.length === 0) return undefined;
  return {
    reason: 'allowPrivilegeEscalation != false',
    detail: `${formatNames('container', offenders)} must set securityContext.allowPrivilegeEscalation=false`,
    fields: () =>
      offenders.map((container) => {
        const error = container.hasSecurityContext ? forbidden : missing;
        return error(container, FIELD, container.allowPrivilegeEscalation ?? 'nil');
      }),
  };
}

function isNotFalse(container: ContainerFields): boolean {
  return container.allowPrivilegeEscalation !== false;
}
