import {
  EVERY_POD,
  type Annotations,
  type ContainerFields,
  type PodFields,
  type SetterFields,
  type SysctlFields,
  type VolumeFields,
} from '../fields.ts';

/** Lists up to this length are kept for the next pod; longer ones are made anew, so that no pod can bloat the process. */
const KEPT = 64;

export const NONE: readonly never[] = [];
export const NO_ANNOTATIONS: Annotations = Object.freeze({});

/** The list with one more item; a list that was empty is made now, later items go into the same. */
export function appended<T>(list: readonly T[], item: T): readonly T[] {
  if (list.length === 0) return [item];
  (list as T[]).push(item);
  return list;
}

/**
 * Returns lists of records to fill, the same ones each time: a pod that passes costs no memory. What the list held
 * before is gone with the next call.
 */
export function createPool<T>(make: () => T): (length: number) => readonly T[] {
  const records: T[] = [];
  const lists: (readonly T[])[] = [];
  return (length) => {
    if (length > KEPT) return Array.from({ length }, make);
    while (records.length < length) records.push(make());
    return (lists[length] ??= records.slice(0, length));
  };
}

export function newPod(): PodFields {
  return {
    ...newSetter(),
    list: undefined,
    settings: EVERY_POD,
    annotations: NO_ANNOTATIONS,
    hostNetwork: false,
    hostPID: false,
    hostIPC: false,
    hostUsers: undefined,
    osName: '',
    sysctls: NONE,
    volumes: NONE,
    containers: NONE,
    allNames: '',
  };
}

/** True of a pod that should not be held in memory longer than necessary. */
export function isLarge({ containers, volumes, sysctls }: PodFields): boolean {
  return containers.length > KEPT || volumes.length > KEPT || sysctls.length > KEPT;
}

/** Makes it a pod that sets nothing. */
export function clearPod(pod: PodFields): void {
  clearSetter(pod);
  pod.settings = EVERY_POD;
  pod.annotations = NO_ANNOTATIONS;
  pod.hostNetwork = false;
  pod.hostPID = false;
  pod.hostIPC = false;
  pod.hostUsers = undefined;
  pod.osName = '';
  pod.sysctls = NONE;
  pod.volumes = NONE;
  pod.containers = NONE;
  pod.allNames = '';
}

export function newContainer(): ContainerFields {
  return {
    ...newSetter(),
    list: 'containers',
    name: '',
    privileged: undefined,
    procMount: undefined,
    allowPrivilegeEscalation: undefined,
    capabilitiesAdd: NONE,
    capabilitiesDrop: NONE,
    hostPorts: NONE,
    handlerHosts: NONE,
  };
}

/** Makes it a container that sets nothing, wherever it is. */
export function clearContainer(container: ContainerFields): void {
  clearSetter(container);
  container.name = '';
  container.privileged = undefined;
  container.procMount = undefined;
  container.allowPrivilegeEscalation = undefined;
  container.capabilitiesAdd = NONE;
  container.capabilitiesDrop = NONE;
  container.hostPorts = NONE;
  container.handlerHosts = NONE;
}

export function newVolume(): VolumeFields {
  return { index: 0, name: '', sources: NONE, hostPath: undefined };
}

export function newSysctl(): SysctlFields {
  return { index: 0, name: '' };
}

function newSetter(): SetterFields {
  return {
    list: undefined,
    index: 0,
    hasSecurityContext: false,
    runAsNonRoot: undefined,
    runAsUser: undefined,
    seccompProfile: undefined,
    appArmorProfile: undefined,
    seLinuxType: '',
    seLinuxUser: '',
    seLinuxRole: '',
    hostProcess: undefined,
  };
}

function clearSetter(setter: SetterFields): void {
  setter.hasSecurityContext = false;
  setter.runAsNonRoot = undefined;
  setter.runAsUser = undefined;
  setter.seccompProfile = undefined;
  setter.appArmorProfile = undefined;
  setter.seLinuxType = '';
  setter.seLinuxUser = '';
  setter.seLinuxRole = '';
  setter.hostProcess = undefined;
}
