import { isObject } from '../../kube/types.ts';
import type { ApiObject, TableColumn } from '../types.ts';
import { at, itemsAt, labelsText, numberAt, textAt, textsAt } from './cells.ts';
import { ageColumn, column, count, nameColumn, wide } from './column.ts';

/** The columns of the other kinds of the core group. */
export const coreColumns: Readonly<Record<string, readonly TableColumn[]>> = {
  Namespace: [
    nameColumn,
    column('Status', (object) => textAt(object, 'status', 'phase'), 'The status of the namespace'),
    ageColumn,
  ],
  Service: [
    nameColumn,
    column('Type', (object) => textAt(object, 'spec', 'type')),
    column('Cluster-IP', (object) => textsAt(object, 'spec', 'clusterIPs')[0] ?? '<none>'),
    column('External-IP', externalIp),
    column('Port(s)', servicePorts),
    ageColumn,
    wide(column('Selector', (object) => labelsText(at(object, 'spec', 'selector')))),
  ],
  Secret: [
    nameColumn,
    column('Type', (object) => textAt(object, 'type')),
    column('Data', (object) => size(at(object, 'data'))),
    ageColumn,
  ],
  ConfigMap: [
    nameColumn,
    column('Data', (object) => size(at(object, 'data')) + size(at(object, 'binaryData'))),
    ageColumn,
  ],
  ServiceAccount: [nameColumn, ageColumn],
  Endpoints: [nameColumn, column('Endpoints', endpoints), ageColumn],
  ResourceQuota: [nameColumn, column('Request', quota('')), column('Limit', quota('limits.')), ageColumn],
  PersistentVolume: [
    nameColumn,
    column('Capacity', (object) => textAt(object, 'spec', 'capacity', 'storage')),
    column('Access Modes', (object) => accessModes(textsAt(object, 'spec', 'accessModes'))),
    column('Reclaim Policy', (object) => textAt(object, 'spec', 'persistentVolumeReclaimPolicy')),
    column('Status', phaseOf),
    column('Claim', claimOf),
    column('StorageClass', (object) => textAt(object, 'spec', 'storageClassName')),
    column('VolumeAttributesClass', (object) => textAt(object, 'spec', 'volumeAttributesClassName') || '<unset>'),
    column('Reason', (object) => textAt(object, 'status', 'reason')),
    ageColumn,
    wide(column('VolumeMode', (object) => textAt(object, 'spec', 'volumeMode') || '<unset>')),
  ],
  PersistentVolumeClaim: [
    nameColumn,
    column('Status', phaseOf),
    column('Volume', (object) => textAt(object, 'spec', 'volumeName')),
    column('Capacity', (object) => textAt(object, 'status', 'capacity', 'storage')),
    column('Access Modes', (object) => accessModes(textsAt(object, 'status', 'accessModes'))),
    column('StorageClass', (object) => textAt(object, 'spec', 'storageClassName')),
    column('VolumeAttributesClass', (object) => textAt(object, 'spec', 'volumeAttributesClassName') || '<unset>'),
    ageColumn,
    wide(column('VolumeMode', (object) => textAt(object, 'spec', 'volumeMode') || '<unset>')),
  ],
  Node: [
    nameColumn,
    column('Status', nodeStatus, 'The status of the node'),
    column('Roles', nodeRoles, 'The roles of the node'),
    ageColumn,
    column('Version', (object) => textAt(object, 'status', 'nodeInfo', 'kubeletVersion')),
    wide(column('Internal-IP', nodeAddress('InternalIP'))),
    wide(column('External-IP', nodeAddress('ExternalIP'))),
    wide(column('OS-Image', (object) => textAt(object, 'status', 'nodeInfo', 'osImage') || '<unknown>')),
    wide(column('Kernel-Version', (object) => textAt(object, 'status', 'nodeInfo', 'kernelVersion') || '<unknown>')),
    wide(
      column(
        'Container-Runtime',
        (object) => textAt(object, 'status', 'nodeInfo', 'containerRuntimeVersion') || '<unknown>',
      ),
    ),
  ],
  PodDisruptionBudget: [
    nameColumn,
    column('Min Available', (object) => budget(at(object, 'spec', 'minAvailable'))),
    column('Max Unavailable', (object) => budget(at(object, 'spec', 'maxUnavailable'))),
    count('Allowed Disruptions', (object) => numberAt(object, 'status', 'disruptionsAllowed')),
    ageColumn,
  ],
};

function size(map: unknown): number {
  return isObject(map) ? Object.keys(map).length : 0;
}

function budget(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : 'N/A';
}

function externalIp(service: ApiObject): string {
  const given = textsAt(service, 'spec', 'externalIPs').join(',');
  switch (textAt(service, 'spec', 'type')) {
    case 'ExternalName':
      return textAt(service, 'spec', 'externalName');
    case 'LoadBalancer':
      return given || '<pending>';
    default:
      return given || '<none>';
  }
}

function servicePorts(service: ApiObject): string {
  const ports = itemsAt(service, 'spec', 'ports').map((port) => {
    const nodePort = numberAt(port, 'nodePort');
    const number = nodePort > 0 ? `${numberAt(port, 'port')}:${nodePort}` : String(numberAt(port, 'port'));
    return `${number}/${textAt(port, 'protocol')}`;
  });
  return ports.length === 0 ? '<none>' : ports.join(',');
}

/** At most three addresses are shown. */
function endpoints(object: ApiObject): string {
  const all = itemsAt(object, 'subsets').flatMap((subset) => {
    const addresses = itemsAt(subset, 'addresses').map((address) => textAt(address, 'ip'));
    const ports = itemsAt(subset, 'ports').map((port) => numberAt(port, 'port'));
    return ports.length === 0 ? addresses : ports.flatMap((port) => addresses.map((ip) => `${ip}:${port}`));
  });
  if (all.length === 0) return '<none>';
  const shown = all.slice(0, 3).join(',');
  return all.length > 3 ? `${shown} + ${all.length - 3} more...` : shown;
}

function quota(prefix: string): (object: ApiObject) => string {
  return (object) => {
    const hard = at(object, 'status', 'hard');
    const names = isObject(hard) ? Object.keys(hard).sort() : [];
    return names
      .filter((name) => name.startsWith('limits.') === (prefix !== ''))
      .map((name) => `${name}: ${textAt(object, 'status', 'used', name) || '0'}/${textAt(hard, name)}`)
      .join(', ');
  };
}

const ACCESS_MODES: Readonly<Record<string, string>> = {
  ReadWriteOnce: 'RWO',
  ReadOnlyMany: 'ROX',
  ReadWriteMany: 'RWX',
  ReadWriteOncePod: 'RWOP',
};

function accessModes(modes: readonly string[]): string {
  return Object.entries(ACCESS_MODES)
    .filter(([mode]) => modes.includes(mode))
    .map(([, short]) => short)
    .join(',');
}

function phaseOf(object: ApiObject): string {
  const deleted = at(object, 'metadata', 'deletionTimestamp') !== undefined;
  return deleted ? 'Terminating' : textAt(object, 'status', 'phase');
}

function claimOf(object: ApiObject): string {
  const claim = at(object, 'spec', 'claimRef');
  return claim === undefined ? '' : `${textAt(claim, 'namespace')}/${textAt(claim, 'name')}`;
}

function nodeStatus(node: ApiObject): string {
  const ready = itemsAt(node, 'status', 'conditions').find((condition) => condition['type'] === 'Ready');
  const state = ready === undefined ? 'Unknown' : ready['status'] === 'True' ? 'Ready' : 'NotReady';
  return at(node, 'spec', 'unschedulable') === true ? `${state},SchedulingDisabled` : state;
}

const ROLE_PREFIX = 'node-role.kubernetes.io/';

function nodeRoles(node: ApiObject): string {
  const labels = at(node, 'metadata', 'labels');
  const roles = isObject(labels) ? Object.keys(labels).filter((key) => key.startsWith(ROLE_PREFIX)) : [];
  const names = roles.map((key) => key.slice(ROLE_PREFIX.length)).sort();
  return names.length === 0 ? '<none>' : names.join(',');
}

function nodeAddress(type: string): (node: ApiObject) => string {
  return (node) =>
    textAt(
      itemsAt(node, 'status', 'addresses').find((address) => address['type'] === type),
      'address',
    ) || '<none>';
}
