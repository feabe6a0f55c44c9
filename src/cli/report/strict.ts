import type { ManifestObject } from '../../config/manifests.ts';
import { decodeValue, loadSchemas } from '../../dev-cluster/fields/index.ts';
import { parseFieldPath } from './field-path.ts';
import { groupOf } from './pod.ts';
import type { Finding } from './types.ts';
import { unknownField } from './unknown-field.ts';

/** Finds the fields of an object of Kubernetes itself that its kind does not have. */
export type FindUnknownFields = (object: ManifestObject) => readonly Finding[];

/** Makes the function that knows the fields of all kinds; this takes a moment. */
export function createUnknownFieldFinder(): FindUnknownFields {
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
