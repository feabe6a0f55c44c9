import type { ManifestObject } from '../../config/manifests.ts';
import type { Path } from '../../config/yaml.ts';
import { isObject } from '../../kube/types.ts';
import { groupOf } from './pod.ts';
import type { Finding } from './types.ts';
import { unknownField } from './unknown-field.ts';

/** Finds the fields of an object of a built-in kind that the kind does not have. */
export type FindUnknownFields = (object: ManifestObject) => readonly Finding[];

/** A field of a model of client-node. `type` is the name of a model, a scalar type, or a list or map of these. */
interface ModelField {
  readonly baseName: string;
  readonly type: string;
}

interface Model {
  getAttributeTypeMap(): readonly ModelField[];
}

type Models = Readonly<Record<string, unknown>>;

/** Creates the function from the models of client-node, which are loaded on the first call. */
export async function createUnknownFieldFinder(): Promise<FindUnknownFields> {
  const models: Models = await import('@kubernetes/client-node/dist/gen/models/all.js');
  return (object) => {
    const { apiVersion, kind, value } = object;
    const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
    const isBuiltIn = /^(|[a-z]+|.*\.k8s\.io)$/.test(groupOf(apiVersion));
    const type = `${version.charAt(0).toUpperCase()}${version.slice(1)}${kind}`;
    if (!isBuiltIn) return [];
    return listUnknownFields(models, type, value, []).map((path) => unknownField(object, path));
  };
}

function listUnknownFields(models: Models, type: string, value: unknown, path: Path): Path[] {
  const items = /^Array<(.*)>$/.exec(type)?.[1];
  if (items !== undefined) {
    const list: readonly unknown[] = Array.isArray(value) ? value : [];
    return list.flatMap((item, index) => listUnknownFields(models, items, item, [...path, index]));
  }
  const fields = getFields(models, type);
  const values = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (!isObject(value) || (!fields && values === undefined)) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    const fieldType = values ?? fields?.get(name);
    const fieldPath = [...path, name];
    return fieldType === undefined ? [fieldPath] : listUnknownFields(models, fieldType, member, fieldPath);
  });
}

function getFields(models: Models, type: string): ReadonlyMap<string, string> | undefined {
  const model = Object.hasOwn(models, type) ? (models[type] as Partial<Model>) : undefined;
  const fields = model?.getAttributeTypeMap?.();
  return fields && new Map(fields.map((field) => [field.baseName, field.type]));
}
