/**
 * `npm run field-types` writes `src/config/field-types.json`, which contains the fields of the built-in kinds and their
 * types, from the OpenAPI document of the Go module k8s.io/kubernetes. Requires Go.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const MODULE = 'k8s.io/kubernetes@v1.37.2';
export const FILE = join(import.meta.dirname, '../src/config/field-types.json');

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly format?: string;
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly 'x-kubernetes-group-version-kind'?: readonly {
    readonly group: string;
    readonly version: string;
    readonly kind: string;
  }[];
}

type Definitions = Readonly<Record<string, Schema>>;

/** Types that Go decodes with their own method. The document describes them as strings. */
const DECODED: Readonly<Record<string, string>> = {
  'io.k8s.apimachinery.pkg.api.resource.Quantity': 'quantity',
  'io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime': 'microTime',
  'io.k8s.apimachinery.pkg.apis.meta.v1.Time': 'time',
  'io.k8s.apimachinery.pkg.util.intstr.IntOrString': 'intOrString',
};

/** Scalar types by type and format. */
const SCALARS: Readonly<Record<string, string>> = {
  boolean: 'boolean',
  'integer int32': 'int32',
  'integer int64': 'int64',
  'number double': 'number',
  string: 'string',
  'string byte': 'bytes',
};

function readDefinitions(): Definitions {
  const { status, stdout, stderr } = spawnSync('go', ['mod', 'download', '-json', MODULE], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`go mod download ${MODULE} failed: ${stderr}`);
  const { Dir: folder } = JSON.parse(stdout) as { readonly Dir: string };
  const text = readFileSync(join(folder, 'api/openapi-spec/swagger.json'), 'utf8');
  return (JSON.parse(text) as { readonly definitions: Definitions }).definitions;
}

/**
 * Creates the text of the file. It lists the types of the kinds by API version, and the fields of each type. It
 * contains the kinds of stable API versions that are stored with metadata, and the types of their fields. The kind is
 * the name of its type without the group. In the fields, `string a b; []T c` declares two strings and a list, `{}T` is
 * a map, and `any` is any JSON value.
 */
export function createFieldTypes(definitions = readDefinitions()): string {
  const kinds: Record<string, string[]> = {};
  const types = new Map<string, Record<string, string>>();
  /**
   * Definitions by name. If several API groups have a type of the same name, the names of all but the first begin with
   * the group.
   */
  const names = new Map<string, string>();
  const typeName = (definition: string): string => {
    const [, group = '', name = ''] = /([^.]+)\.[^.]+\.([^.]+)$/.exec(definition) ?? [];
    const short = (names.get(name) ?? definition) === definition ? name : `${group}.${name}`;
    const owner = names.get(short) ?? definition;
    if (owner !== definition) throw new Error(`${definition} and ${owner} have the same name`);
    names.set(short, definition);
    return short;
  };
  const fieldType = ({ $ref, type = '', format, items, additionalProperties }: Schema): string => {
    if ($ref !== undefined) return addType($ref.slice('#/definitions/'.length));
    if (type === 'array') return `[]${fieldType(items ?? {})}`;
    if (type === 'object') return additionalProperties ? `{}${fieldType(additionalProperties)}` : 'any';
    const scalar = [type, format].filter(Boolean).join(' ');
    return SCALARS[scalar] ?? fail(`unknown type "${scalar}"`);
  };
  const addType = (definition: string): string => {
    const decoded = DECODED[definition];
    if (decoded !== undefined) return decoded;
    const { type, properties } = definitions[definition] ?? fail(`no definition ${definition}`);
    if (properties === undefined && type === undefined) return 'any';
    // Go decodes the types without fields in apimachinery with their own method, and the other types as structs.
    if (properties === undefined && definition.includes('.apimachinery.')) return 'any';
    const name = typeName(definition);
    if (types.has(name)) return name;
    const fields: Record<string, string> = {};
    types.set(name, fields);
    for (const [field, schema] of Object.entries(properties ?? {})) {
      const key = fieldType(schema);
      fields[key] = fields[key] === undefined ? field : `${fields[key]} ${field}`;
    }
    return name;
  };
  for (const [definition, schema] of Object.entries(definitions).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const isStored = schema.properties?.['metadata']?.$ref?.endsWith('.ObjectMeta') ?? false;
    for (const { group, version, kind } of schema['x-kubernetes-group-version-kind'] ?? []) {
      if (!isStored || !/^v\d+$/.test(version)) continue;
      const type = addType(definition);
      if (type.split('.').at(-1) !== kind) throw new Error(`the type of ${kind} is ${type}`);
      (kinds[group === '' ? version : `${group}/${version}`] ??= []).push(type);
    }
  }
  const document = {
    source: MODULE,
    kinds: Object.fromEntries(Object.entries(kinds).map(([version, names]) => [version, names.join(' ')])),
    types: Object.fromEntries(
      [...types].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, one]) => [name, printFields(one)]),
    ),
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

function printFields(fields: Readonly<Record<string, string>>): string {
  return Object.entries(fields)
    .map(([type, names]) => `${type} ${names}`)
    .join('; ');
}

function fail(message: string): never {
  throw new Error(message);
}

if (import.meta.main) writeFileSync(FILE, createFieldTypes());
