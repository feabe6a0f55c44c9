/**
 * CustomResourceDefinitions and custom resources. Ajv validates custom resources against their schema, removes unknown
 * fields and fills in defaults.
 * @see https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/registry/customresource/strategy.go
 */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import {
  invalidValue,
  notSupported,
  requiredField,
  tooLong,
  tooMany,
  type FieldError,
} from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { compileExpression, toCelValue } from '../match-conditions.ts';
import { age, ageColumn, nameColumn } from '../tables.ts';
import type { ApiObject, ResourceInfo, TableColumn } from '../types.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt, textsAt } from './read.ts';
import { createStrategy, restore, type KindRules } from './strategy.ts';

/** The rules of CustomResourceDefinitions. */
export const definitionRules: KindRules = {
  namespaced: false,
  generation: 'counted',
  initialStatus: (definition) => ({
    conditions: null,
    acceptedNames: { plural: '', kind: '' },
    storedVersions: storageVersions(definition),
  }),
  prepareForUpdate(definition, _old, subresource) {
    if (subresource !== '') return;
    const status = objectAt(definition, 'status');
    const stored = new Set([...textsAt(status, 'storedVersions'), ...storageVersions(definition)]);
    definition['status'] = { ...status, storedVersions: [...stored] };
  },
  validate: definitionErrors,
  validateUpdate(definition, old, subresource) {
    const [spec, before] = [objectAt(definition, 'spec'), objectAt(old, 'spec')];
    return ['group', 'scope']
      .filter((field) => subresource === '' && spec[field] !== before[field])
      .map((field) => invalidValue(`spec.${field}`, spec[field], 'field is immutable'));
  },
};

function storageVersions(definition: ApiObject): string[] {
  return objectsAt(objectAt(definition, 'spec'), 'versions')
    .filter((version) => version['storage'] === true)
    .map((version) => textAt(version, 'name'));
}

function definitionErrors(definition: ApiObject): FieldError[] {
  const spec = objectAt(definition, 'spec');
  const names = objectAt(spec, 'names');
  const name = textAt(definition.metadata, 'name');
  const scope = textAt(spec, 'scope');
  const versions = objectsAt(spec, 'versions');
  const required = [
    ['spec.group', textAt(spec, 'group')],
    ...['plural', 'singular', 'kind', 'listKind'].map((field) => [`spec.names.${field}`, textAt(names, field)]),
  ];
  return [
    ...(name === `${textAt(names, 'plural')}.${textAt(spec, 'group')}`
      ? []
      : [invalidValue('metadata.name', name, 'must be spec.names.plural+"."+spec.group')]),
    ...required.filter(([, value]) => value === '').map(([path = '']) => requiredField(path, '')),
    ...(['Cluster', 'Namespaced'].includes(scope)
      ? []
      : [notSupported('spec.scope', scope, ['Cluster', 'Namespaced'])]),
    ...(storageVersions(definition).length === 1
      ? []
      : [invalidValue('spec.versions', versions, 'must have exactly one version marked as storage version')]),
    ...versions.flatMap((version, index) => schemaErrors(version, `spec.versions[${index}].schema.openAPIV3Schema`)),
  ];
}

function schemaErrors(version: JsonObject, path: string): FieldError[] {
  if (!hasField(objectAt(version, 'schema'), 'openAPIV3Schema')) return [requiredField(path, 'schemas are required')];
  const schema = versionSchema(version);
  const rule = objectsAt(schema, 'x-kubernetes-validations').find((one) => !compileRule(one).ok);
  const program = rule && compileRule(rule);
  if (program?.ok === false) {
    return [invalidValue(`${path}.x-kubernetes-validations`, textAt(rule, 'rule'), program.error)];
  }
  try {
    compileSchema(schema);
    return [];
  } catch (error) {
    return [invalidValue(path, '', (error as Error).message)];
  }
}

function versionSchema(version: JsonObject): JsonObject {
  return objectAt(objectAt(version, 'schema'), 'openAPIV3Schema');
}

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

/** The resources of a CustomResourceDefinition: one for each version that is served. */
export function resourcesOfDefinition(definition: ApiObject): readonly ResourceInfo[] {
  const spec = objectAt(definition, 'spec');
  const names = objectAt(spec, 'names');
  return objectsAt(spec, 'versions')
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
      strategy: createStrategy(customRules(version, spec['scope'] === 'Namespaced')),
      custom: true,
    }));
}

function hasStatus(version: JsonObject): boolean {
  return hasField(objectAt(version, 'subresources'), 'status');
}

function customRules(version: JsonObject, namespaced: boolean): KindRules {
  const schema = versionSchema(version);
  const validate = compileSchema(schema);
  return {
    namespaced,
    generation: 'counted',
    ...(hasStatus(version) ? { initialStatus: () => undefined } : {}),
    // The validation also removes unknown fields and fills in defaults.
    defaults: (object) => void validate(object),
    prepareForUpdate(object, old, subresource) {
      if (subresource !== 'status' || !object.metadata) return;
      const kept = ['managedFields', 'resourceVersion'];
      restore(object.metadata, old.metadata ?? {}, (field) => !kept.includes(field));
    },
    validateCreate: (object) => customErrors(object, undefined, schema, validate),
    validateUpdate: (object, old) => customErrors(object, old, schema, validate),
  };
}

function customErrors(
  object: ApiObject,
  old: ApiObject | undefined,
  schema: JsonObject,
  validate: ValidateFunction,
): FieldError[] {
  const errors = validate(object)
    ? []
    : (validate.errors ?? []).filter(({ schemaPath }) => !IN_BRANCH.test(schemaPath));
  if (errors.length > 0) return errors.map(toFieldError);
  return objectsAt(schema, 'x-kubernetes-validations').flatMap((rule) => ruleErrors(rule, object, old));
}

/** Errors in the branches of a junctor are summarized by the error of the junctor. */
const IN_BRANCH = /\/(anyOf|oneOf|not)\/\d/;

function compileRule(rule: JsonObject): ReturnType<typeof compileExpression> {
  return compileExpression(textAt(rule, 'rule').trim(), ['oldSelf', 'self']);
}

/** Evaluates a CEL rule of the root. Rules about `oldSelf` apply to updates only. */
function ruleErrors(rule: JsonObject, object: ApiObject, old: ApiObject | undefined): FieldError[] {
  const program = compileRule(rule);
  if (!program.ok || (old === undefined && /\boldSelf\b/.test(textAt(rule, 'rule')))) return [];
  const outcome = program.run({ self: toCelValue(object), oldSelf: toCelValue(old) });
  const message = textAt(rule, 'message') || `failed rule: ${textAt(rule, 'rule').trim()}`;
  if (outcome === true) return [];
  if (outcome === false) return [{ type: 'FieldValueInvalid', path: '<nil>', detail: message }];
  return [invalidValue('<nil>', 'object', `${outcome.error} evaluating rule: ${message}`)];
}

const FORMATS = {
  'date-time': (text: string) =>
    /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/.test(text) &&
    !Number.isNaN(Date.parse(text)),
  byte: (text: string) => /^[A-Za-z0-9+/]+={0,2}$/.test(text) && text.length % 4 === 0,
  int32: true,
  int64: true,
} as const;

/** Compiles an `openAPIV3Schema`. The returned function changes the object. Throws an Error for an invalid schema. */
function compileSchema(schema: JsonObject): ValidateFunction {
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    verbose: true,
    logger: false,
    useDefaults: true,
    removeAdditional: true,
    formats: FORMATS,
  });
  const typeMeta = { apiVersion: {}, kind: {}, metadata: {} };
  const pruned = closeObjects(schema);
  return ajv.compile({ ...pruned, properties: { ...objectAt(pruned, 'properties'), ...typeMeta } });
}

/** Forbids unknown fields in all objects with known fields, so that Ajv removes them. */
function closeObjects(schema: JsonObject): JsonObject {
  const { properties, additionalProperties, items } = schema;
  const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true;
  const close = (value: unknown): unknown => (isObject(value) ? closeObjects(value) : value);
  return {
    ...schema,
    ...(isObject(properties) && !isOpen ? { additionalProperties: false } : {}),
    ...(isObject(properties)
      ? { properties: Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, close(part)])) }
      : {}),
    ...(isObject(additionalProperties) ? { additionalProperties: close(additionalProperties) } : {}),
    ...(isObject(items) ? { items: close(items) } : {}),
  };
}

/**
 * Converts an error of Ajv to the words of the API server.
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

/** The columns of `kubectl get`: the columns of the definition, or else the age. */
function versionColumns(version: JsonObject): readonly TableColumn[] {
  const columns = objectsAt(version, 'additionalPrinterColumns');
  return [nameColumn, ...(columns.length === 0 ? [ageColumn] : columns.map(createColumn))];
}

function createColumn(column: JsonObject): TableColumn {
  const [path, type] = [textAt(column, 'jsonPath'), textAt(column, 'type')];
  return {
    name: textAt(column, 'name'),
    type,
    format: textAt(column, 'format'),
    description: textAt(column, 'description') || `Custom resource definition column (in JSONPath format): ${path}`,
    priority: numberAt(column, 'priority') ?? 0,
    cell: (object, now) => formatCell(readJsonPath(object, path), type, now),
  };
}

function formatCell(value: unknown, type: string, now: Date): unknown {
  if (value === undefined) return null;
  // Go's text for nil.
  if (value === null) return type === 'string' ? '<no value>' : null;
  if (type === 'date') return age(value, now);
  if (type === 'string') return typeof value === 'string' ? value : JSON.stringify(value);
  return typeof value === 'number' || typeof value === 'boolean' ? value : null;
}

/** A step of a JSONPath: a field, or the first item whose field has a value. */
const STEP = /\.([A-Za-z0-9_-]+)|\[\?\(\s*@\.([A-Za-z0-9_-]+)\s*==\s*['"]([^'"]*)['"]\s*\)\]/g;

function readJsonPath(object: unknown, path: string): unknown {
  return [...path.matchAll(STEP)].reduce<unknown>((value, [, field, key = '', text]) => {
    if (field === undefined) {
      return Array.isArray(value) ? value.find((item) => isObject(item) && item[key] === text) : undefined;
    }
    return isObject(value) && Object.hasOwn(value, field) ? value[field] : undefined;
  }, object);
}
