import { compareBytes } from '../../../kube/text.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';

/**
 * Applies a JSON merge patch. Objects that the patch touches come out with sorted keys, as the API server prints them.
 * @see https://www.rfc-editor.org/rfc/rfc7386
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const members = new Map(Object.entries(isObject(target) ? target : ({} satisfies JsonObject)));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) members.delete(key);
    else members.set(key, mergePatch(members.get(key), value));
  }
  return Object.fromEntries([...members].sort(([a], [b]) => compareBytes(a, b)));
}
