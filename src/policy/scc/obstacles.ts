import type { FieldError } from '../../kube/field-error.ts';
import { CONTAINER_LISTS } from '../../kube/pod.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject } from '../../kube/types.ts';
import type { ContainerFields } from './decode/container.ts';
import { pathTo } from './decode/paths.ts';
import type { PodFields } from './decode/pod.ts';

/** A field of a pod that stands in the way of an SCC. */
export interface Obstacle {
  /** Where the pod has it: `spec.containers[0].securityContext.runAsUser`. */
  readonly path: string;
  /** Those that are not allowed; none where the pod lacks a value that the SCC demands. */
  readonly values: readonly unknown[];
}

/** Nobody corrects more fields at once, and each costs time. */
const MAX_OBSTACLES = 100;

/**
 * The fields of a pod that the errors of an SCC are about, each once, in the order of the errors; of very many the first
 * ones. Errors speak of the values in force: here a value that a container has from its pod is one of the pod, and a
 * seccomp profile stands where it was written.
 */
export function obstaclesOf(pod: PodFields, errors: readonly FieldError[]): readonly Obstacle[] {
  const found = new Map<string, unknown[]>();
  for (const error of errors.slice(0, MAX_OBSTACLES)) {
    // A broken SCC has an error that is about no field.
    if (error.type === 'InternalError') continue;
    const { path, value } = locate(pod, error);
    const values = found.get(path) ?? [];
    found.set(path, values);
    if (value != null && !values.includes(value)) values.push(value);
  }
  return [...found].map(([path, values]) => ({ path, values }));
}

interface Place {
  readonly path: string;
  readonly value: unknown;
}

const IN_CONTAINER = /^\.(initContainers|containers|ephemeralContainers)\[(\d+)\]\.(.+)$/;
const OF_POD: ReadonlySet<string> = new Set(['hostNetwork', 'hostPID', 'hostIPC']);

function locate(pod: PodFields, { path, value }: FieldError): Place {
  if (path.startsWith('.spec')) return { path: path.slice(1), value };
  if (path.startsWith(ANNOTATIONS)) return locateSeccomp(pod, path);
  const [, list = '', index = '', field = ''] = IN_CONTAINER.exec(path) ?? [];
  if (field === '') return locateSysctl(pod, path);
  if (OF_POD.has(field)) return { path: pathTo('spec', field), value };
  // Each container is charged with the ports of all: the one that has it stands behind.
  if (field.endsWith('.hostPort')) return locatePort(pod, field, value);
  return { path: `${ownerOf(pod, { list, index, field })}.securityContext.${field}`, value };
}

/** What containers have from their pod unless they say otherwise. */
const SHARED = ['runAsUser', 'runAsNonRoot', 'seLinuxOptions'] as const;

interface ContainerField {
  readonly list: string;
  readonly index: string;
  readonly field: string;
}

/** The container, or the pod if the container has the value from there. */
function ownerOf(pod: PodFields, { list, index, field }: ContainerField): string {
  const shared = SHARED.find((name) => field === name || field.startsWith(`${name}.`));
  const isFromPod =
    shared !== undefined && pod[shared] !== undefined && containerAt(pod, list, Number(index))?.[shared] === undefined;
  return isFromPod ? 'spec' : `spec.${list}[${index}]`;
}

function containerAt(pod: PodFields, list: string, index: number): ContainerFields | undefined {
  let start = 0;
  for (const name of CONTAINER_LISTS) {
    if (name === list) return pod.containers[start + index];
    const containers = isObject(pod.json['spec']) ? pod.json['spec'][name] : undefined;
    if (Array.isArray(containers)) start += containers.length;
  }
  return undefined;
}

const MAX_PORTS = 256;

function locatePort(pod: PodFields, field: string, value: unknown): Place {
  const [, list = '', index = ''] = IN_CONTAINER.exec(`.${field}`) ?? [];
  const containers = isObject(pod.json['spec']) ? pod.json['spec'][list] : undefined;
  const container: unknown = Array.isArray(containers) ? containers[Number(index)] : undefined;
  const ports = isObject(container) && Array.isArray(container['ports']) ? container['ports'].slice(0, MAX_PORTS) : [];
  const place = ports.findIndex((port) => isObject(port) && port['hostPort'] === value);
  return { path: `spec.${list}[${index}].ports[${place < 0 ? '*' : place}].hostPort`, value };
}

const ANNOTATIONS = 'metadata.annotations[';
const MAX_CONTAINERS = 1000;

/** An annotation goes before the field, the container before the pod. */
function locateSeccomp(pod: PodFields, path: string): Place {
  const key = path.slice(ANNOTATIONS.length, -1);
  const name = key.slice(SECCOMP_CONTAINER_ANNOTATION_PREFIX.length);
  const isOfPod = key === SECCOMP_POD_ANNOTATION;
  const container = isOfPod ? undefined : pod.containers.slice(0, MAX_CONTAINERS).find((one) => one.name === name);
  if (container?.seccompAnnotation !== undefined) return { path, value: container.seccompAnnotation };
  const profile = container?.seccompProfile;
  if (profile) return { path: `spec.${container.place}.securityContext.seccompProfile.type`, value: profile.type };
  return pod.seccompAnnotation === ''
    ? { path: 'spec.securityContext.seccompProfile.type', value: pod.seccompProfile?.type }
    : { path: `${ANNOTATIONS}${SECCOMP_POD_ANNOTATION}]`, value: pod.seccompAnnotation };
}

function locateSysctl(pod: PodFields, path: string): Place {
  const index = Number(path.slice(path.lastIndexOf('[') + 1, -1));
  return { path: `${path}.name`, value: pod.sysctls[index] };
}
