import { isObject } from '../../../kube/types.ts';
import type { AnyType, FieldType, ListType, ObjectType } from '../types.ts';

/** How a value is owned: as one leaf, item by item, or field by field. */
export type Shape =
  | { readonly kind: 'leaf' }
  | { readonly kind: 'list'; readonly type: ListType }
  | { readonly kind: 'object'; readonly type: ObjectType };

const LEAF: Shape = { kind: 'leaf' };
const ANY_BELOW: AnyType = { kind: 'any', granular: true, goType: 'interface {}' };
const ANY_OBJECT: ObjectType = {
  kind: 'object',
  fields: new Map(),
  additional: ANY_BELOW,
  atomic: false,
  goType: 'map[string]interface {}',
};

/** The shape that a type gives to a value; where anything is allowed, the value decides. `null` fits every shape. */
export function shapeOf(type: FieldType, value: unknown): Shape {
  switch (type.kind) {
    case 'scalar':
      return LEAF;
    case 'list':
      return type.listType === 'atomic' ? LEAF : { kind: 'list', type };
    case 'object':
      return type.atomic ? LEAF : { kind: 'object', type };
    case 'any':
      return type.granular && isObject(value) ? { kind: 'object', type: ANY_OBJECT } : LEAF;
  }
}

/** The type of a field of an object; anything goes where the type does not know it. */
export function fieldType(type: ObjectType, name: string): FieldType {
  return type.fields.get(name)?.type ?? type.additional ?? ANY_BELOW;
}

/** The value as a list, with `null` and what is none as the empty one. */
export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value as an object, with `null` and what is none as the empty one. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}
