/** Findings about manifest fields. */
import { findFieldProblems, type WrongType } from '../../config/field-types.ts';
import { describePlace, findUnknownFields } from '../../config/misplaced-fields.ts';
import type { ManifestObject } from '../../config/objects.ts';
import type { Path } from '../../config/yaml.ts';
import { formatFieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { printFieldPath } from '../../policy/pod/index.ts';
import type { Mode } from '../../policy/psa/index.ts';
import type { FieldPosition, ViolatedCheck, OtherCheck } from '../output/findings.ts';

/** A field and its position in the file. */
export function fieldPosition(object: ManifestObject, path: Path): FieldPosition {
  return { path: printFieldPath(path), file: object.document.file, ...object.locate(path) };
}

interface NewFinding extends Pick<ViolatedCheck, 'reason' | 'detail' | 'fix'> {
  readonly mode?: Mode;
  readonly check: OtherCheck;
}

/** Creates a finding about one field, in `enforce` mode by default. */
export function createFinding(
  object: ManifestObject,
  path: Path,
  { mode = 'enforce', check, reason, detail, fix }: NewFinding,
): ViolatedCheck {
  return { mode, check, reason, detail, fix, fields: [fieldPosition(object, path)] };
}

const UNKNOWN_FIELD_FIX = 'Correct the name or remove the field: API servers may drop it silently.';

/** A field that is not in the schema of the API server, which rejects the object or drops the field. */
export function unknownField(
  object: ManifestObject,
  path: Path,
  { fix = UNKNOWN_FIELD_FIX, mode = 'enforce' }: { readonly fix?: string | undefined; readonly mode?: Mode },
): ViolatedCheck {
  const detail = quote(printFieldPath(path));
  return createFinding(object, path, { mode, check: 'unknownField', reason: 'unknown field', detail, fix });
}

/** A value that API servers cannot decode. */
export function wrongType(object: ManifestObject, { path, error, fix }: WrongType): ViolatedCheck {
  return createFinding(object, path, { check: 'decode', reason: 'wrong type', detail: formatFieldError(error), fix });
}

/**
 * Returns the fields of a built-in kind that API servers cannot decode, and the unknown fields, which are in `warn` mode
 * because API servers drop them if the client does not request strict validation.
 */
export function builtInFindings(object: ManifestObject): readonly ViolatedCheck[] {
  const { wrong, unknown } = findFieldProblems(object);
  if (wrong.length + unknown.length === 0) return [];
  return [
    ...wrong.map((value) => wrongType(object, value)),
    ...findUnknownFields(object).map((field) =>
      unknownField(object, field.path, { mode: 'warn', fix: describePlace(field) }),
    ),
  ];
}
