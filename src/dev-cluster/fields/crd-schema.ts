import { isObject, type JsonObject } from '../../kube/types.ts';
import { PACKAGES } from './builtin/index.ts';
import { readTypes } from './notation.ts';
import type { AnyType, Field, FieldType, ListType, ObjectType, ScalarKind } from './types.ts';

const KEEP_ALL: AnyType = { kind: 'any', granular: true, goType: 'interface {}' };
const STRING: FieldType = { kind: 'scalar', scalar: 'string', goType: 'string' };
const META = PACKAGES.filter(({ path }) => path === 'meta/v1');

const SCALARS: Readonly<Record<string, ScalarKind>> = {
  string: 'string',
  boolean: 'boolean',
  integer: 'int64',
  number: 'number',
};

/**
 * The type of a custom resource by the `openAPIV3Schema` of its version; without a schema every field is kept.
 * @see https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
 */
export function typeOfCrdSchema(schema: JsonObject | undefined): ObjectType {
  const root = objectOf(schema ?? { 'x-kubernetes-preserve-unknown-fields': true });
  return { ...root, ...descriptionOf(schema ?? {}), atomic: false, fields: withMeta(root.fields) };
}

/** The fields that every object has. */
function withMeta(fields: ReadonlyMap<string, Field>): ReadonlyMap<string, Field> {
  const metadata = readTypes(META).get('meta/v1.ObjectMeta');
  return new Map([
    ['apiVersion', fieldOf(STRING)],
    ['kind', fieldOf(STRING)],
    ...(metadata ? [['metadata', fieldOf(metadata)] as const] : []),
    ...[...fields].filter(([name]) => !['apiVersion', 'kind', 'metadata'].includes(name)),
  ]);
}

function fieldOf(type: FieldType, schema: JsonObject = {}): Field {
  return {
    type,
    always: false,
    pointer: true,
    ...(schema['nullable'] === true ? { nullable: true } : {}),
    ...(schema['default'] === undefined ? {} : { default: schema['default'] }),
    ...descriptionOf(schema),
  };
}

function descriptionOf({ description }: JsonObject): { readonly description?: string } {
  return typeof description === 'string' ? { description } : {};
}

function typeOf(schema: JsonObject): FieldType {
  if (schema['x-kubernetes-int-or-string'] === true) {
    return { kind: 'scalar', scalar: 'int-or-string', goType: 'intstr.IntOrString' };
  }
  if (isObjectSchema(schema)) return objectOf(schema);
  if (schema['type'] === 'array') return listOf(schema);
  const scalar = SCALARS[String(schema['type'])];
  return scalar === undefined ? KEEP_ALL : { kind: 'scalar', scalar, goType: scalar };
}

function isObjectSchema(schema: JsonObject): boolean {
  const typed = schema['type'] === 'object' || isObject(schema['properties']);
  const open = schema['x-kubernetes-preserve-unknown-fields'] === true && !isObject(schema['properties']);
  return (
    typed &&
    !(open && schema['x-kubernetes-embedded-resource'] !== true && schema['x-kubernetes-map-type'] !== 'atomic')
  );
}

function objectOf(schema: JsonObject): ObjectType {
  const properties = isObject(schema['properties']) ? Object.entries(schema['properties']) : [];
  const fields = new Map(
    properties.flatMap(([name, property]): [string, Field][] =>
      isObject(property) ? [[name, fieldOf(typeOf(property), property)]] : [],
    ),
  );
  const additional = additionalOf(schema);
  return {
    kind: 'object',
    fields: schema['x-kubernetes-embedded-resource'] === true ? withMeta(fields) : fields,
    ...(additional ? { additional } : {}),
    ...requiredOf(schema),
    atomic: schema['x-kubernetes-map-type'] === 'atomic',
    structural: true,
    goType: 'map[string]interface {}',
  };
}

function requiredOf({ required }: JsonObject): { readonly required?: readonly string[] } {
  const names = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [];
  return names.length === 0 ? {} : { required: names };
}

function additionalOf(schema: JsonObject): FieldType | undefined {
  const { additionalProperties } = schema;
  if (isObject(additionalProperties)) return typeOf(additionalProperties);
  const open = additionalProperties === true || schema['x-kubernetes-preserve-unknown-fields'] === true;
  return open ? KEEP_ALL : undefined;
}

function listOf(schema: JsonObject): ListType {
  const keys = schema['x-kubernetes-list-map-keys'];
  const listType = schema['x-kubernetes-list-type'];
  return {
    kind: 'list',
    items: isObject(schema['items']) ? typeOf(schema['items']) : KEEP_ALL,
    listType: listType === 'map' || listType === 'set' ? listType : 'atomic',
    keys: Array.isArray(keys) ? keys.filter((key) => typeof key === 'string') : [],
    goType: '[]interface {}',
  };
}
