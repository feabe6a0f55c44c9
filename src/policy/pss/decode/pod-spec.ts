import { MAX_CONTAINERS } from '../../../kube/storable.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { SETTING, type ContainerFields, type ContainerList, type PodFields } from '../fields.ts';
import { readContainer } from './container.ts';
import { readPodSecurityContext } from './pod-security-context.ts';
import { booleanIn, listIn, objectIn, overflow, stringIn, type Reader, type Struct } from './reader.ts';
import { NONE, createPool, newContainer } from './scratch.ts';
import { readVolumes } from './volume.ts';

interface ContainerKind {
  readonly list: ContainerList;
  readonly element: string;
  readonly type: string;
}

const POD_SPEC: Struct = { name: 'PodSpec', path: '' };
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
        containers = listIn(reader, POD_SPEC, key, spec[key], 'v1.Container');
        break;
      case 'initContainers':
        initContainers = listIn(reader, POD_SPEC, key, spec[key], 'v1.Container');
        break;
      case 'ephemeralContainers':
        ephemeralContainers = listIn(reader, POD_SPEC, key, spec[key], 'v1.EphemeralContainer');
        break;
      case 'volumes':
        reader.pod.settings |= SETTING.volumes;
        into.volumes = readVolumes(reader, spec[key]);
        break;
      case 'securityContext':
        readPodSecurityContext(reader, objectIn(reader, POD_SPEC, key, spec[key], 'v1.PodSecurityContext'), into);
        break;
      case 'hostNetwork':
        into.hostNetwork = booleanIn(reader, POD_SPEC, key, spec[key]) === true;
        if (into.hostNetwork) reader.pod.settings |= SETTING.hostNamespaces;
        break;
      case 'hostPID':
        into.hostPID = booleanIn(reader, POD_SPEC, key, spec[key]) === true;
        if (into.hostPID) reader.pod.settings |= SETTING.hostNamespaces;
        break;
      case 'hostIPC':
        into.hostIPC = booleanIn(reader, POD_SPEC, key, spec[key]) === true;
        if (into.hostIPC) reader.pod.settings |= SETTING.hostNamespaces;
        break;
      case 'hostUsers':
        into.hostUsers = booleanIn(reader, POD_SPEC, key, spec[key]);
        break;
      case 'os':
        readOs(reader, objectIn(reader, POD_SPEC, key, spec[key], 'v1.PodOS'), into);
        break;
      case 'runtimeClassName':
        // No check reads it, but exemptions do.
        stringIn(reader, POD_SPEC, key, spec[key]);
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
    const json = objectIn(reader, POD_SPEC, kind.element, items[index], kind.type);
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
