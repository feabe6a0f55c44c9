import type { ManifestObject } from '../../config/manifests.ts';
import type { Path } from '../../config/yaml.ts';
import { quote } from '../../kube/text.ts';
import { UNKNOWN_FIELD, type FieldPosition, type Finding } from '../output/findings.ts';

/** Splits a printed path such as `spec.containers[0].image` or `metadata.labels[a.b/c]`. */
export function parseFieldPath(path: string): Path {
  return [...path.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g)].map(([, inBrackets, name]) => {
    if (inBrackets === undefined) return name ?? '';
    return /^\d+$/.test(inBrackets) ? Number(inBrackets) : inBrackets;
  });
}

/** Prints a path in the form that `parseFieldPath` reads. */
export function printFieldPath(path: Path): string {
  return path
    .map((step) => (typeof step === 'number' ? `[${step}]` : /^[^.[\]]+$/.test(step) ? `.${step}` : `[${step}]`))
    .join('')
    .replace(/^\./, '');
}

/** A field of an object with its position in the file. */
export function fieldPosition(object: ManifestObject, path: Path): FieldPosition {
  return { path: printFieldPath(path), file: object.document.file, ...object.positionOf(path) };
}

/** A field that the API server does not know. It rejects the object or drops the field. */
export function unknownField(object: ManifestObject, path: Path, fix?: string): Finding {
  return {
    mode: 'enforce',
    check: UNKNOWN_FIELD,
    reason: 'unknown field',
    detail: quote(printFieldPath(path)),
    fix: fix ?? 'Correct the name or remove the field: API servers may drop it silently.',
    fields: [fieldPosition(object, path)],
  };
}
