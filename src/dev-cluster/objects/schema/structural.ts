import {
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../../kube/field-error.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { ruleError } from '../cel/rules.ts';
import { hasField, objectAt, objectsAt, textAt } from '../read.ts';

/** Where a schema stands; what must be said of its type depends on it. */
type Place = 'root' | 'field' | 'item' | 'junctor';

const TYPES = ['array', 'boolean', 'integer', 'number', 'object', 'string'];
const JUNCTORS = ['allOf', 'anyOf', 'oneOf'];

const MISSING_TYPE: Readonly<Record<Exclude<Place, 'junctor'>, string>> = {
  root: 'must not be empty at the root',
  field: 'must not be empty for specified object fields',
  item: 'must not be empty for specified array items',
};

/**
 * Field errors of a schema: every part must say its type, so that unknown fields can be told.
 * @see https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
 */
export function structuralErrors(schema: JsonObject, path: string, place: Place = 'root'): FieldError[] {
  return [
    ...typeErrors(schema, path, place),
    ...extensionErrors(schema, path, place),
    ...ruleErrors(schema, path, place),
    ...fieldErrors(schema, path),
    ...itemErrors(schema, path),
    ...JUNCTORS.flatMap((junctor) =>
      objectsAt(schema, junctor).flatMap((part, index) =>
        structuralErrors(part, `${path}.${junctor}[${index}]`, 'junctor'),
      ),
    ),
    ...(hasField(schema, 'not') ? structuralErrors(objectAt(schema, 'not'), `${path}.not`, 'junctor') : []),
  ];
}

function typeErrors(schema: JsonObject, path: string, place: Place): FieldError[] {
  const type = textAt(schema, 'type');
  if (type === '') {
    const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true && place !== 'root';
    const isEither = schema['x-kubernetes-int-or-string'] === true;
    return place === 'junctor' || isOpen || isEither ? [] : [requiredField(`${path}.type`, MISSING_TYPE[place])];
  }
  if (!TYPES.includes(type)) return [notSupported(`${path}.type`, type, TYPES)];
  return place === 'root' && type !== 'object'
    ? [invalidValue(`${path}.type`, type, 'must be object at the root')]
    : [];
}

const UNIQUE_ITEMS = 'uniqueItems cannot be set to true since the runtime complexity becomes quadratic';
const FORBIDDEN = ['definitions', 'dependencies', 'patternProperties', '$ref', '$schema', 'id', 'additionalItems'];

function extensionErrors(schema: JsonObject, path: string, place: Place): FieldError[] {
  const listType = textAt(schema, 'x-kubernetes-list-type');
  return [
    ...FORBIDDEN.filter((field) => hasField(schema, field)).map((field) =>
      forbiddenField(`${path}.${field}`, `${field} is not supported`),
    ),
    ...(schema['uniqueItems'] === true ? [forbiddenField(`${path}.uniqueItems`, UNIQUE_ITEMS)] : []),
    ...(place === 'junctor' && hasField(schema, 'default')
      ? [forbiddenField(`${path}.default`, 'must be undefined to be structural')]
      : []),
    ...(listType === '' || ['atomic', 'map', 'set'].includes(listType)
      ? []
      : [notSupported(`${path}.x-kubernetes-list-type`, listType, ['atomic', 'map', 'set'])]),
    ...(listType === 'map' && !Array.isArray(schema['x-kubernetes-list-map-keys'])
      ? [requiredField(`${path}.x-kubernetes-list-map-keys`, 'must not be empty if x-kubernetes-list-type is map')]
      : []),
  ];
}

const REASONS = ['FieldValueDuplicate', 'FieldValueForbidden', 'FieldValueInvalid', 'FieldValueRequired'];

function ruleErrors(schema: JsonObject, path: string, place: Place): FieldError[] {
  const rules = objectsAt(schema, 'x-kubernetes-validations');
  if (place === 'junctor' && rules.length > 0) {
    return [forbiddenField(`${path}.x-kubernetes-validations`, 'must be empty to be structural')];
  }
  return rules.flatMap((rule, index) => {
    const at = `${path}.x-kubernetes-validations[${index}]`;
    const reason = textAt(rule, 'reason');
    const error = textAt(rule, 'rule').trim() === '' ? undefined : ruleError(textAt(rule, 'rule').trim());
    return [
      ...(textAt(rule, 'rule').trim() === '' ? [requiredField(`${at}.rule`, 'rule is not specified')] : []),
      ...(error === undefined ? [] : [invalidValue(`${at}.rule`, rule['rule'], error)]),
      ...(reason === '' || REASONS.includes(reason) ? [] : [notSupported(`${at}.reason`, reason, REASONS)]),
      ...['messageExpression', 'optionalOldSelf']
        .filter((field) => hasField(rule, field) && rule[field] !== false && rule[field] !== '')
        .map((field) => forbiddenField(`${at}.${field}`, 'not supported by the development cluster')),
    ];
  });
}

function fieldErrors(schema: JsonObject, path: string): FieldError[] {
  const { additionalProperties } = schema;
  const properties = Object.entries(objectAt(schema, 'properties'));
  const both = properties.length > 0 && isObject(additionalProperties);
  return [
    ...(both ? [forbiddenField(`${path}.additionalProperties`, 'must not be used together with properties')] : []),
    ...properties.flatMap(([name, property]) =>
      isObject(property) ? structuralErrors(property, `${path}.properties[${name}]`, 'field') : [],
    ),
    ...(isObject(additionalProperties)
      ? structuralErrors(additionalProperties, `${path}.additionalProperties`, 'field')
      : []),
  ];
}

function itemErrors(schema: JsonObject, path: string): FieldError[] {
  if (isObject(schema['items'])) return structuralErrors(schema['items'], `${path}.items`, 'item');
  return schema['type'] === 'array' && schema['x-kubernetes-preserve-unknown-fields'] !== true
    ? [requiredField(`${path}.items`, 'must be specified')]
    : [];
}
