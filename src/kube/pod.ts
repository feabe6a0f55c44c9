import type { Kind } from './kinds.ts';
import { RESOURCES } from './resources.ts';
import { isObject, type Pod, type PodSpec, type PodTemplateSpec, valueAt } from './types.ts';

/** The fields with lists of containers, in the order in which the API server visits them. */
export const CONTAINER_LISTS = ['initContainers', 'containers', 'ephemeralContainers'] as const;

/** The subresource for adding ephemeral containers to a pod. */
export const EPHEMERAL_CONTAINERS = 'ephemeralcontainers';

/** Removes a pod's ephemeral containers, because the API server rejects new pods that have any. */
export function withoutEphemeralContainers(pod: Pod): Pod {
  if (pod.spec?.ephemeralContainers == null) return pod;
  const spec: PodSpec = { ...pod.spec };
  delete (spec as { ephemeralContainers?: unknown }).ephemeralContainers;
  return { ...pod, spec };
}

/** Types of the conditions that a Job has after its last pod has ended. */
const FINISHED_CONDITIONS: readonly unknown[] = ['Complete', 'Failed'];

/** Returns true for a pod that is no longer restarted, and for a Job that creates no more pods. */
export function hasFinished({
  kind,
  status,
}: {
  readonly kind?: string | undefined;
  readonly status?: unknown;
}): boolean {
  const { phase, conditions } = isObject(status) ? status : {};
  if (kind !== 'Job') return phase === 'Succeeded' || phase === 'Failed';
  return (
    Array.isArray(conditions) &&
    conditions.some(
      (condition) =>
        isObject(condition) && FINISHED_CONDITIONS.includes(condition['type']) && condition['status'] === 'True',
    )
  );
}

/**
 * Returns the path of the pod template in objects of the given group and kind, or `undefined` if the kind has no pod
 * template.
 */
export function podTemplatePath(group: string, kind: string): readonly string[] | undefined {
  const info = Object.hasOwn(RESOURCES, kind) ? RESOURCES[kind as Kind] : undefined;
  return info?.group === group ? info.podTemplate : undefined;
}

/** Returns the pod template at a path, or `undefined` if there is no object at the path. */
export function getPodTemplate(object: unknown, path: readonly (string | number)[]): PodTemplateSpec | undefined {
  const value = valueAt(object, path);
  return isObject(value) ? value : undefined;
}
