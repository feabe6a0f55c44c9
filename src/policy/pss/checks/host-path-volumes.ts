import type { PodFields } from '../../pod/pod.ts';
import { forbidden, formatNames, type Check, type Finding } from '../check.ts';

/**
 * Directories and files of the host must not be mounted.
 *
 * Fields   spec.volumes[*].hostPath
 * Allowed  not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostPathVolumes: Check = {
  id: 'hostPathVolumes',
  level: 'baseline',
  fix: 'Replace hostPath in spec.volumes with a persistentVolumeClaim, an emptyDir or another source.',
  versions: [{ since: 'v1.0', check: noHostPaths }],
};

function noHostPaths(pod: PodFields): Finding | undefined {
  const offenders = pod.volumes.filter(({ hostPath }) => hostPath !== undefined);
  if (offenders.length === 0) return undefined;
  return {
    reason: 'hostPath volumes',
    detail: formatNames('volume', offenders),
    fields: () => offenders.map(({ index, hostPath }) => forbidden(pod, `volumes[${index}].hostPath`, hostPath)),
  };
}
