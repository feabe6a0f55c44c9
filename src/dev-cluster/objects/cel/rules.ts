import type { FieldError, FieldErrorType } from '../../../kube/field-error.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { objectAt, objectsAt, textAt, textsAt } from '../read.ts';
import { keyOf } from '../schema/identity.ts';
import { compile } from './program.ts';
import { schemaValue } from './values.ts';

const VARIABLES = ['oldSelf', 'self'];

/** Why a validation rule cannot be evaluated here; `undefined` if it can. */
export function ruleError(rule: string): string | undefined {
  const program = compile(rule, VARIABLES);
  return program.ok ? undefined : program.error;
}

/** A value with what it was before, if it can be told which part it replaces. */
interface Change {
  readonly value: unknown;
  readonly old: unknown;
}

/**
 * Field errors of the validation rules of a schema. Rules that speak of `oldSelf` count only where there was something
 * before.
 * @see https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
 */
export function validateRules(change: Change, schema: JsonObject, path: string): FieldError[] {
  if (change.value == null) return [];
  return [
    ...objectsAt(schema, 'x-kubernetes-validations').flatMap((rule) => apply(rule, change, schema, path)),
    ...partsOf(change, schema, path).flatMap((part) => validateRules(part.change, part.schema, part.path)),
  ];
}

interface Part {
  readonly change: Change;
  readonly schema: JsonObject;
  readonly path: string;
}

function partsOf({ value, old }: Change, schema: JsonObject, path: string): readonly Part[] {
  if (Array.isArray(value) && isObject(schema['items'])) {
    const { items } = schema;
    const counterpartOf = createCounterparts(old, schema);
    return value.map((item: unknown, index) => ({
      change: { value: item, old: counterpartOf(item) },
      schema: items,
      path: `${path}[${index}]`,
    }));
  }
  if (!isObject(value)) return [];
  const properties = objectAt(schema, 'properties');
  return Object.entries(value).flatMap(([name, item]) => {
    const own = Object.hasOwn(properties, name) ? properties[name] : schema['additionalProperties'];
    if (!isObject(own)) return [];
    const before = isObject(old) && Object.hasOwn(old, name) ? old[name] : undefined;
    const isField = Object.hasOwn(properties, name);
    const at = isField ? (path === '' ? name : `${path}.${name}`) : `${path}[${name}]`;
    return [{ change: { value: item, old: before }, schema: own, path: at }];
  });
}

/** Tells which item of a list was this before: only lists that are maps know. */
function createCounterparts(old: unknown, schema: JsonObject): (item: unknown) => unknown {
  if (schema['x-kubernetes-list-type'] !== 'map' || !Array.isArray(old)) return () => undefined;
  const keys = textsAt(schema, 'x-kubernetes-list-map-keys');
  const before = new Map(old.filter(isObject).map((item) => [keyOf(item, keys), item]));
  return (item) => (isObject(item) ? before.get(keyOf(item, keys)) : undefined);
}

function apply(rule: JsonObject, change: Change, schema: JsonObject, path: string): FieldError[] {
  const text = textAt(rule, 'rule').trim();
  if (change.old === undefined && /\boldSelf\b/.test(text)) return [];
  const program = compile(text, VARIABLES);
  if (!program.ok) return [invalid(path, textAt(schema, 'type'), `rule compile error: ${program.error}`)];
  const outcome = program.run({ self: schemaValue(change.value), oldSelf: schemaValue(change.old ?? null) });
  if (outcome === true) return [];
  const message = textAt(rule, 'message').trim();
  if (outcome !== false) {
    const said = message === '' ? text : message;
    return [invalid(path, textAt(schema, 'type'), `${outcome.error} evaluating rule: ${said}`)];
  }
  return [violation(rule, change.value, message === '' ? `failed rule: ${text}` : message, path)];
}

function invalid(path: string, value: unknown, detail: string): FieldError {
  return { type: 'FieldValueInvalid', path: path === '' ? '<nil>' : path, value, detail };
}

/** Objects and lists are not printed. */
function violation(rule: JsonObject, value: unknown, detail: string, path: string): FieldError {
  const type = (textAt(rule, 'reason') || 'FieldValueInvalid') as FieldErrorType;
  const inside = textAt(rule, 'fieldPath').replace(/^\./, '');
  const at = inside === '' ? path : path === '' ? inside : `${path}.${inside}`;
  const printed = typeof value === 'object' ? {} : { value };
  return { type, path: at === '' ? '<nil>' : at, detail, ...printed };
}
