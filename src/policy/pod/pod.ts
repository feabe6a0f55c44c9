/**
 * The pod and pod template fields that decisions depend on. Each review reads them once and verifies their types.
 * `null` is treated as absent, absent fields get Go's zero values, and unknown fields are ignored. Policies can read
 * only the fields listed here, so they never read a value whose type was not verified.
 */
import { beyondLimit, type FieldError, formatFieldError, tooLong, unmarshalError } from '../../kube/field-error.ts';
import { LIMITS } from '../../kube/limits.ts';
import type { CONTAINER_LISTS } from '../../kube/pod.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import {
  booleanAt,
  createSource,
  type DecodeError,
  int32At,
  int64At,
  int64sAt,
  objectAt,
  objectsAt,
  optionalStringAt,
  reportTooMany,
  type DecodeSource,
  stringAt,
  stringMapAt,
  stringsAt,
} from './reader.ts';

export type ContainerList = (typeof CONTAINER_LISTS)[number];

/** SELinux options. Empty fields are treated as absent. */
export interface SeLinuxFields {
  readonly level: string;
  readonly role: string;
  readonly type: string;
  readonly user: string;
}

export interface SeccompProfile {
  readonly type: string;
  readonly localhostProfile?: string;
}

export interface Capabilities {
  readonly add: readonly string[];
  readonly drop: readonly string[];
}

/**
 * The fields that pod and container security contexts share. The values of a container do not include those that it
 * inherits from the pod.
 */
export interface SecurityContextFields {
  /** Path below the pod spec, such as `containers[0]`. Empty for the pod itself. */
  readonly location: string;
  readonly hasSecurityContext: boolean;
  readonly runAsUser: number | undefined;
  readonly runAsNonRoot: boolean | undefined;
  readonly seLinuxOptions: SeLinuxFields | undefined;
  readonly seccompProfile: SeccompProfile | undefined;
  /** Type of the profile. Empty if the profile has no type, and `undefined` if there is no profile. */
  readonly appArmorProfile: string | undefined;
  readonly hostProcess: boolean;
  readonly userName: string | undefined;
}

export interface ContainerFields extends SecurityContextFields {
  readonly json: JsonObject;
  readonly list: ContainerList;
  readonly index: number;
  readonly name: string;
  readonly image: string;
  readonly privileged: boolean;
  readonly procMount: string | undefined;
  readonly allowPrivilegeEscalation: boolean | undefined;
  readonly readOnlyRootFilesystem: boolean | undefined;
  readonly capabilities: Capabilities | undefined;
  /** The pod's seccomp annotation for this container, or `undefined` if there is none. */
  readonly seccompAnnotation: string | undefined;
}

/** A container port with a hostPort other than 0. */
interface HostPort {
  readonly container: ContainerFields;
  /** Index in the container's port list. */
  readonly index: number;
  readonly port: number;
}

/** A non-empty host in the `httpGet` or `tcpSocket` action of a probe or a lifecycle hook. */
interface HandlerHost {
  readonly container: ContainerFields;
  /** Path below the container, such as `livenessProbe.httpGet.host`. */
  readonly path: string;
  readonly host: string;
}

export interface VolumeFields {
  readonly json: JsonObject;
  readonly index: number;
  readonly name: string;
  /** Names of the known volume sources that are set, in VOLUME_SOURCES order. A valid volume has one source. */
  readonly sources: readonly string[];
  /** Path of the hostPath source, or `undefined` if there is none. */
  readonly hostPath: string | undefined;
  /** Driver of the flexVolume source, or `undefined` if there is none. */
  readonly flexDriver: string | undefined;
}

export interface PodFields extends SecurityContextFields {
  readonly json: JsonObject;
  readonly annotations: Readonly<Record<string, string>>;
  /** The pod's seccomp annotation, or an empty string if there is none. */
  readonly seccompAnnotation: string;
  readonly serviceAccountName: string;
  readonly runtimeClassName: string;
  readonly osName: string;
  readonly hostNetwork: boolean;
  readonly hostPID: boolean;
  readonly hostIPC: boolean;
  readonly hostUsers: boolean | undefined;
  readonly fsGroup: number | undefined;
  /** The supplemental groups. Also `undefined` for an empty list, because the API server drops empty lists. */
  readonly supplementalGroups: readonly number[] | undefined;
  readonly sysctls: readonly string[];
  readonly volumes: readonly VolumeFields[];
  /** Init, regular and ephemeral containers, in the order in which the API server visits them. */
  readonly containers: readonly ContainerFields[];
  readonly hostPorts: readonly HostPort[];
  readonly handlerHosts: readonly HandlerHost[];
  /** Path of the first null in a list of objects, which is treated as an empty object. See `findCompletionError`. */
  readonly nullObject: string | undefined;
}

export type DecodedPod =
  | { readonly pod: PodFields; readonly error?: never }
  | { readonly error: DecodeError; readonly pod?: never };

const NONE: readonly never[] = [];
const NO_ANNOTATIONS: PodFields['annotations'] = {};

/**
 * Decodes a pod or pod template. Accepts values of any type. The error refers to the first field that has the wrong
 * type.
 */
export function decodePod(podLike: unknown): DecodedPod {
  if (isObject(podLike)) return decodePodAt(createSource(podLike, 'Pod'));
  const message = podLike == null ? 'there is no pod' : unmarshalError(podLike, '', 'v1.Pod');
  return {
    error: { field: { type: 'FieldValueInvalid', path: '', value: podLike, detail: 'must be an object' }, message },
  };
}

/** The only item in the container list of a stored pod that is too large. */
const TOO_LARGE = 'too large to evaluate';

/**
 * Returns the spec that the store keeps for a pod whose relevant fields exceed the limit. Decoding the spec fails even
 * after other code has copied or defaulted it, so every policy denies the pod.
 */
export function createTooLargeSpec(spec: JsonObject): JsonObject {
  const names = ['serviceAccountName', 'runtimeClassName'].map((field) => [field, spec[field]] as const);
  const short = names.filter(([, name]) => typeof name === 'string' && name.length <= LIMITS.nameCharacters);
  return { ...Object.fromEntries(short), containers: [TOO_LARGE] };
}

function isTooLarge({ containers }: JsonObject): boolean {
  return Array.isArray(containers) && containers[0] === TOO_LARGE;
}

function reportTooLarge({ state }: DecodeSource): void {
  const field = tooLong('spec', LIMITS.storedPodBytes);
  state.error = { field, message: formatFieldError(field) };
}

/** Like `decodePod`, but for a pod template inside another object. */
export function decodePodAt(source: DecodeSource): DecodedPod {
  const pod = readPod(source);
  const { error } = source.state;
  return error === undefined ? { pod } : { error };
}

/** Like `decodePod`, but for decisions that copy and default the pod. The error refers to the first invalid field. */
export function decodeMutablePod(podLike: unknown): { readonly pod: PodFields } | { readonly error: FieldError } {
  const { pod, error } = decodePod(podLike);
  if (error) return { error: error.field };
  const completionError = findCompletionError(pod);
  return completionError ? { error: completionError } : { pod };
}

/**
 * Returns the path of a field in the pod spec or in a container, such as
 * `spec.containers[0].securityContext.privileged`.
 */
export function fieldPath({ location }: SecurityContextFields, field: string): string {
  return location === '' ? `spec.${field}` : `spec.${location}.${field}`;
}

/**
 * Returns an error if SCC admission cannot copy and default a decoded pod because a list of objects contains null or
 * the annotations exceed the API's size limit. Pod Security Admission still evaluates such pods.
 */
export function findCompletionError({ nullObject, annotations }: PodFields): FieldError | undefined {
  return (
    findTooLong(annotations) ??
    (nullObject === undefined
      ? undefined
      : { type: 'FieldValueInvalid', path: nullObject, value: null, detail: 'must be an object' })
  );
}

function findTooLong(annotations: PodFields['annotations']): FieldError | undefined {
  let length = 0;
  for (const name in annotations) length += name.length + (annotations[name] ?? '').length;
  return length > LIMITS.annotationBytes ? beyondLimit('metadata.annotations', 'annotationBytes') : undefined;
}

/** A record that a reader fills field by field, in JSON order. Most pods set only a few of the fields. */
type Filled<T> = { -readonly [Key in keyof T]: T[Key] };

interface PodBuilder extends Filled<PodFields> {
  containers: Filled<ContainerFields>[];
  hostPorts: HostPort[];
  handlerHosts: HandlerHost[];
}

function readPod(source: DecodeSource): PodFields {
  const metadata = objectAt(source, 'metadata', 'ObjectMeta');
  const annotations = metadata ? stringMapAt(metadata, 'annotations') : NO_ANNOTATIONS;
  const pod: PodBuilder = {
    json: source.json,
    location: '',
    hasSecurityContext: false,
    runAsUser: undefined,
    runAsNonRoot: undefined,
    seLinuxOptions: undefined,
    seccompProfile: undefined,
    appArmorProfile: undefined,
    hostProcess: false,
    userName: undefined,
    annotations,
    seccompAnnotation: annotations[SECCOMP_POD_ANNOTATION] ?? '',
    serviceAccountName: '',
    runtimeClassName: '',
    osName: '',
    hostNetwork: false,
    hostPID: false,
    hostIPC: false,
    hostUsers: undefined,
    fsGroup: undefined,
    supplementalGroups: undefined,
    sysctls: NONE,
    volumes: NONE,
    containers: [],
    hostPorts: [],
    handlerHosts: [],
    nullObject: undefined,
  };
  const spec = objectAt(source, 'spec', 'PodSpec');
  if (spec && isTooLarge(spec.json)) reportTooLarge(spec);
  else if (spec) readPodSpec(spec, pod);
  if (hasKeyWith(annotations, SECCOMP_CONTAINER_ANNOTATION_PREFIX)) readSeccompAnnotations(pod);
  pod.nullObject = source.state.nullObject;
  return pod;
}

type ReadField = (spec: DecodeSource, key: string, pod: PodBuilder) => void;

function readHostNamespace(spec: DecodeSource, key: string, pod: PodBuilder): void {
  pod[key as 'hostNetwork' | 'hostPID' | 'hostIPC'] = booleanAt(spec, key) ?? false;
}

/** Readers of the other pod spec fields. Stores and large reviews keep these fields as a whole (see `POD_SPEC`). */
export const POD_SPEC_FIELDS: ReadonlyMap<string, ReadField> = new Map<string, ReadField>([
  ['hostNetwork', readHostNamespace],
  ['hostPID', readHostNamespace],
  ['hostIPC', readHostNamespace],
  ['hostUsers', (spec, key, pod) => (pod.hostUsers = booleanAt(spec, key))],
  ['runtimeClassName', (spec, key, pod) => (pod.runtimeClassName = stringAt(spec, key))],
  ['serviceAccountName', (spec, key, pod) => (pod.serviceAccountName = stringAt(spec, key) || pod.serviceAccountName)],
  // API servers use the deprecated field only if serviceAccountName is not set.
  ['serviceAccount', (spec, key, pod) => (pod.serviceAccountName ||= stringAt(spec, key))],
  ['os', (spec, key, pod) => (pod.osName = readOsName(objectAt(spec, key, 'PodOS')))],
]);

function readPodSpec(spec: DecodeSource, pod: PodBuilder): void {
  let initContainers: readonly DecodeSource[] = NONE;
  let containers: readonly DecodeSource[] = NONE;
  let ephemeralContainers: readonly DecodeSource[] = NONE;
  for (const key in spec.json) {
    switch (key) {
      case 'initContainers':
        initContainers = objectsAt(spec, key, 'Container');
        break;
      case 'containers':
        containers = objectsAt(spec, key, 'Container');
        break;
      case 'ephemeralContainers':
        ephemeralContainers = objectsAt(spec, key, 'EphemeralContainer');
        break;
      case 'volumes':
        pod.volumes = objectsAt(spec, key, 'Volume').map(readVolume);
        break;
      case 'securityContext':
        readPodSecurityContext(objectAt(spec, key, 'PodSecurityContext'), pod);
        break;
      default:
        POD_SPEC_FIELDS.get(key)?.(spec, key, pod);
    }
  }
  const count = initContainers.length + containers.length + ephemeralContainers.length;
  if (count > LIMITS.containers) {
    reportTooMany(spec, 'containers', 'containers', count);
    return;
  }
  for (const source of initContainers) readContainer(source, pod);
  for (const source of containers) readContainer(source, pod);
  for (const source of ephemeralContainers) readContainer(source, pod);
}

function hasKeyWith(map: object, prefix: string): boolean {
  for (const key in map) if (key.startsWith(prefix)) return true;
  return false;
}

function readSeccompAnnotations({ annotations, containers }: PodBuilder): void {
  for (const container of containers) {
    container.seccompAnnotation = annotations[SECCOMP_CONTAINER_ANNOTATION_PREFIX + container.name];
  }
}

function readOsName(os: DecodeSource | undefined): string {
  return os ? stringAt(os, 'name', 'OSName') : '';
}

function readPodSecurityContext(context: DecodeSource | undefined, pod: PodBuilder): void {
  if (context === undefined) return;
  pod.hasSecurityContext = true;
  for (const key in context.json) {
    switch (key) {
      case 'fsGroup':
        pod.fsGroup = int64At(context, key);
        break;
      case 'supplementalGroups': {
        const groups = int64sAt(context, key);
        pod.supplementalGroups = groups.length === 0 ? undefined : groups;
        break;
      }
      case 'sysctls':
        pod.sysctls = objectsAt(context, key, 'Sysctl').map((sysctl) => stringAt(sysctl, 'name'));
        break;
      default:
        readSharedField(context, key, pod);
    }
  }
}

/** Reads a field that pod and container security contexts share. Ignores other fields. */
function readSharedField(context: DecodeSource, key: string, into: Filled<SecurityContextFields>): void {
  switch (key) {
    case 'runAsUser':
      into.runAsUser = int64At(context, key);
      break;
    case 'runAsNonRoot':
      into.runAsNonRoot = booleanAt(context, key);
      break;
    case 'seLinuxOptions':
      into.seLinuxOptions = readSeLinuxOptions(context);
      break;
    case 'seccompProfile':
      into.seccompProfile = readSeccompProfile(context);
      break;
    case 'appArmorProfile': {
      const profile = objectAt(context, key, 'AppArmorProfile');
      into.appArmorProfile = profile && stringAt(profile, 'type', 'AppArmorProfileType');
      break;
    }
    case 'windowsOptions': {
      const options = objectAt(context, key, 'WindowsSecurityContextOptions');
      into.hostProcess = (options && booleanAt(options, 'hostProcess')) ?? false;
      into.userName = options && optionalStringAt(options, 'runAsUserName');
    }
  }
}

/** Reads the SELinux options of a security context or of an SCC strategy. */
export function readSeLinuxOptions(context: DecodeSource): SeLinuxFields | undefined {
  const options = objectAt(context, 'seLinuxOptions', 'SELinuxOptions');
  return (
    options && {
      level: stringAt(options, 'level'),
      role: stringAt(options, 'role'),
      type: stringAt(options, 'type'),
      user: stringAt(options, 'user'),
    }
  );
}

function readSeccompProfile(context: DecodeSource): SeccompProfile | undefined {
  const profile = objectAt(context, 'seccompProfile', 'SeccompProfile');
  if (profile === undefined) return undefined;
  const type = stringAt(profile, 'type', 'SeccompProfileType');
  const localhostProfile = optionalStringAt(profile, 'localhostProfile');
  return localhostProfile === undefined ? { type } : { type, localhostProfile };
}

function readContainer(source: DecodeSource, pod: PodBuilder): void {
  const { json, key: list, index = 0 } = source;
  const container: Filled<ContainerFields> = {
    json,
    location: `${list}[${index}]`,
    list: list as ContainerList,
    index,
    hasSecurityContext: false,
    runAsUser: undefined,
    runAsNonRoot: undefined,
    seLinuxOptions: undefined,
    seccompProfile: undefined,
    appArmorProfile: undefined,
    hostProcess: false,
    userName: undefined,
    name: '',
    image: '',
    privileged: false,
    procMount: undefined,
    allowPrivilegeEscalation: undefined,
    readOnlyRootFilesystem: undefined,
    capabilities: undefined,
    seccompAnnotation: undefined,
  };
  pod.containers.push(container);
  for (const key in json) {
    switch (key) {
      case 'name':
      case 'image':
        container[key] = stringAt(source, key);
        break;
      case 'securityContext':
        readSecurityContext(objectAt(source, key, 'SecurityContext'), container);
        break;
      case 'ports':
        readPorts(source, container, pod.hostPorts);
        break;
      case 'livenessProbe':
      case 'readinessProbe':
      case 'startupProbe':
        readHandler(objectAt(source, key, 'Probe'), key, container, pod.handlerHosts);
        break;
      case 'lifecycle':
        readLifecycle(objectAt(source, key, 'Lifecycle'), container, pod.handlerHosts);
    }
  }
}

function readSecurityContext(context: DecodeSource | undefined, container: Filled<ContainerFields>): void {
  if (context === undefined) return;
  container.hasSecurityContext = true;
  for (const key in context.json) {
    switch (key) {
      case 'privileged':
        container.privileged = booleanAt(context, key) ?? false;
        break;
      case 'allowPrivilegeEscalation':
      case 'readOnlyRootFilesystem':
        container[key] = booleanAt(context, key);
        break;
      case 'procMount':
        container.procMount = optionalStringAt(context, key, 'ProcMountType');
        break;
      case 'capabilities':
        container.capabilities = readCapabilities(context);
        break;
      default:
        readSharedField(context, key, container);
    }
  }
}

function readCapabilities(context: DecodeSource): Capabilities | undefined {
  const capabilities = objectAt(context, 'capabilities', 'Capabilities');
  return (
    capabilities && {
      add: stringsAt(capabilities, 'add', 'Capability'),
      drop: stringsAt(capabilities, 'drop', 'Capability'),
    }
  );
}

function readPorts(source: DecodeSource, container: ContainerFields, hostPorts: HostPort[]): void {
  for (const port of objectsAt(source, 'ports', 'ContainerPort')) {
    const hostPort = int32At(port, 'hostPort') ?? 0;
    if (hostPort !== 0) hostPorts.push({ container, index: port.index ?? 0, port: hostPort });
  }
}

function readLifecycle(lifecycle: DecodeSource | undefined, container: ContainerFields, hosts: HandlerHost[]): void {
  if (lifecycle === undefined) return;
  readHandler(objectAt(lifecycle, 'postStart', 'LifecycleHandler'), 'lifecycle.postStart', container, hosts);
  readHandler(objectAt(lifecycle, 'preStop', 'LifecycleHandler'), 'lifecycle.preStop', container, hosts);
}

/** Collects the hosts in a probe or lifecycle hook. The exec, grpc and sleep actions have no host. */
function readHandler(
  handler: DecodeSource | undefined,
  path: string,
  container: ContainerFields,
  hosts: HandlerHost[],
): void {
  if (handler === undefined) return;
  const httpGet = objectAt(handler, 'httpGet', 'HTTPGetAction');
  const tcpSocket = objectAt(handler, 'tcpSocket', 'TCPSocketAction');
  const httpHost = httpGet ? stringAt(httpGet, 'host') : '';
  const tcpHost = tcpSocket ? stringAt(tcpSocket, 'host') : '';
  if (httpHost !== '') hosts.push({ container, path: `${path}.httpGet.host`, host: httpHost });
  if (tcpHost !== '') hosts.push({ container, path: `${path}.tcpSocket.host`, host: tcpHost });
}

/**
 * Volume sources with their Go types, in API order. If a volume has several sources, both Pod Security messages and SCC
 * admission use the first one.
 * @see https://github.com/kubernetes/api/blob/v0.36.0/core/v1/types.go
 */
const SOURCE_TYPES: readonly (readonly [source: string, type: string])[] = [
  ['hostPath', 'HostPathVolumeSource'],
  ['emptyDir', 'EmptyDirVolumeSource'],
  ['gcePersistentDisk', 'GCEPersistentDiskVolumeSource'],
  ['awsElasticBlockStore', 'AWSElasticBlockStoreVolumeSource'],
  ['gitRepo', 'GitRepoVolumeSource'],
  ['secret', 'SecretVolumeSource'],
  ['nfs', 'NFSVolumeSource'],
  ['iscsi', 'ISCSIVolumeSource'],
  ['glusterfs', 'GlusterfsVolumeSource'],
  ['persistentVolumeClaim', 'PersistentVolumeClaimVolumeSource'],
  ['rbd', 'RBDVolumeSource'],
  ['flexVolume', 'FlexVolumeSource'],
  ['cinder', 'CinderVolumeSource'],
  ['cephfs', 'CephFSVolumeSource'],
  ['flocker', 'FlockerVolumeSource'],
  ['downwardAPI', 'DownwardAPIVolumeSource'],
  ['fc', 'FCVolumeSource'],
  ['azureFile', 'AzureFileVolumeSource'],
  ['configMap', 'ConfigMapVolumeSource'],
  ['vsphereVolume', 'VsphereVirtualDiskVolumeSource'],
  ['quobyte', 'QuobyteVolumeSource'],
  ['azureDisk', 'AzureDiskVolumeSource'],
  ['photonPersistentDisk', 'PhotonPersistentDiskVolumeSource'],
  ['projected', 'ProjectedVolumeSource'],
  ['portworxVolume', 'PortworxVolumeSource'],
  ['scaleIO', 'ScaleIOVolumeSource'],
  ['storageos', 'StorageOSVolumeSource'],
  ['csi', 'CSIVolumeSource'],
  ['ephemeral', 'EphemeralVolumeSource'],
  ['image', 'ImageVolumeSource'],
];

/** Names of all volume sources, in API order. */
export const VOLUME_SOURCES: readonly string[] = SOURCE_TYPES.map(([name]) => name);

interface KnownSource {
  readonly type: string;
  /** The `sources` value of a volume that has only this source. */
  readonly alone: readonly string[];
}

const KNOWN_SOURCES: ReadonlyMap<string, KnownSource> = new Map(
  SOURCE_TYPES.map(([name, type]) => [name, { type, alone: [name] }]),
);

function readVolume(source: DecodeSource): VolumeFields {
  let sources: readonly string[] = NONE;
  let hostPath: string | undefined;
  let flexDriver: string | undefined;
  for (const key in source.json) {
    const known = KNOWN_SOURCES.get(key);
    const present = known && objectAt(source, key, known.type);
    if (known === undefined || present === undefined) continue;
    sources = sources.length === 0 ? known.alone : [...sources, key].sort(byRank);
    if (key === 'hostPath') hostPath = stringAt(present, 'path');
    else if (key === 'flexVolume') flexDriver = stringAt(present, 'driver');
  }
  return { json: source.json, index: source.index ?? 0, name: stringAt(source, 'name'), sources, hostPath, flexDriver };
}

function byRank(a: string, b: string): number {
  return VOLUME_SOURCES.indexOf(a) - VOLUME_SOURCES.indexOf(b);
}
