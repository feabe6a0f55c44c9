import { isObject } from '../../../kube/types.ts';
import type { Field, FieldType, ObjectType, ScalarType } from '../types.ts';

type JsonSchema = Record<string, unknown>;

/** How a version of OpenAPI spells what the versions do not share. */
export interface Dialect {
  /** In front of the name of a schema in `$ref`. */
  readonly refPrefix: string;
  /** A reference to a schema that may have extensions beside it. */
  ref(path: string): JsonSchema;
  scalar(type: ScalarType): JsonSchema;
}

const SCALARS: Readonly<Record<ScalarType['scalar'], JsonSchema>> = {
  string: { type: 'string' },
  boolean: { type: 'boolean' },
  int32: { type: 'integer', format: 'int32' },
  int64: { type: 'integer', format: 'int64' },
  number: { type: 'number', format: 'double' },
  bytes: { type: 'string', format: 'byte' },
  time: { type: 'string', format: 'date-time' },
  'micro-time': { type: 'string', format: 'date-time' },
  duration: { type: 'string' },
  quantity: { type: 'string' },
  'int-or-string': { type: 'string', format: 'int-or-string' },
};

export const V2: Dialect = {
  refPrefix: '#/definitions/',
  ref: (path) => ({ $ref: path }),
  scalar: ({ scalar }) => SCALARS[scalar],
};

export const V3: Dialect = {
  refPrefix: '#/components/schemas/',
  ref: (path) => ({ allOf: [{ $ref: path }] }),
  scalar({ scalar }) {
    if (scalar === 'quantity') return { oneOf: [{ type: 'string' }, { type: 'number' }] };
    if (scalar === 'int-or-string') return { format: scalar, oneOf: [{ type: 'integer' }, { type: 'string' }] };
    return SCALARS[scalar];
  },
};

/** The schemas of the given types and of all that they refer to, by name. */
export function schemasOf(types: Iterable<ObjectType>, dialect: Dialect): Map<string, JsonSchema> {
  const found = new Map<string, JsonSchema>();
  const queue = [...types].flatMap(namedTypes);
  for (let type = queue.pop(); type; type = queue.pop()) {
    if (type.name === undefined || found.has(type.name)) continue;
    found.set(type.name, objectSchema(type, dialect));
    queue.push(...[...type.fields.values()].flatMap(({ type: below }) => namedTypes(below)));
  }
  return found;
}

/** The schema of a type that stands by itself. */
export function objectSchema(type: ObjectType, dialect: Dialect): JsonSchema {
  const properties = [...type.fields].map(([name, field]) => [name, fieldSchema(field, dialect)] as const);
  return {
    type: 'object',
    ...(type.description === undefined ? {} : { description: type.description }),
    ...(type.required === undefined ? {} : { required: type.required }),
    ...(properties.length === 0 ? {} : { properties: Object.fromEntries(properties) }),
    ...(type.additional ? { additionalProperties: schemaOf(type.additional, dialect) } : {}),
    ...(type.atomic ? { 'x-kubernetes-map-type': 'atomic' } : {}),
  };
}

function fieldSchema({ type, patch, default: value, description }: Field, dialect: Dialect): JsonSchema {
  return {
    ...schemaOf(type, dialect),
    ...(description === undefined ? {} : { description }),
    ...(value === undefined || isObject(value) ? {} : { default: value }),
    ...(patch ? { 'x-kubernetes-patch-strategy': patch.strategies.join(',') } : {}),
    ...(patch?.mergeKey === undefined ? {} : { 'x-kubernetes-patch-merge-key': patch.mergeKey }),
  };
}

function schemaOf(type: FieldType, dialect: Dialect): JsonSchema {
  switch (type.kind) {
    case 'any':
      return { 'x-kubernetes-preserve-unknown-fields': true };
    case 'scalar':
      return dialect.scalar(type);
    case 'list':
      return {
        type: 'array',
        items: schemaOf(type.items, dialect),
        'x-kubernetes-list-type': type.listType,
        ...(type.keys.length === 0 ? {} : { 'x-kubernetes-list-map-keys': type.keys }),
      };
    case 'object':
      return type.name === undefined ? objectSchema(type, dialect) : dialect.ref(dialect.refPrefix + type.name);
  }
}

/** The named types that a type holds outside of named types. */
function namedTypes(type: FieldType): ObjectType[] {
  if (type.kind === 'list') return namedTypes(type.items);
  if (type.kind !== 'object') return [];
  if (type.name !== undefined) return [type];
  const fields = [...type.fields.values()].flatMap(({ type: below }) => namedTypes(below));
  return type.additional ? [...fields, ...namedTypes(type.additional)] : fields;
}
