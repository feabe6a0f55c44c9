import type { FieldError } from '../../kube/field-error.ts';
import { CONTAINER_LISTS } from '../../kube/pod.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject } from '../../kube/types.ts';
import type { ContainerFields } from './decode/container.ts';
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
 * The fields of a pod that the errors of an SCC are about, each once, in the order of the errors; of very many, or from
 * the limit on, the first ones. Errors speak of the values in force: here a value that a container has from its pod is one
 * of the pod, and a seccomp profile stands where it was written.
 */
export function obstaclesOf(pod: PodFields, errors: readonly FieldError[], limit = MAX_OBSTACLES): readonly Obstacle[] {
  const found = new Map<string, unknown[]>();
  for (let index = 0; index < errors.length && index < MAX_OBSTACLES && found.size < limit; index++) {
    const error = errors[index];
    // A broken SCC has an error that is about no field.
    if (error === undefined || error.type === 'InternalError') continue;
    const { path, value } = locate(pod, error);
    const values = found.get(path);
    if (values === undefined) found.set(path, value == null ? [] : [value]);
    else if (value != null && !values.includes(value)) values.push(value);
  }
  return Array.from(found, ([path, values]) => ({ path, values }));
}

interface Place {
  readonly path: string;
  readonly value: unknown;
}

const FS_GROUP = '.spec.securityContext.fsGroup';
const OF_POD: ReadonlySet<string> = new Set(['hostNetwork', 'hostPID', 'hostIPC']);

function locate(pod: PodFields, { path, value }: FieldError): Place {
  // The error has it as a list.
  if (path === FS_GROUP) return { path: path.slice(1), value: pod.fsGroup };
  if (path.startsWith('.spec')) return { path: path.slice(1), value };
  if (path.startsWith(ANNOTATIONS)) return locateSeccomp(pod, path);
  const parsed = parseContainerPath(path);
  if (parsed === undefined) return locateSysctl(pod, path);
  if (OF_POD.has(parsed.field)) return { path: parsed.ofSpec, value };
  // Each container is charged with the ports of all: the one that has it stands behind.
  if (parsed.field.endsWith('.hostPort')) return locatePort(pod, `.${parsed.field}`, value);
  return { path: isFromPod(pod, parsed) ? parsed.ofPod : parsed.ofContainer, value };
}

/** A field as it is told of a container, and the paths under which the pod may have it. */
interface ContainerPath {
  readonly list: string;
  readonly index: number;
  readonly field: string;
  readonly ofSpec: string;
  readonly ofPod: string;
  readonly ofContainer: string;
}

const IN_CONTAINER = /^\.(initContainers|containers|ephemeralContainers)\[(\d+)\]\.(.+)$/;
const MAX_KNOWN = 1000;
const known = new Map<string, ContainerPath>();

/** Messages have the same few paths all the time. */
function parseContainerPath(path: string): ContainerPath | undefined {
  const parsed = known.get(path);
  if (parsed !== undefined) return parsed;
  const [, list = '', index = '', field = ''] = IN_CONTAINER.exec(path) ?? [];
  if (field === '') return undefined;
  const fresh = {
    list,
    index: Number(index),
    field,
    ofSpec: `spec.${field}`,
    ofPod: `spec.securityContext.${field}`,
    ofContainer: `spec.${list}[${index}].securityContext.${field}`,
  };
  if (known.size < MAX_KNOWN) known.set(path, fresh);
  return fresh;
}

/** What containers have from their pod unless they say otherwise. */
const SHARED = ['runAsUser', 'runAsNonRoot', 'seLinuxOptions'] as const;

function isFromPod(pod: PodFields, { list, index, field }: ContainerPath): boolean {
  const shared = SHARED.find((name) => field.startsWith(name));
  return shared !== undefined && pod[shared] !== undefined && containerAt(pod, list, index)?.[shared] === undefined;
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

function locatePort(pod: PodFields, path: string, value: unknown): Place {
  const { list = '', index = 0 } = parseContainerPath(path) ?? {};
  const containers = isObject(pod.json['spec']) ? pod.json['spec'][list] : undefined;
  const container: unknown = Array.isArray(containers) ? containers[index] : undefined;
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
