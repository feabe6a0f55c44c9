import { semanticEqual } from '../../kube/equality.ts';
import type { FieldError } from '../../kube/field-error.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { ApiObject, ResourceInfo } from '../types.ts';
import { validateRules } from './cel/rules.ts';
import { withinTime } from './cel/time-limit.ts';
import { hasField, objectAt, objectsAt, textAt, textsAt } from './read.ts';
import { columnsOfVersion } from './schema/columns.ts';
import { fillDefaults } from './schema/defaults.ts';
import { validateValue } from './schema/validate.ts';
import { createStrategy, restore, type KindRules } from './strategy.ts';

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

/** The resources that a CustomResourceDefinition adds: one for each version that is served. */
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
      columns: columnsOfVersion(version),
      strategy: createStrategy(rulesOf(version, spec['scope'] === 'Namespaced')),
      custom: true,
    }));
}

function hasStatus(version: JsonObject): boolean {
  return hasField(objectAt(version, 'subresources'), 'status');
}

/**
 * Custom resources: all that is known of them stands in the schema.
 * @see https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/registry/customresource/strategy.go
 */
function rulesOf(version: JsonObject, namespaced: boolean): KindRules {
  const schema = objectAt(objectAt(version, 'schema'), 'openAPIV3Schema');
  const check = (object: ApiObject, old?: ApiObject): readonly FieldError[] => checkBySchema(object, old, schema);
  return {
    namespaced,
    generation: 'counted',
    ...(hasStatus(version) ? { initialStatus: () => undefined } : {}),
    defaults: (object) => fillDefaults(object, schema),
    prepareForUpdate(object, old, subresource) {
      if (subresource !== 'status' || !object.metadata) return;
      const kept = new Set(['managedFields', 'resourceVersion']);
      restore(object.metadata, old.metadata ?? {}, (field) => !kept.has(field));
    },
    validateCreate: (object) => check(object),
    validateUpdate: (object, old) => check(object, old),
  };
}

const UNCHECKED =
  'some validation rules were not checked because the object was invalid; correct the existing errors to complete validation';

const BLOCKING: ReadonlySet<string> = new Set([
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
]);

/** What was wrong already and has not been touched is let through, so that old objects can still be changed. */
function checkBySchema(object: ApiObject, old: ApiObject | undefined, schema: JsonObject): readonly FieldError[] {
  const errors = validateValue(object, schema, '').filter((error) => !(old && isUntouched(error, object, old)));
  if (!hasRules(schema)) return errors;
  if (!errors.some(({ type }) => BLOCKING.has(type))) {
    const checked = withinTime(() => validateRules({ value: object, old }, schema, ''));
    return [...errors, ...(checked?.result ?? [noFurther(schema)])];
  }
  return [...errors, { type: 'FieldValueInvalid', path: '<nil>', value: null, detail: UNCHECKED }];
}

function noFurther(schema: JsonObject): FieldError {
  const detail = 'validation failed due to running out of cost budget, no further validation rules will be run';
  return { type: 'FieldValueInvalid', path: '<nil>', value: textAt(schema, 'type'), detail };
}

function hasRules(schema: JsonObject): boolean {
  if (objectsAt(schema, 'x-kubernetes-validations').length > 0) return true;
  const parts = [...Object.values(objectAt(schema, 'properties')), schema['items'], schema['additionalProperties']];
  return parts.some((part) => part !== undefined && hasRules(objectAt({ part }, 'part')));
}

function isUntouched({ path }: FieldError, object: ApiObject, old: ApiObject): boolean {
  const now = valueAt(object, path);
  return now !== undefined && semanticEqual(now, valueAt(old, path));
}

function valueAt(object: unknown, path: string): unknown {
  const names = path.split(/[.[\]]+/).filter((name) => name !== '');
  return names.reduce<unknown>((part, name) => {
    if (typeof part !== 'object' || part === null || !Object.hasOwn(part, name)) return undefined;
    return (part as Record<string, unknown>)[name];
  }, object);
}
