import { RESOURCES } from './resources.ts';
import {
  isObject,
  type Container,
  type EphemeralContainer,
  type Kind,
  type Pod,
  type PodSpec,
  type PodTemplateSpec,
} from './types.ts';

/** The three lists of containers in the order in which the API server visits them, each with its field name. */
export const CONTAINER_LISTS = ['initContainers', 'containers', 'ephemeralContainers'] as const;

/** All containers of a pod: init, regular, ephemeral. */
export function allContainers(spec: PodSpec | undefined): readonly (Container | EphemeralContainer)[] {
  if (spec == null) return [];
  return [...(spec.initContainers ?? []), ...(spec.containers ?? []), ...(spec.ephemeralContainers ?? [])];
}

/** The pod as it can be created: ephemeral containers are added later, and API servers refuse them in a new pod. */
export function withoutEphemeralContainers(pod: Pod): Pod {
  if (pod.spec?.ephemeralContainers == null) return pod;
  const spec: PodSpec = { ...pod.spec };
  delete (spec as { ephemeralContainers?: unknown }).ephemeralContainers;
  return { ...pod, spec };
}

/** True if the pod says that it runs on Windows; node selectors do not count. */
export function isWindows(spec: PodSpec | undefined): boolean {
  return spec?.os?.name === 'windows';
}

/** True if the pod asks for a user namespace of its own. */
export function hasUserNamespace(spec: PodSpec | undefined): boolean {
  return spec?.hostUsers === false;
}

/** Returns the path of the pod template in objects of a group and kind, or `undefined` for kinds without one. */
export function podTemplatePath(group: string, kind: string): readonly string[] | undefined {
  const info = Object.hasOwn(RESOURCES, kind) ? RESOURCES[kind as Kind] : undefined;
  return info?.group === group ? info.podTemplate : undefined;
}

/** The pod template of a workload; `undefined` where it has none or a part of the way there is no object. */
export function getPodTemplate(object: unknown, path: readonly string[]): PodTemplateSpec | undefined {
  let value: unknown = object;
  for (const name of path) {
    if (!isObject(value)) return undefined;
    value = value[name];
  }
  return isObject(value) ? value : undefined;
}

/**
 * What is read of one object. An object that can be stored (etcd takes 1.5 MiB) could hold several times more, which no
 * node could run, and which would keep everybody else waiting while it is judged.
 * @see https://etcd.io/docs/v3.6/dev-guide/limit/
 */

/** All containers of a pod together; the largest that run have some dozens. */
export const MAX_CONTAINERS = 5000;

/** Other elements of lists (volumes, ports, capabilities and the like), together. */
export const MAX_ITEMS = 20_000;

/** Keys of one map, like labels or annotations. */
export const MAX_KEYS = 10_000;

/** No object of the API has as many fields; maps have their own bounds. */
export const MAX_FIELDS = 1000;

/**
 * Keys and values of all annotations, in bytes.
 * @see https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
 */
export const MAX_ANNOTATIONS_BYTES = 256 * 1024;
