import type { PodFields, VolumeFields } from '../fields.ts';
import { forbidden, volumesWhere } from '../offenders.ts';
import { volumeNames } from '../text.ts';
import type { Check, Finding } from '../types.ts';

/**
 * No part of the host's file system may be mounted.
 *
 * Fields   spec.volumes[*].hostPath
 * Allowed  nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostPathVolumes: Check = {
  id: 'hostPathVolumes',
  level: 'baseline',
  remedy: 'Replace hostPath in spec.volumes with a persistentVolumeClaim, an emptyDir or another source.',
  passesUnlessSet: ['volumes'],
  versions: [{ since: 'v1.0', check: noHostPaths }],
};

function noHostPaths(pod: PodFields): Finding | undefined {
  const offenders = volumesWhere(pod, isHostPath);
  return (
    offenders && {
      reason: 'hostPath volumes',
      detail: volumeNames(offenders),
      fields: () => offenders.map(({ index, hostPath }) => forbidden(pod, `volumes[${index}].hostPath`, hostPath)),
    }
  );
}

function isHostPath(volume: VolumeFields): boolean {
  return volume.hostPath !== undefined;
}
