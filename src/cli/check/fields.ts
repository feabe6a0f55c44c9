/** Findings about manifest fields: field positions and unknown fields. */
import { apiGroup, type ManifestObject } from '../../config/objects.ts';
import type { Path } from '../../config/yaml.ts';
import { quote } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import { printFieldPath } from '../../policy/pod/templates.ts';
import type { Mode } from '../../policy/psa/policy.ts';
import type { FieldPosition, Finding, OtherCheck } from '../output/findings.ts';

/** A field and its position in the file. */
export function fieldPosition(object: ManifestObject, path: Path): FieldPosition {
  return { path: printFieldPath(path), file: object.document.file, ...object.locate(path) };
}

interface NewFinding extends Pick<Finding, 'reason' | 'detail' | 'fix'> {
  readonly mode?: Mode;
  readonly check: OtherCheck;
}

/** Creates a finding about one field, in `enforce` mode by default. */
export function createFinding(
  object: ManifestObject,
  path: Path,
  { mode = 'enforce', check, reason, detail, fix }: NewFinding,
): Finding {
  return { mode, check, reason, detail, fix, fields: [fieldPosition(object, path)] };
}

const UNKNOWN_FIELD_FIX = 'Correct the name or remove the field: API servers may drop it silently.';

/** A field that is not in the schema of the API server. It rejects the object or drops the field. */
export function unknownField(object: ManifestObject, path: Path, fix = UNKNOWN_FIELD_FIX): Finding {
  const detail = quote(printFieldPath(path));
  return createFinding(object, path, { check: 'unknownField', reason: 'unknown field', detail, fix });
}

type Models = Readonly<Record<string, unknown>>;

/** A model class of @kubernetes/client-node. A field type is a model name, a scalar type, or a list or map of these. */
interface Model {
  getAttributeTypeMap(): readonly { readonly baseName: string; readonly type: string }[];
}

/**
 * Creates a function that finds unknown fields of built-in kinds. It uses the model classes of client-node, which this
 * function loads.
 */
export async function createUnknownFieldFinder(): Promise<(object: ManifestObject) => readonly Finding[]> {
  const models: Models = await import('@kubernetes/client-node/dist/gen/models/all.js');
  return (object) => {
    const { apiVersion, kind, value } = object;
    if (!/^(|[a-z]+|.*\.k8s\.io)$/.test(apiGroup(apiVersion))) return [];
    const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
    const type = `${version.charAt(0).toUpperCase()}${version.slice(1)}${kind}`;
    return listUnknownFields(models, type, value, []).map((path) => unknownField(object, path));
  };
}

function listUnknownFields(models: Models, type: string, value: unknown, path: Path): Path[] {
  const items = /^Array<(.*)>$/.exec(type)?.[1];
  if (items !== undefined) {
    const list: readonly unknown[] = Array.isArray(value) ? value : [];
    return list.flatMap((item, index) => listUnknownFields(models, items, item, [...path, index]));
  }
  const model = Object.hasOwn(models, type) ? (models[type] as Partial<Model>) : undefined;
  const fields = model?.getAttributeTypeMap?.();
  const values = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (!isObject(value) || (!fields && values === undefined)) return [];
  const types = new Map(fields?.map((field) => [field.baseName, field.type]));
  return Object.entries(value).flatMap(([name, member]) => {
    const fieldType = values ?? types.get(name);
    return fieldType === undefined ? [[...path, name]] : listUnknownFields(models, fieldType, member, [...path, name]);
  });
}
