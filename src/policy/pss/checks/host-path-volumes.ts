import type { FieldError } from '../../../kube/field-error.ts';
import type { PodFields, VolumeFields } from '../fields.ts';
import { forbidden } from '../offenders.ts';
import { named } from '../text.ts';
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
  if (!pod.volumes.some(isHostPath)) return undefined;
  return {
    reason: 'hostPath volumes',
    detail: named('volume', pod.volumes.filter(isHostPath)),
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.volumes
    .filter(isHostPath)
    .map(({ index, hostPath }) => forbidden(pod, `volumes[${index}].hostPath`, hostPath));
}

const isHostPath = (volume: VolumeFields): boolean => volume.hostPath !== undefined;
