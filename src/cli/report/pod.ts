import { applyDefaults } from '../../kube/defaults.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { draft, isObject, type PodLike } from '../../kube/types.ts';
import { decodeError } from '../../policy/pss/index.ts';

/** Where a kind keeps its pod or pod template; `undefined` if it has none. */
export function podPath(apiVersion: string, kind: string): readonly string[] | undefined {
  const group = groupOf(apiVersion);
  return group === '' && kind === 'Pod' ? [] : podTemplatePath(group, kind);
}

/** The API group; the core group is empty. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf('/');
  return slash < 0 ? '' : apiVersion.slice(0, slash);
}

/** What will be judged as a pod, and where it lies in its object. */
export interface FoundPod {
  readonly pod: PodLike;
  readonly path: readonly string[];
}

/**
 * The pod that the object is or would have. Of a template that is absent it is an empty one; where something else than
 * an object stands on the way to it, that is what will be judged, and refused for its type.
 */
export function podIn(object: unknown, path: readonly string[]): FoundPod {
  let value: unknown = object;
  for (const [depth, name] of path.entries()) {
    if (!isObject(value)) return { pod: value as PodLike, path: path.slice(0, depth) };
    value = value[name] ?? {};
  }
  return { pod: value as PodLike, path };
}

/** The pod as the API server completes it before it is judged. What cannot be decoded stays as it is. */
export function completed(pod: PodLike): PodLike {
  if (decodeError(pod) !== undefined) return pod;
  const { metadata, spec } = draft(pod);
  const complete: Record<string, unknown> = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
  applyDefaults(complete);
  return complete;
}
