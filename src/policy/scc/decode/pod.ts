import { tooMany, type FieldError } from '../../../kube/field-error.ts';
import { CONTAINER_LISTS, MAX_CONTAINERS, MAX_KEYS } from '../../../kube/pod.ts';
import { SECCOMP_POD_ANNOTATION } from '../../../kube/scc.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { looksAt } from '../budget.ts';
import { readContainer, type ContainerFields } from './container.ts';
import {
  annotationsOf,
  booleanAt,
  checkFields,
  elementAt,
  integerAt,
  integersAt,
  listAt,
  NOTHING,
  objectAt,
  stringAt,
  type Reader,
} from './reader.ts';
import { readSeccompProfile, readSeLinuxOptions, type SharedFields } from './security-context.ts';
import { readVolume, type VolumeFields } from './volume.ts';

/** What decisions read of a pod. */
export interface PodFields extends SharedFields {
  readonly json: JsonObject;
  readonly annotations: Readonly<Record<string, string>>;
  /** Empty if there is none. */
  readonly seccompAnnotation: string;
  /** Empty if there is none. */
  readonly serviceAccountName: string;
  readonly hostNetwork: boolean;
  readonly hostPID: boolean;
  readonly hostIPC: boolean;
  readonly hostUsers: boolean | undefined;
  readonly fsGroup: number | undefined;
  /** An empty list is none: the API server drops it. */
  readonly supplementalGroups: readonly number[] | undefined;
  /** The names. */
  readonly sysctls: readonly string[];
  readonly volumes: readonly VolumeFields[];
  /** Init, regular and ephemeral containers in this order. */
  readonly containers: readonly ContainerFields[];
  /** Of all containers. */
  readonly hostPorts: readonly HostPort[];
  /** What it costs to try an SCC on it, as in `Effort`. */
  readonly looks: number;
}

/** A port of the node that a container takes. */
export interface HostPort {
  /** The place of the container: `containers[0]`. */
  readonly place: string;
  readonly port: number;
}

export type DecodedPod = { readonly pod: PodFields } | { readonly error: FieldError };

/** Reads a pod, whatever it holds; an error names the first field of a wrong type. */
export function decodePod(json: JsonObject): DecodedPod {
  const reader: Reader = { error: undefined, items: 0 };
  const pod = readPod(reader, json);
  return reader.error === undefined ? { pod } : { error: reader.error };
}

/** True for a pod that is not read, for its annotations or labels are too many. */
export function hasTooManyKeys({ metadata }: JsonObject): boolean {
  return isObject(metadata) && MAPS.some((key) => keysIn(metadata, key) > MAX_KEYS);
}

const MAPS = ['annotations', 'labels'] as const;

function checkKeys(reader: Reader, metadata: JsonObject): void {
  for (const key of MAPS) {
    const count = keysIn(metadata, key);
    if (count > MAX_KEYS) reader.error ??= tooMany(`metadata.${key}`, count, MAX_KEYS);
  }
}

function keysIn(metadata: JsonObject, key: (typeof MAPS)[number]): number {
  const map = metadata[key];
  return isObject(map) ? Object.keys(map).length : 0;
}

function readPod(reader: Reader, json: JsonObject): PodFields {
  const metadata = objectAt(reader, json, 'metadata', '') ?? NOTHING;
  checkKeys(reader, metadata);
  const annotations = reader.error ? {} : annotationsOf(reader, metadata);
  const spec = objectAt(reader, json, 'spec', '') ?? NOTHING;
  const path = 'spec.securityContext';
  const context = objectAt(reader, spec, 'securityContext', 'spec') ?? NOTHING;
  checkFields(reader, json, 'pod');
  checkFields(reader, metadata, 'metadata');
  checkFields(reader, spec, 'spec');
  checkFields(reader, context, path);
  const groups = integersAt(reader, context, 'supplementalGroups', path);
  const containers = readContainers(reader, spec, annotations);
  const volumes = readVolumes(reader, spec);
  const hostPorts = hostPortsOf(containers);
  return {
    json,
    annotations,
    seccompAnnotation: annotations[SECCOMP_POD_ANNOTATION] ?? '',
    serviceAccountName: stringAt(reader, spec, 'serviceAccountName', 'spec'),
    hostNetwork: booleanAt(reader, spec, 'hostNetwork', 'spec') ?? false,
    hostPID: booleanAt(reader, spec, 'hostPID', 'spec') ?? false,
    hostIPC: booleanAt(reader, spec, 'hostIPC', 'spec') ?? false,
    hostUsers: booleanAt(reader, spec, 'hostUsers', 'spec'),
    runAsUser: integerAt(reader, context, 'runAsUser', path),
    runAsNonRoot: booleanAt(reader, context, 'runAsNonRoot', path),
    seLinuxOptions: readSeLinuxOptions(reader, context, path),
    seccompProfile: readSeccompProfile(reader, context, path),
    fsGroup: integerAt(reader, context, 'fsGroup', path),
    supplementalGroups: groups.length === 0 ? undefined : groups,
    sysctls: readSysctls(reader, context, path),
    volumes,
    containers,
    hostPorts,
    looks: looksAt({ containers, volumes, hostPorts }),
  };
}

function readSysctls(reader: Reader, context: JsonObject, path: string): readonly string[] {
  const list = listAt(reader, context, 'sysctls', path);
  return list.map((_, index) =>
    stringAt(reader, elementAt(reader, list, index, `${path}.sysctls`), 'name', `${path}.sysctls[${index}]`),
  );
}

function readVolumes(reader: Reader, spec: JsonObject): readonly VolumeFields[] {
  const list = listAt(reader, spec, 'volumes', 'spec');
  return list.map((_, index) => readVolume(reader, elementAt(reader, list, index, 'spec.volumes'), index));
}

function readContainers(
  reader: Reader,
  spec: JsonObject,
  annotations: Readonly<Record<string, string>>,
): readonly ContainerFields[] {
  const containers: ContainerFields[] = [];
  for (const list of CONTAINER_LISTS) {
    const items = listAt(reader, spec, list, 'spec');
    const count = containers.length + items.length;
    if (count > MAX_CONTAINERS) {
      reader.error ??= tooMany(`spec.${list}`, count, MAX_CONTAINERS);
      break;
    }
    for (let index = 0; index < items.length; index++) {
      const json = elementAt(reader, items, index, `spec.${list}`);
      containers.push(readContainer(reader, json, { list, index, annotations }));
    }
  }
  return containers;
}

const NO_PORTS: readonly HostPort[] = [];

function hostPortsOf(containers: readonly ContainerFields[]): readonly HostPort[] {
  let all: HostPort[] | undefined;
  for (const { hostPorts, place } of containers) {
    for (const port of hostPorts) (all ??= []).push({ place, port });
  }
  return all ?? NO_PORTS;
}
