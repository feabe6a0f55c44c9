import type { Path } from '../../config/manifests.ts';

/** Takes a printed path such as `spec.containers[0].image` or `metadata.labels[a.b/c]` apart. */
export function parseFieldPath(path: string): Path {
  return [...path.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g)].map(([, inBrackets, name]) => {
    if (inBrackets === undefined) return name ?? '';
    return /^\d+$/.test(inBrackets) ? Number(inBrackets) : inBrackets;
  });
}
