import { deepEqual } from '../../../kube/equality.ts';
import { notSupported, requiredField, tooLong, tooMany, type FieldError } from '../../../kube/field-error.ts';
import { quote } from '../../../kube/text.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { numberAt, objectAt, objectsAt, textAt, textsAt } from '../read.ts';
import { formatError } from './format.ts';
import { identityOf } from './identity.ts';

/**
 * Field errors of a value that does not fit its schema, in the API server's words. `path` is `''` at the root.
 * @see https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apiserver/validation/validation.go
 */
export function validateValue(value: unknown, schema: JsonObject, path: string): FieldError[] {
  if (value === null && schema['nullable'] === true) return [];
  const wrong = typeError(value, schema, path);
  if (wrong) return [wrong];
  return [
    ...(typeof value === 'string' ? textErrors(value, schema, path) : []),
    ...(typeof value === 'number' ? numberErrors(value, schema, path) : []),
    ...(Array.isArray(value) ? listErrors(value, schema, path) : []),
    ...enumErrors(value, schema, path),
    ...(isObject(value) ? objectErrors(value, schema, path) : []),
    ...junctorErrors(value, schema, path),
  ];
}

/** The path of an error; the root is told from a field of that name by how Go prints nothing. */
function at(path: string): string {
  return path === '' ? '<nil>' : path;
}

function fault(path: string, value: unknown, what: string): FieldError {
  return { type: 'FieldValueInvalid', path: at(path), value, detail: `${path} in body ${what}` };
}

function typeError(value: unknown, schema: JsonObject, path: string): FieldError | undefined {
  const wanted = schema['x-kubernetes-int-or-string'] === true ? 'integer,string' : textAt(schema, 'type');
  const given = typeOf(value);
  const fits = wanted === '' || wanted.split(',').includes(given) || (wanted === 'number' && given === 'integer');
  return fits ? undefined : typeFault(path, wanted, given);
}

function typeFault(path: string, wanted: string, given: string): FieldError {
  const detail = `${path} in body must be of type ${wanted}: ${quote(given)}`;
  return { type: 'FieldValueTypeInvalid', path: at(path), value: given, detail };
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  if (value === null) return 'null';
  return typeof value === 'number' && Number.isInteger(value) ? 'integer' : typeof value;
}

function textErrors(value: string, schema: JsonObject, path: string): FieldError[] {
  const { length } = Array.from(value);
  const max = numberAt(schema, 'maxLength');
  const min = numberAt(schema, 'minLength');
  const pattern = textAt(schema, 'pattern');
  const format = formatError(value, textAt(schema, 'format'));
  return [
    ...(max !== undefined && length > max ? [tooLong(at(path), max)] : []),
    ...(min !== undefined && length < min ? [fault(path, value, `should be at least ${min} chars long`)] : []),
    ...(pattern !== '' && !matches(value, pattern) ? [fault(path, value, `should match '${pattern}'`)] : []),
    ...(format === undefined ? [] : [typeFault(path, format, value)]),
  ];
}

/** Patterns are evaluated as JavaScript does; one that JavaScript cannot read matches everything. */
function matches(value: string, text: string): boolean {
  try {
    return new RegExp(text, 'u').test(value);
  } catch {
    return true;
  }
}

function numberErrors(value: number, schema: JsonObject, path: string): FieldError[] {
  const max = numberAt(schema, 'maximum');
  const min = numberAt(schema, 'minimum');
  const factor = numberAt(schema, 'multipleOf');
  const noMax = schema['exclusiveMaximum'] === true;
  const noMin = schema['exclusiveMinimum'] === true;
  return [
    ...(max !== undefined && (noMax ? value >= max : value > max)
      ? [fault(path, value, `should be less than ${noMax ? '' : 'or equal to '}${max}`)]
      : []),
    ...(min !== undefined && (noMin ? value <= min : value < min)
      ? [fault(path, value, `should be greater than ${noMin ? '' : 'or equal to '}${min}`)]
      : []),
    ...(factor !== undefined && !Number.isInteger(value / factor)
      ? [fault(path, value, `should be a multiple of ${factor}`)]
      : []),
  ];
}

function listErrors(value: readonly unknown[], schema: JsonObject, path: string): FieldError[] {
  const max = numberAt(schema, 'maxItems');
  const min = numberAt(schema, 'minItems');
  const { items } = schema;
  return [
    ...(isObject(items) ? value.flatMap((item, index) => validateValue(item, items, `${path}[${index}]`)) : []),
    ...(min !== undefined && value.length < min
      ? [fault(path, value.length, `should have at least ${min} items`)]
      : []),
    ...(max !== undefined && value.length > max ? [tooMany(at(path), value.length, max)] : []),
    ...duplicates(value, schema, path),
  ];
}

/** Lists that are sets or maps hold nothing twice. */
function duplicates(value: readonly unknown[], schema: JsonObject, path: string): FieldError[] {
  const listType = textAt(schema, 'x-kubernetes-list-type');
  if (listType !== 'set' && listType !== 'map') return [];
  const keys = textsAt(schema, 'x-kubernetes-list-map-keys');
  const seen = new Set<string>();
  return value.flatMap((item, index) => {
    const named =
      listType === 'set' || !isObject(item) ? item : Object.fromEntries(keys.map((key) => [key, item[key]]));
    const identity = identityOf(named);
    if (!seen.has(identity)) {
      seen.add(identity);
      return [];
    }
    return [{ type: 'FieldValueDuplicate' as const, path: `${path}[${index}]`, value: named, detail: '' }];
  });
}

function enumErrors(value: unknown, schema: JsonObject, path: string): FieldError[] {
  const values = schema['enum'];
  if (!Array.isArray(values) || values.some((allowed) => deepEqual(allowed, value))) return [];
  const texts = values.map((allowed) => (typeof allowed === 'string' ? allowed : JSON.stringify(allowed)));
  return [notSupported(at(path), value, texts)];
}

function objectErrors(value: JsonObject, schema: JsonObject, path: string): FieldError[] {
  const properties = objectAt(schema, 'properties');
  const count = Object.keys(value).length;
  const max = numberAt(schema, 'maxProperties');
  const min = numberAt(schema, 'minProperties');
  const inside = (name: string): string => (path === '' ? name : `${path}.${name}`);
  return [
    ...textsAt(schema, 'required')
      .filter((name) => !Object.hasOwn(value, name) || value[name] === undefined)
      .map((name) => requiredField(inside(name), '')),
    ...(min !== undefined && count < min ? [fault(path, count, `should have at least ${min} properties`)] : []),
    ...(max !== undefined && count > max ? [tooMany(at(path), count, max)] : []),
    ...Object.entries(value).flatMap(([name, item]) => {
      const own = Object.hasOwn(properties, name) ? properties[name] : schema['additionalProperties'];
      return isObject(own) ? validateValue(item, own, inside(name)) : [];
    }),
  ];
}

function junctorErrors(value: unknown, schema: JsonObject, path: string): FieldError[] {
  const fits = (part: JsonObject): boolean => validateValue(value, part, path).length === 0;
  const [anyOf, oneOf] = [objectsAt(schema, 'anyOf'), objectsAt(schema, 'oneOf')];
  const valid = oneOf.length === 0 ? 1 : oneOf.filter(fits).length;
  return [
    ...objectsAt(schema, 'allOf').flatMap((part) => validateValue(value, part, path)),
    ...(anyOf.length > 0 && !anyOf.some(fits)
      ? [says(path, `${quote(path)} must validate at least one schema (anyOf)`)]
      : []),
    ...(valid === 1 ? [] : [oneOfError(valid, path)]),
    ...(isObject(schema['not']) && fits(schema['not'])
      ? [says(path, `${quote(path)} must not validate the schema (not)`)]
      : []),
  ];
}

function oneOfError(count: number, path: string): FieldError {
  const found = count === 0 ? 'Found none valid' : `Found ${count} valid alternatives`;
  return says(path, `${quote(path)} must validate one and only one schema (oneOf). ${found}`);
}

function says(path: string, detail: string): FieldError {
  return { type: 'FieldValueInvalid', path: at(path), value: '', detail };
}
