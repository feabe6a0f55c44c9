import { printJson, truncate } from '../../../kube/text.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { objectAt, stringAt, type Reader } from './reader.ts';

/** What decisions read of a volume. */
export interface VolumeFields {
  readonly index: number;
  /** As in an SCC's `volumes`; empty for a source that is not known. */
  readonly type: string;
  /** Of a flex volume. */
  readonly driver: string | undefined;
  readonly json: JsonObject;
  /** Found out when first asked for. */
  isInjected?: boolean;
  unknownText?: string;
}

/**
 * The sources of volumes under the names that SCCs have for them; of several in one volume the first here counts.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
const TYPES_BY_SOURCE: readonly (readonly [source: string, type: string])[] = [
  ...pairs('hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi glusterfs'),
  ...pairs('persistentVolumeClaim rbd flexVolume cinder'),
  ['cephfs', 'cephFS'],
  ...pairs('flocker downwardAPI fc azureFile configMap'),
  ['vsphereVolume', 'vsphere'],
  ...pairs('quobyte azureDisk photonPersistentDisk projected portworxVolume scaleIO'),
  ['storageos', 'storageOS'],
  ...pairs('csi ephemeral image'),
];

/** Every type of volume that pods can have, as SCCs name them. */
export const VOLUME_TYPES: readonly string[] = TYPES_BY_SOURCE.map(([, type]) => type);

const RANKS: ReadonlyMap<string, number> = new Map(TYPES_BY_SOURCE.map(([source], rank) => [source, rank]));

export function readVolume(reader: Reader, json: JsonObject, index: number): VolumeFields {
  let best = TYPES_BY_SOURCE.length;
  for (const key of Object.keys(json)) {
    const rank = RANKS.get(key);
    if (rank === undefined || json[key] == null) continue;
    objectAt(reader, json, key, `spec.volumes[${index}]`);
    if (rank < best) best = rank;
  }
  const type = VOLUME_TYPES[best] ?? '';
  const flex = objectAt(reader, json, 'flexVolume', `spec.volumes[${index}]`);
  const driver = flex && stringAt(reader, flex, 'driver', `spec.volumes[${index}].flexVolume`);
  return { index, type, driver, json };
}

/** A volume whose source is not known, as text. */
export function unknownTextOf(volume: VolumeFields): string {
  return (volume.unknownText ??= truncate(printJson(volume.json)));
}

function pairs(names: string): readonly (readonly [string, string])[] {
  return names.split(' ').map((name) => [name, name]);
}
