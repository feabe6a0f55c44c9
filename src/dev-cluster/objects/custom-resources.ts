/**
 * Implements CRDs and custom resources. Ajv validates custom resources and sets their defaults.
 * @see https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/registry/customresource/strategy.go
 */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { withoutNulls } from '../../kube/equality.ts';
import {
  type FieldError,
  invalidValue,
  notSupported,
  requiredField,
  tooLong,
  tooMany,
} from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { toCelValue } from '../cel.ts';
import { customResourceSchema } from '../fields/schema.ts';
import { evaluate } from '../match-conditions.ts';
import type { ServedResource } from '../resource-info.ts';
import { age, ageColumn, nameColumn } from '../tables.ts';
import {
  type ApiObject,
  at,
  hasField,
  itemsAt,
  numberAt,
  nestedObject,
  type TableColumn,
  textAt,
  textsAt,
} from '../types.ts';
import { createStrategy, type KindRules, restore } from './strategy.ts';

export const definitionRules: KindRules = {
  generation: 'counted',
  // The conditions are set at creation, because the resources are served as soon as the CRD is stored.
  initialStatus: (definition) => ({
    conditions: [
      condition(definition, 'NamesAccepted', 'NoConflicts', 'no conflicts found'),
      condition(definition, 'Established', 'InitialNamesAccepted', 'the initial names have been accepted'),
    ],
    acceptedNames: nestedObject(definition, 'spec', 'names'),
    storedVersions: itemsAt(definition, 'spec', 'versions')
      .filter((version) => version['storage'] === true)
      .map((version) => textAt(version, 'name')),
  }),
  validate: definitionErrors,
};

function condition({ metadata }: ApiObject, type: string, reason: string, message: string): object {
  return { type, status: 'True', lastTransitionTime: metadata?.['creationTimestamp'], reason, message };
}

/** Returns errors for CRDs that the server cannot serve. */
function definitionErrors(definition: ApiObject): FieldError[] {
  const spec = nestedObject(definition, 'spec');
  const name = textAt(definition, 'metadata', 'name');
  const isNamed = name === `${textAt(spec, 'names', 'plural')}.${textAt(spec, 'group')}`;
  return [
    ...(isNamed ? [] : [invalidValue('metadata.name', name, 'must be spec.names.plural+"."+spec.group')]),
    ...itemsAt(spec, 'versions').flatMap((version, index) => {
      const path = `spec.versions[${index}].schema.openAPIV3Schema`;
      if (!hasField(version, 'schema', 'openAPIV3Schema')) return [requiredField(path, 'schemas are required')];
      try {
        compileSchema(versionSchema(version));
        return [];
      } catch (error) {
        return [invalidValue(path, '', (error as Error).message)];
      }
    }),
  ];
}

function versionSchema(version: JsonObject): JsonObject {
  return nestedObject(version, 'schema', 'openAPIV3Schema');
}

const VERBS = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'];

/** Returns a CRD's resources, one for each served version. */
export function definedResources(definition: ApiObject): readonly ServedResource[] {
  const spec = nestedObject(definition, 'spec');
  const names = nestedObject(spec, 'names');
  return itemsAt(spec, 'versions')
    .filter((version) => version['served'] === true)
    .map((version) => ({
      group: textAt(spec, 'group'),
      version: textAt(version, 'name'),
      kind: textAt(names, 'kind'),
      listKind: textAt(names, 'listKind'),
      resource: textAt(names, 'plural'),
      singular: textAt(names, 'singular'),
      namespaced: spec['scope'] === 'Namespaced',
      shortNames: textsAt(names, 'shortNames'),
      categories: textsAt(names, 'categories'),
      verbs: VERBS,
      subresources: hasStatus(version) ? ['status'] : [],
      columns: versionColumns(version),
      strategy: createStrategy(customRules(version), spec['scope'] === 'Namespaced'),
      schema: customResourceSchema(versionSchema(version)),
      custom: true,
    }));
}

function hasStatus(version: JsonObject): boolean {
  return hasField(version, 'subresources', 'status');
}

function customRules(version: JsonObject): KindRules {
  const schema = versionSchema(version);
  const validate = compileSchema(schema);
  const customErrors = (object: ApiObject, old?: ApiObject): readonly FieldError[] => {
    const isValid = validate(object);
    const errors = isValid ? [] : (validate.errors ?? []).filter(({ schemaPath }) => !IN_BRANCH.test(schemaPath));
    if (errors.length > 0) return errors.map(toFieldError);
    // Removes null members, which CEL treats as absent.
    return ruleErrors(withoutNulls(object), old && withoutNulls(old), schema);
  };
  return {
    generation: 'counted',
    ...(hasStatus(version) ? { initialStatus: () => undefined } : {}),
    prune: (object) => prune(object, schema),
    // Calls `validate` only for its side effect, because validation sets the defaults.
    defaults: (object) => void validate(object),
    prepareForUpdate(object, old, subresource) {
      if (subresource !== 'status' || !object.metadata) return;
      const fixedFields = ['managedFields', 'resourceVersion'];
      restore(object.metadata, old.metadata ?? {}, (field) => !fixedFields.includes(field));
    },
    validateCreate: (object) => customErrors(object),
    validateUpdate: customErrors,
  };
}

/**
 * Applies the rules of a schema to a value, its fields, its list items and its map values. Rules that compare with the
 * old value apply only to an update, and not to list items.
 */
function ruleErrors(value: unknown, old: unknown, schema: JsonObject, path = ''): readonly FieldError[] {
  const own = itemsAt(schema, 'x-kubernetes-validations').flatMap(({ rule, message }) => {
    if (old === undefined && /\boldSelf\b/.test(String(rule))) return [];
    const variables = { self: toCelValue(value), ...(old === undefined ? {} : { oldSelf: toCelValue(old) }) };
    if (evaluate(String(rule), variables) === true) return [];
    const detail = typeof message === 'string' ? message : `failed rule: ${String(rule)}`;
    const isNested = typeof value === 'object';
    return [{ type: 'FieldValueInvalid', path: path || '<nil>', ...(isNested ? {} : { value }), detail } as const];
  });
  if (Array.isArray(value)) {
    const items = nestedObject(schema, 'items');
    return [...own, ...value.flatMap((item, index) => ruleErrors(item, undefined, items, `${path}[${index}]`))];
  }
  if (!isObject(value)) return own;
  const properties = nestedObject(schema, 'properties');
  const members = Object.entries(value).flatMap(([name, member]) =>
    Object.hasOwn(properties, name)
      ? ruleErrors(member, at(old, name), nestedObject(properties, name), path === '' ? name : `${path}.${name}`)
      : ruleErrors(member, at(old, name), nestedObject(schema, 'additionalProperties'), `${path}[${name}]`),
  );
  return [...own, ...members];
}

/** Removes fields that are not in the schema, and returns their paths. */
function prune(value: unknown, schema: JsonObject, path = ''): string[] {
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => prune(item, nestedObject(schema, 'items'), `${path}[${index}]`));
  }
  if (!isObject(value) || !isObject(schema['properties'])) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    if (path === '' && ['apiVersion', 'kind', 'metadata'].includes(name)) return [];
    const memberPath = path === '' ? name : `${path}.${name}`;
    const memberSchema = at(schema, 'properties', name) ?? at(schema, 'additionalProperties');
    if (isObject(memberSchema)) return prune(member, memberSchema, memberPath);
    if (schema['x-kubernetes-preserve-unknown-fields'] === true) return [];
    Reflect.deleteProperty(value, name);
    return [memberPath];
  });
}

/**
 * Matches the paths of errors in the branches of a keyword such as `anyOf`. These errors are dropped, because the error
 * of the keyword summarizes them.
 */
const IN_BRANCH = /\/(anyOf|oneOf|not)\/\d/;

const FORMATS = {
  'date-time': (text: string) =>
    /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/.test(text) &&
    !Number.isNaN(Date.parse(text)),
  date: (text: string) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)),
  byte: (text: string) => /^[A-Za-z0-9+/]+={0,2}$/.test(text) && text.length % 4 === 0,
  int32: true,
  int64: true,
} as const;

const ajv = new Ajv2020({
  strict: false,
  allErrors: true,
  verbose: true,
  logger: false,
  useDefaults: true,
  formats: FORMATS,
});

/** Cache of compiled schemas by their JSON text, because compilation takes longer than all other work for a new CRD. */
const compiled = new Map<string, ValidateFunction>();

/**
 * Compiles an `openAPIV3Schema`. The returned function sets defaults in the object. Throws an Error if the schema is
 * invalid.
 */
function compileSchema(schema: JsonObject): ValidateFunction {
  const text = JSON.stringify(schema);
  const known = compiled.get(text);
  if (known !== undefined) return known;
  const typeMeta = { apiVersion: {}, kind: {}, metadata: {} };
  const validate = ajv.compile({ ...schema, properties: { ...nestedObject(schema, 'properties'), ...typeMeta } });
  compiled.set(text, validate);
  return validate;
}

/**
 * Converts an Ajv error to the API server's message.
 * @see https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apiserver/validation/validation.go
 */
function toFieldError({ keyword, instancePath, params, data, message = '' }: ErrorObject): FieldError {
  const steps = instancePath.slice(1).split('/');
  const field = steps
    .map((step) => (/^\d+$/.test(step) ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1);
  const path = field || '<nil>';
  const limit = Number(params['limit']);
  const invalid = (detail: string): FieldError => invalidValue(path, data, `${field} in body ${detail}`);
  switch (keyword) {
    case 'required': {
      const missing = String(params['missingProperty']);
      return requiredField(field === '' ? missing : `${field}.${missing}`, '');
    }
    case 'type':
      return typeError(path, field, String(params['type']), typeName(data));
    case 'format':
      return typeError(path, field, String(params['format']), String(data));
    case 'enum':
      return notSupported(path, data, (params['allowedValues'] as unknown[]).map(String));
    case 'maxLength':
      return tooLong(path, limit);
    case 'maxItems':
      return tooMany(path, (data as unknown[]).length, limit);
    case 'minLength':
      return invalid(`should be at least ${limit} chars long`);
    case 'minimum':
      return invalid(`should be greater than or equal to ${limit}`);
    case 'anyOf':
      return invalidValue(path, '', `${quote(field)} must validate at least one schema (anyOf)`);
    default:
      return invalid(message);
  }
}

function typeError(path: string, field: string, expected: string, actual: string): FieldError {
  const detail = `${field} in body must be of type ${expected}: ${quote(actual)}`;
  return { type: 'FieldValueTypeInvalid', path, value: actual, detail };
}

function typeName(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  if (value === null) return 'null';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

/** Returns the columns for `kubectl get`, which are those in the CRD or, by default, the age. */
function versionColumns(version: JsonObject): readonly TableColumn[] {
  const columns = itemsAt(version, 'additionalPrinterColumns');
  return [nameColumn, ...(columns.length === 0 ? [ageColumn] : columns.map(createColumn))];
}

function createColumn(column: JsonObject): TableColumn {
  const [path, type] = [textAt(column, 'jsonPath'), textAt(column, 'type')];
  return {
    name: textAt(column, 'name'),
    type,
    format: textAt(column, 'format'),
    description: textAt(column, 'description') || `Custom resource definition column (in JSONPath format): ${path}`,
    priority: numberAt(column, 'priority'),
    cell: (object, now) => formatCell(readJsonPath(object, path), type, now),
  };
}

function formatCell(value: unknown, type: string, now: Date): unknown {
  if (value === undefined) return null;
  // Prints null as Go prints nil.
  if (value === null) return type === 'string' ? '<no value>' : null;
  if (type === 'date') return age(value, now);
  if (type === 'string') return typeof value === 'string' ? value : JSON.stringify(value);
  return typeof value === 'number' || typeof value === 'boolean' ? value : null;
}

/** Matches a JSONPath step, which is a field or the first item whose field has the given value. */
const STEP = /\.([A-Za-z0-9_-]+)|\[\?\(\s*@\.([A-Za-z0-9_-]+)\s*==\s*['"]([^'"]*)['"]\s*\)\]/g;

function readJsonPath(object: unknown, path: string): unknown {
  return [...path.matchAll(STEP)].reduce<unknown>((value, [, field, key = '', text]) => {
    if (field === undefined) {
      return Array.isArray(value) ? value.find((item) => isObject(item) && item[key] === text) : undefined;
    }
    return isObject(value) && Object.hasOwn(value, field) ? value[field] : undefined;
  }, object);
}
