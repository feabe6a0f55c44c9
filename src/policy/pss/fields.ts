/**
 * The fields of a pod that checks may read, decoded: right in type, `null` gone, zero values filled in where Go has them.
 * A check cannot read a field that `decode/` does not know, and so never one whose type nobody has verified.
 */
import type { CONTAINER_LISTS } from '../../kube/pod.ts';

/**
 * Fields that many pods leave alone, each with its bit. Who judges nothing but fields of these can let pods pass
 * unseen that set none of them.
 */
export const SETTING = {
  annotations: 1 << 0,
  appArmorProfile: 1 << 1,
  capabilitiesAdd: 1 << 2,
  handlerHosts: 1 << 3,
  hostNamespaces: 1 << 4,
  hostPorts: 1 << 5,
  privileged: 1 << 6,
  procMount: 1 << 7,
  runAsUser: 1 << 8,
  seLinuxOptions: 1 << 9,
  seccompProfile: 1 << 10,
  sysctls: 1 << 11,
  volumes: 1 << 12,
  windowsOptions: 1 << 13,
} as const;

/** The bit that every pod has. */
export const EVERY_POD = 1 << 14;

export type Setting = keyof typeof SETTING;

export type ContainerList = (typeof CONTAINER_LISTS)[number];

/** What a security context sets, be it of the pod or of a container. */
export interface SetterFields {
  /** The list of a container; `undefined` for the pod. */
  list: ContainerList | undefined;
  /** The place of a container in its list. */
  index: number;
  hasSecurityContext: boolean;
  runAsNonRoot: boolean | undefined;
  runAsUser: number | undefined;
  /** The type of the profile: empty in a profile without one, `undefined` without a profile. */
  seccompProfile: string | undefined;
  /** Like `seccompProfile`. */
  appArmorProfile: string | undefined;
  seLinuxType: string;
  seLinuxUser: string;
  seLinuxRole: string;
  hostProcess: boolean | undefined;
}

/** A port of the host that a container takes. */
export interface HostPort {
  /** The place in the container's list of ports. */
  readonly index: number;
  readonly port: number;
}

/** A host that a probe or a lifecycle hook names. */
export interface HandlerHost {
  /** From the container to the host. */
  readonly path: string;
  readonly host: string;
}

export interface ContainerFields extends SetterFields {
  list: ContainerList;
  name: string;
  privileged: boolean | undefined;
  procMount: string | undefined;
  allowPrivilegeEscalation: boolean | undefined;
  capabilitiesAdd: readonly string[];
  capabilitiesDrop: readonly string[];
  /** Those that are not 0. */
  hostPorts: readonly HostPort[];
  /** Those that are not empty, of `httpGet` and `tcpSocket`. */
  handlerHosts: readonly HandlerHost[];
}

export interface VolumeFields {
  index: number;
  name: string;
  /** The names of the known sources that are present; more than one is odd, but legal to send. */
  sources: readonly string[];
  /** The path of the hostPath source; `undefined` without that source. */
  hostPath: string | undefined;
}

export interface SysctlFields {
  index: number;
  name: string;
}

export type Annotations = Readonly<Record<string, string | null>>;

export interface PodFields extends SetterFields {
  list: undefined;
  /** The bits of what the pod and its containers set; decoding sets them. */
  settings: number;
  /** A null stands for the empty string. */
  annotations: Annotations;
  hostNetwork: boolean;
  hostPID: boolean;
  hostIPC: boolean;
  hostUsers: boolean | undefined;
  osName: string;
  sysctls: readonly SysctlFields[];
  volumes: readonly VolumeFields[];
  /** All containers: init, regular, ephemeral. */
  containers: readonly ContainerFields[];
  /** The names of all of them as texts have it, once one has asked. */
  allNames: string;
}

export type Setter = PodFields | ContainerFields;

/** The path of the pod spec or of a container, such as `spec.containers[0]`. */
export function pathOf(setter: SetterFields): string {
  return setter.list === undefined ? 'spec' : `spec.${setter.list}[${setter.index}]`;
}
