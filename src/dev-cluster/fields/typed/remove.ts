import { isObject } from '../../../kube/types.ts';
import type { FieldType } from '../types.ts';
import { below, isEmpty, type FieldSet } from './field-set.ts';
import { fieldElement, itemElement } from './path-element.ts';
import { fieldType, shapeOf } from './shape.ts';

/**
 * The value without the given fields; `null` where all that it held was among them.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/typed/remove.go
 */
export function removeFields(type: FieldType, value: unknown, fields: FieldSet): unknown {
  const shape = shapeOf(type, value);
  if (shape.kind === 'list' && Array.isArray(value)) {
    const items = value.flatMap((item: unknown) => {
      const result = itemElement(shape.type, item);
      return 'error' in result ? [item] : kept(shape.type.items, item, result.element, fields);
    });
    return items.length === 0 ? null : items;
  }
  if (shape.kind === 'object' && isObject(value)) {
    const entries = Object.entries(value).flatMap(([name, member]) =>
      kept(fieldType(shape.type, name), member, fieldElement(name), fields).map((rest) => [name, rest] as const),
    );
    return entries.length === 0 ? null : Object.fromEntries(entries);
  }
  // An atomic list or map of which something is to go goes as a whole.
  return typeof value === 'object' ? null : value;
}

/** What is left of a member: nothing if it is to go itself; an empty list or object if all below it is to go. */
function kept(type: FieldType, value: unknown, element: string, fields: FieldSet): unknown[] {
  if (fields.members.has(element)) return [];
  const inner = below(fields, element);
  if (isEmpty(inner)) return [value];
  const rest = removeFields(type, value, inner);
  if (rest !== null) return [rest];
  return [Array.isArray(value) ? [] : isObject(value) ? {} : null];
}
