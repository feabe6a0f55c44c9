import type { PodFields } from '../../pod/pod.ts';
import { celNames, offendingNames, type CelRule } from '../cel.ts';
import { findContainers, forbidden, formatNames, type Check, type Finding } from '../check.ts';

const FIELD = 'securityContext.privileged';

const PASSES = '!c.?securityContext.?privileged.orValue(false)';
const CEL: CelRule = {
  variables: { privilegedContainers: offendingNames(PASSES) },
  passes: `variables.containers.all(c, ${PASSES})`,
  text: `"privileged (" + ${celNames('variables.privilegedContainers')} + " must not set ${FIELD}=true)"`,
};

/**
 * Containers must not run in privileged mode.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.privileged
 * Allowed  false or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const privileged: Check = {
  id: 'privileged',
  level: 'baseline',
  fix: 'Remove securityContext.privileged from the containers, or set it to false.',
  repairs: [
    {
      set: false,
      note: 'was privileged. Host devices, mounts, kernel settings and most capabilities are no longer available',
      explicit: true,
    },
  ],
  versions: [{ since: 'v1.0', check: notPrivileged, cel: CEL }],
};

function notPrivileged(pod: PodFields): Finding | undefined {
  const offenders = findContainers(pod, (container) => container.privileged);
  if (offenders.length === 0) return undefined;
  return {
    reason: 'privileged',
    detail: `${formatNames('container', offenders)} must not set securityContext.privileged=true`,
    fields: () => offenders.map((container) => forbidden(container, FIELD, true)),
  };
}
