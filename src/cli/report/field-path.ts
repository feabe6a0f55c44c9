import type { Path } from '../../config/yaml.ts';

/** Takes a printed path such as `spec.containers[0].image` or `metadata.labels[a.b/c]` apart. */
export function parseFieldPath(path: string): Path {
  return [...path.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g)].map(([, inBrackets, name]) => {
    if (inBrackets === undefined) return name ?? '';
    return /^\d+$/.test(inBrackets) ? Number(inBrackets) : inBrackets;
  });
}

/** Prints a path in that form. */
export function printFieldPath(path: Path): string {
  return path
    .map((step) => (typeof step === 'number' ? `[${step}]` : /^[^.[\]]+$/.test(step) ? `.${step}` : `[${step}]`))
    .join('')
    .replace(/^\./, '');
}
