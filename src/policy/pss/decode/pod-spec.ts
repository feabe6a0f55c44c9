import type { JsonObject } from '../../../kube/types.ts';
import {
  SETTING,
  type ContainerFields,
  type PodFields,
  type SysctlFields,
  type VolumeFields,
  type ContainerList,
} from '../fields.ts';
import {
  objectIn,
  stringIn,
  type Reader,
  type Struct,
  booleanIn,
  int32In,
  listIn,
  optionalStringIn,
  stringsIn,
  overflow,
} from './reader.ts';
import { appended, clearContainer, createPool, newSysctl, NONE, newVolume, newContainer } from './scratch.ts';
import { readSharedField } from './security-context.ts';
import { MAX_CONTAINERS } from '../../../kube/pod.ts';

/** Something that the kubelet does to a container over the network: a probe or a lifecycle hook. */
interface Handler extends Struct {
  readonly httpGet: Action;
  readonly tcpSocket: Action;
}

interface Action extends Struct {
  readonly hostPath: string;
}

const LIFECYCLE: Struct = { name: 'Lifecycle', path: 'lifecycle' };
const POST_START = handler('LifecycleHandler', 'lifecycle.postStart');
const PRE_STOP = handler('LifecycleHandler', 'lifecycle.preStop');
const LIVENESS_PROBE = handler('Probe', 'livenessProbe');
const READINESS_PROBE = handler('Probe', 'readinessProbe');
const STARTUP_PROBE = handler('Probe', 'startupProbe');

function readLifecycle(reader: Reader, lifecycle: JsonObject | undefined, into: ContainerFields): void {
  for (const key in lifecycle) {
    if (key !== 'postStart' && key !== 'preStop') continue;
    const hook = objectIn(reader, LIFECYCLE, key, lifecycle[key], 'v1.LifecycleHandler');
    readHandler(reader, key === 'postStart' ? POST_START : PRE_STOP, hook, into);
  }
}

/** Collects the hosts that a probe or hook names; exec and grpc have none. */
function readHandler(reader: Reader, struct: Handler, handler: JsonObject | undefined, into: ContainerFields): void {
  for (const key in handler) {
    if (key === 'httpGet') {
      readHost(reader, struct.httpGet, objectIn(reader, struct, key, handler[key], 'v1.HTTPGetAction'), into);
    } else if (key === 'tcpSocket') {
      readHost(reader, struct.tcpSocket, objectIn(reader, struct, key, handler[key], 'v1.TCPSocketAction'), into);
    }
  }
}

function readHost(reader: Reader, struct: Action, action: JsonObject | undefined, into: ContainerFields): void {
  for (const key in action) {
    if (key !== 'host') continue;
    const host = stringIn(reader, struct, key, action[key]);
    if (host === '') continue;
    reader.pod.settings |= SETTING.handlerHosts;
    into.handlerHosts = appended(into.handlerHosts, {
      path: struct.hostPath,
      host,
    });
  }
}

function handler(name: string, path: string): Handler {
  return {
    name,
    path,
    httpGet: action('HTTPGetAction', `${path}.httpGet`),
    tcpSocket: action('TCPSocketAction', `${path}.tcpSocket`),
  };
}

function action(name: string, path: string): Action {
  return { name, path, hostPath: `${path}.host` };
}

const CONTAINER: Struct = { name: 'Container', path: '' };
const SECURITY_CONTEXT: Struct = {
  name: 'SecurityContext',
  path: 'securityContext',
};
const CAPABILITIES: Struct = {
  name: 'Capabilities',
  path: 'securityContext.capabilities',
};
const PORT: Struct = { name: 'ContainerPort', path: 'ports[*]' };

/** Reads a container; the reader stands on it. */
function readContainer(reader: Reader, container: JsonObject | undefined, into: ContainerFields): void {
  clearContainer(into);
  for (const key in container) {
    switch (key) {
      case 'name':
        into.name = stringIn(reader, CONTAINER, key, container[key]);
        break;
      case 'image':
        // No check reads it, but the significance of an update depends on it.
        stringIn(reader, CONTAINER, key, container[key]);
        break;
      case 'securityContext':
        readSecurityContext(reader, objectIn(reader, CONTAINER, key, container[key], 'v1.SecurityContext'), into);
        break;
      case 'ports':
        readPorts(reader, listIn(reader, CONTAINER, key, container[key], 'v1.ContainerPort'), into);
        break;
      case 'livenessProbe':
        readHandler(reader, LIVENESS_PROBE, objectIn(reader, CONTAINER, key, container[key], 'v1.Probe'), into);
        break;
      case 'readinessProbe':
        readHandler(reader, READINESS_PROBE, objectIn(reader, CONTAINER, key, container[key], 'v1.Probe'), into);
        break;
      case 'startupProbe':
        readHandler(reader, STARTUP_PROBE, objectIn(reader, CONTAINER, key, container[key], 'v1.Probe'), into);
        break;
      case 'lifecycle':
        readLifecycle(reader, objectIn(reader, CONTAINER, key, container[key], 'v1.Lifecycle'), into);
    }
  }
}

function readSecurityContext(reader: Reader, context: JsonObject | undefined, into: ContainerFields): void {
  into.hasSecurityContext = context !== undefined;
  for (const key in context) {
    switch (key) {
      case 'privileged':
        into.privileged = booleanIn(reader, SECURITY_CONTEXT, key, context[key]);
        if (into.privileged) reader.pod.settings |= SETTING.privileged;
        break;
      case 'allowPrivilegeEscalation':
        into.allowPrivilegeEscalation = booleanIn(reader, SECURITY_CONTEXT, key, context[key]);
        break;
      case 'procMount':
        reader.pod.settings |= SETTING.procMount;
        into.procMount = optionalStringIn(reader, SECURITY_CONTEXT, key, context[key], 'v1.ProcMountType');
        break;
      case 'capabilities':
        readCapabilities(reader, objectIn(reader, SECURITY_CONTEXT, key, context[key], 'v1.Capabilities'), into);
        break;
      default:
        readSharedField(reader, SECURITY_CONTEXT, key, context[key], into);
    }
  }
}

function readCapabilities(reader: Reader, capabilities: JsonObject | undefined, into: ContainerFields): void {
  for (const key in capabilities) {
    if (key === 'drop') {
      into.capabilitiesDrop = stringsIn(reader, CAPABILITIES, key, capabilities[key], 'v1.Capability');
    } else if (key === 'add') {
      into.capabilitiesAdd = stringsIn(reader, CAPABILITIES, key, capabilities[key], 'v1.Capability');
      if (into.capabilitiesAdd.length > 0) reader.pod.settings |= SETTING.capabilitiesAdd;
    }
  }
}

function readPorts(reader: Reader, ports: readonly unknown[], into: ContainerFields): void {
  for (let index = 0; index < ports.length; index++) {
    reader.index = index;
    const port = objectIn(reader, CONTAINER, 'ports[*]', ports[index], 'v1.ContainerPort');
    for (const key in port) {
      if (key !== 'hostPort') continue;
      const hostPort = int32In(reader, PORT, key, port[key]) ?? 0;
      if (hostPort === 0) continue;
      reader.pod.settings |= SETTING.hostPorts;
      into.hostPorts = appended(into.hostPorts, { index, port: hostPort });
    }
  }
}

const POD_SECURITY_CONTEXT: Struct = {
  name: 'PodSecurityContext',
  path: 'securityContext',
};
const SYSCTL: Struct = { name: 'Sysctl', path: 'securityContext.sysctls[*]' };

const poolOfSysctls = createPool(newSysctl);

/** Reads the security context of the pod; the reader stands on the pod spec. */
function readPodSecurityContext(reader: Reader, context: JsonObject | undefined, into: PodFields): void {
  for (const key in context) {
    if (key === 'sysctls') into.sysctls = readSysctls(reader, context[key]);
    else readSharedField(reader, POD_SECURITY_CONTEXT, key, context[key], into);
  }
}

function readSysctls(reader: Reader, value: unknown): readonly SysctlFields[] {
  const list = listIn(reader, POD_SECURITY_CONTEXT, 'sysctls', value, 'v1.Sysctl');
  reader.pod.settings |= SETTING.sysctls;
  const sysctls = poolOfSysctls(list.length);
  for (const [index, into] of sysctls.entries()) {
    reader.index = index;
    into.index = index;
    const sysctl = objectIn(reader, POD_SECURITY_CONTEXT, 'sysctls[*]', list[index], 'v1.Sysctl');
    into.name = stringIn(reader, SYSCTL, 'name', sysctl?.name);
  }
  return sysctls;
}

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
function readVolumes(reader: Reader, value: unknown): readonly VolumeFields[] {
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

interface ContainerKind {
  readonly list: ContainerList;
  readonly element: string;
  readonly type: string;
}

const POD_SPEC_POD_SPEC: Struct = { name: 'PodSpec', path: '' };
const POD_OS: Struct = { name: 'PodOS', path: 'os' };
const INIT: ContainerKind = {
  list: 'initContainers',
  element: 'initContainers[*]',
  type: 'v1.Container',
};
const REGULAR: ContainerKind = {
  list: 'containers',
  element: 'containers[*]',
  type: 'v1.Container',
};
const EPHEMERAL: ContainerKind = {
  list: 'ephemeralContainers',
  element: 'ephemeralContainers[*]',
  type: 'v1.EphemeralContainer',
};

const poolOfContainers = createPool(newContainer);

/** Reads a pod spec into the pod of the reader, its containers in the order in which the API server visits them. */
export function readPodSpec(reader: Reader, spec: JsonObject): void {
  const into = reader.pod;
  reader.setter = into;
  let initContainers: readonly unknown[] = NONE;
  let containers: readonly unknown[] = NONE;
  let ephemeralContainers: readonly unknown[] = NONE;
  for (const key in spec) {
    switch (key) {
      case 'containers':
        containers = listIn(reader, POD_SPEC_POD_SPEC, key, spec[key], 'v1.Container');
        break;
      case 'initContainers':
        initContainers = listIn(reader, POD_SPEC_POD_SPEC, key, spec[key], 'v1.Container');
        break;
      case 'ephemeralContainers':
        ephemeralContainers = listIn(reader, POD_SPEC_POD_SPEC, key, spec[key], 'v1.EphemeralContainer');
        break;
      case 'volumes':
        reader.pod.settings |= SETTING.volumes;
        into.volumes = readVolumes(reader, spec[key]);
        break;
      case 'securityContext':
        readPodSecurityContext(
          reader,
          objectIn(reader, POD_SPEC_POD_SPEC, key, spec[key], 'v1.PodSecurityContext'),
          into,
        );
        break;
      case 'hostNetwork':
        into.hostNetwork = booleanIn(reader, POD_SPEC_POD_SPEC, key, spec[key]) === true;
        if (into.hostNetwork) reader.pod.settings |= SETTING.hostNamespaces;
        break;
      case 'hostPID':
        into.hostPID = booleanIn(reader, POD_SPEC_POD_SPEC, key, spec[key]) === true;
        if (into.hostPID) reader.pod.settings |= SETTING.hostNamespaces;
        break;
      case 'hostIPC':
        into.hostIPC = booleanIn(reader, POD_SPEC_POD_SPEC, key, spec[key]) === true;
        if (into.hostIPC) reader.pod.settings |= SETTING.hostNamespaces;
        break;
      case 'hostUsers':
        into.hostUsers = booleanIn(reader, POD_SPEC_POD_SPEC, key, spec[key]);
        break;
      case 'os':
        readOs(reader, objectIn(reader, POD_SPEC_POD_SPEC, key, spec[key], 'v1.PodOS'), into);
        break;
      case 'runtimeClassName':
        // No check reads it, but exemptions do.
        stringIn(reader, POD_SPEC_POD_SPEC, key, spec[key]);
    }
  }
  const first = initContainers.length;
  const count = first + containers.length + ephemeralContainers.length;
  if (count > MAX_CONTAINERS) {
    overflow(reader, 'containers', { count, max: MAX_CONTAINERS });
    return;
  }
  const all = poolOfContainers(count);
  readContainers(reader, INIT, initContainers, all, 0);
  readContainers(reader, REGULAR, containers, all, first);
  readContainers(reader, EPHEMERAL, ephemeralContainers, all, first + containers.length);
  into.containers = all;
}

/** Reads one list of containers into the places from `offset` on. */
function readContainers(
  reader: Reader,
  kind: ContainerKind,
  items: readonly unknown[],
  into: readonly ContainerFields[],
  offset: number,
): void {
  const spec = reader.setter;
  for (let index = 0; index < items.length; index++) {
    const container = into[offset + index];
    if (container === undefined) return;
    reader.index = index;
    const json = objectIn(reader, POD_SPEC_POD_SPEC, kind.element, items[index], kind.type);
    container.list = kind.list;
    container.index = index;
    reader.setter = container;
    readContainer(reader, json, container);
    reader.setter = spec;
  }
}

function readOs(reader: Reader, os: JsonObject | undefined, into: PodFields): void {
  into.osName = stringIn(reader, POD_OS, 'name', os?.name, 'v1.OSName');
}
