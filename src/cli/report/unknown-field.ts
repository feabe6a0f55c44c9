import type { ManifestObject } from '../../config/manifests.ts';
import type { Path } from '../../config/yaml.ts';
import { quote } from '../../kube/text.ts';
import { printFieldPath } from './field-path.ts';
import type { Finding } from './types.ts';

/** The id of the check. */
export const UNKNOWN_FIELD = 'unknownField';

/** A field that the API server does not know: it may refuse the object, or drop the field without a word. */
export function unknownField(object: ManifestObject, path: Path, remedy?: string): Finding {
  return {
    mode: 'enforce',
    check: UNKNOWN_FIELD,
    reason: 'unknown field',
    detail: quote(printFieldPath(path)),
    remedy: remedy ?? 'Correct its name or remove it: API servers may drop it without a word.',
    fields: [{ path: printFieldPath(path), file: object.document.file, ...object.positionOf(path) }],
  };
}
