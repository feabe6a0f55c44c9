import type { VolumeFields } from '../fields.ts';
import { listIn, objectIn, stringIn, type Reader, type Struct } from './reader.ts';
import { NONE, createPool, newVolume } from './scratch.ts';

const POD_SPEC: Struct = { name: 'PodSpec', path: '' };
const VOLUME: Struct = { name: 'Volume', path: 'volumes[*]' };
const HOST_PATH: Struct = {
  name: 'HostPathVolumeSource',
  path: 'volumes[*].hostPath',
};

/**
 * The sources of volumes, each with its type in the API.
 * @see https://github.com/kubernetes/api/blob/v0.36.0/core/v1/types.go
 */
const SOURCE_TYPES: Readonly<Record<string, string>> = {
  awsElasticBlockStore: 'AWSElasticBlockStoreVolumeSource',
  azureDisk: 'AzureDiskVolumeSource',
  azureFile: 'AzureFileVolumeSource',
  cephfs: 'CephFSVolumeSource',
  cinder: 'CinderVolumeSource',
  configMap: 'ConfigMapVolumeSource',
  csi: 'CSIVolumeSource',
  downwardAPI: 'DownwardAPIVolumeSource',
  emptyDir: 'EmptyDirVolumeSource',
  ephemeral: 'EphemeralVolumeSource',
  fc: 'FCVolumeSource',
  flexVolume: 'FlexVolumeSource',
  flocker: 'FlockerVolumeSource',
  gcePersistentDisk: 'GCEPersistentDiskVolumeSource',
  gitRepo: 'GitRepoVolumeSource',
  glusterfs: 'GlusterfsVolumeSource',
  hostPath: 'HostPathVolumeSource',
  image: 'ImageVolumeSource',
  iscsi: 'ISCSIVolumeSource',
  nfs: 'NFSVolumeSource',
  persistentVolumeClaim: 'PersistentVolumeClaimVolumeSource',
  photonPersistentDisk: 'PhotonPersistentDiskVolumeSource',
  portworxVolume: 'PortworxVolumeSource',
  projected: 'ProjectedVolumeSource',
  quobyte: 'QuobyteVolumeSource',
  rbd: 'RBDVolumeSource',
  scaleIO: 'ScaleIOVolumeSource',
  secret: 'SecretVolumeSource',
  storageos: 'StorageOSVolumeSource',
  vsphereVolume: 'VsphereVirtualDiskVolumeSource',
};

/** Each source with the list that a volume of just this source has. */
const SOURCES = new Map(
  Object.entries(SOURCE_TYPES).map(([name, type]) => [name, { type: `v1.${type}`, alone: [name] as const }]),
);

const poolOfVolumes = createPool(newVolume);

/** Reads the list of volumes; what it returned before is overwritten. */
export function readVolumes(reader: Reader, value: unknown): readonly VolumeFields[] {
  const list = listIn(reader, POD_SPEC, 'volumes', value, 'v1.Volume');
  const volumes = poolOfVolumes(list.length);
  for (let index = 0; index < list.length; index++) {
    const volume = volumes[index];
    if (volume !== undefined) readVolume(reader, list[index], index, volume);
  }
  return volumes;
}

function readVolume(reader: Reader, json: unknown, index: number, into: VolumeFields): void {
  reader.index = index;
  into.index = index;
  into.name = '';
  into.sources = NONE;
  into.hostPath = undefined;
  const volume = objectIn(reader, POD_SPEC, 'volumes[*]', json, 'v1.Volume');
  for (const key in volume) {
    if (key === 'name') into.name = stringIn(reader, VOLUME, key, volume[key]);
    else readSource(reader, key, volume[key], into);
  }
}

function readSource(reader: Reader, key: string, value: unknown, into: VolumeFields): void {
  const known = SOURCES.get(key);
  const source = known && objectIn(reader, VOLUME, key, value, known.type);
  if (known === undefined || source === undefined) return;
  into.sources = into.sources.length === 0 ? known.alone : [...into.sources, key];
  if (key === 'hostPath') into.hostPath = stringIn(reader, HOST_PATH, 'path', source.path);
}
