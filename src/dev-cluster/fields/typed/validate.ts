import { isObject } from '../../../kube/types.ts';
import { goFormat, goSyntax, goTypeOf } from '../go-format.ts';
import type { FieldType, ListType, ObjectType, ScalarType } from '../types.ts';
import { fieldElement, itemElement, printElement } from './path-element.ts';

/** Items with the same keys: stored objects may have them, configurations may not. */
export type Twins = 'allowed' | 'refused';

/**
 * What is wrong with an object: wrong types, unknown fields, items without keys or with the same keys. One text as the
 * API server prints it, or `undefined`.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/typed/validate.go
 */
export function validateTyped(type: FieldType, value: unknown, twins: Twins): string | undefined {
  const errors = visit(type, value, '', twins);
  if (errors.length === 0) return undefined;
  return errors.length === 1 ? errors[0] : ['errors:', ...errors.map((error) => `  ${error}`)].join('\n');
}

function visit(type: FieldType, value: unknown, path: string, twins: Twins): string[] {
  if (value === null) return [];
  switch (type.kind) {
    case 'any':
      return [];
    case 'scalar':
      return scalarErrors(type, value).map((error) => at(path, error));
    case 'list':
      return Array.isArray(value)
        ? itemErrors(type, value, path, twins)
        : [at(path, `expected list, got &{${goFormat(value)}}`)];
    case 'object':
      return isObject(value)
        ? memberErrors(type, value, path, twins)
        : [at(path, `expected map, got &{${goFormat(value)}}`)];
  }
}

function memberErrors(type: ObjectType, value: object, path: string, twins: Twins): string[] {
  const errors: string[] = [];
  for (const [name, member] of Object.entries(value)) {
    const below = path + printElement(fieldElement(name));
    const known = type.fields.get(name)?.type ?? type.additional;
    // The API server stops at the first unknown field of an object.
    if (!known) return [...errors, at(below, 'field not declared in schema')];
    errors.push(...visit(known, member, below, twins));
  }
  return errors;
}

function itemErrors(type: ListType, items: readonly unknown[], path: string, twins: Twins): string[] {
  if (type.listType === 'atomic')
    return items.flatMap((item, index) => visit(type.items, item, `${path}[${index}]`, twins));
  const seen = new Set<string>();
  const errors: string[] = [];
  for (const [index, item] of items.entries()) {
    const result = itemElement(type, item);
    if ('error' in result) return [...errors, at(path, `element ${index}: ${result.error}`)];
    const printed = printElement(result.element);
    if (twins === 'refused' && seen.has(result.element)) errors.push(at(path, `duplicate entries for key ${printed}`));
    seen.add(result.element);
    errors.push(...visit(type.items, item, path + printed, twins));
  }
  return errors;
}

function scalarErrors(type: ScalarType, value: unknown): string[] {
  switch (type.scalar) {
    case 'int32':
    case 'int64':
    case 'number':
      return typeof value === 'number' ? [] : [`expected numeric (int or float), got ${goTypeOf(value)}`];
    case 'boolean':
      return typeof value === 'boolean' ? [] : [`expected boolean, got &{${goFormat(value)}}`];
    case 'string':
    case 'bytes':
      return typeof value === 'string'
        ? []
        : [`expected string, got &value.valueUnstructured{Value:${goSyntax(value)}}`];
    default:
      return typeof value === 'object' ? [`expected any scalar, got &{${goFormat(value)}}`] : [];
  }
}

function at(path: string, error: string): string {
  return path === '' ? error : `${path}: ${error}`;
}
