import type { FieldError } from '../../../kube/field-error.ts';
import type { PodFields, VolumeFields } from '../fields.ts';
import { forbidden } from '../offenders.ts';
import { distinct, named, plural, quotedList } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const ALLOWED_SOURCES: ReadonlySet<string> = new Set([
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'image',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

/** In the order in which they name the type of a volume that has several. */
const RESTRICTED_SOURCES = [
  'hostPath',
  'gcePersistentDisk',
  'awsElasticBlockStore',
  'gitRepo',
  'nfs',
  'iscsi',
  'glusterfs',
  'rbd',
  'flexVolume',
  'cinder',
  'cephfs',
  'flocker',
  'fc',
  'azureFile',
  'vsphereVolume',
  'quobyte',
  'azureDisk',
  'photonPersistentDisk',
  'portworxVolume',
  'scaleIO',
  'storageos',
];

const UNKNOWN = 'unknown';

/**
 * Only sources that do not reach past the cluster's own storage may be mounted. One such source makes a volume fine,
 * whatever other source stands beside it.
 *
 * Fields   spec.volumes[*]
 * Allowed  the nine sources above
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const restrictedVolumes: Check = {
  id: 'restrictedVolumes',
  level: 'restricted',
  remedy:
    'Use configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected or secret in spec.volumes.',
  passesUnlessSet: ['volumes'],
  versions: [
    {
      since: 'v1.0',
      check: onlyAllowedSources,
      overrides: ['hostPathVolumes'],
    },
  ],
};

function onlyAllowedSources(pod: PodFields): Finding | undefined {
  return pod.volumes.some(isRestricted) ? finding(pod.volumes.filter(isRestricted)) : undefined;
}

function finding(offenders: readonly VolumeFields[]): Finding {
  const types = distinct(offenders.map(typeOf));
  const verb = plural(offenders.length, 'uses', 'use');
  const noun = plural(types.length, 'type', 'types');
  return {
    reason: 'restricted volume types',
    detail: `${named('volume', offenders)} ${verb} restricted volume ${noun} ${quotedList(types)}`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.volumes.filter(isRestricted).map((volume) => {
    const type = typeOf(volume);
    return forbidden(pod, type === UNKNOWN ? `volumes[${volume.index}]` : `volumes[${volume.index}].${type}`);
  });
}

const isAllowed = (source: string): boolean => ALLOWED_SOURCES.has(source);
const isRestricted = ({ sources }: VolumeFields): boolean => !sources.some(isAllowed);

/** Every source of an offender is a restricted one. */
function typeOf({ sources }: VolumeFields): string {
  const first = sources.length < 2 ? sources[0] : RESTRICTED_SOURCES.find((source) => sources.includes(source));
  return first ?? UNKNOWN;
}
