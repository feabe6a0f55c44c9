import type { ManifestObject } from '../../config/manifests.ts';
import { parseFieldPath } from './field-path.ts';
import { groupOf } from './pod.ts';
import type { Finding } from './types.ts';
import { unknownField } from './unknown-field.ts';

/** Finds the fields of an object of Kubernetes itself that its kind does not have. */
export type FindUnknownFields = (object: ManifestObject) => readonly Finding[];

/** Loads the schemas of all kinds, which takes about 100 ms, and returns the function that searches objects with them. */
export async function createUnknownFieldFinder(): Promise<FindUnknownFields> {
  const { decodeValue, loadSchemas } = await import('../../dev-cluster/index.ts');
  const schemas = loadSchemas();
  return (object) => {
    const { apiVersion, kind, value } = object;
    const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
    const type = schemas.typeOf({ group: groupOf(apiVersion), version, kind });
    if (type === undefined) return [];
    return decodeValue(value, type).unknown.map((text) => unknownField(object, parseFieldPath(pathIn(text))));
  };
}

/** `unknown field "spec.bogus"` */
function pathIn(text: string): string {
  return text.slice(text.indexOf('"') + 1, -1);
}
