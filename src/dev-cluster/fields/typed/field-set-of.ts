import { isObject } from '../../../kube/types.ts';
import type { FieldType, ListType, ObjectType } from '../types.ts';
import { byElement } from './compare.ts';
import { createFieldSet, insert, type FieldPath, type FieldSet } from './field-set.ts';
import { fieldElement } from './path-element.ts';
import { fieldType, itemsOf, membersOf, shapeOf } from './shape.ts';

/**
 * All fields that an applied configuration sets: its leaves, list items and map keys, and empty objects.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/typed/tofieldset.go
 */
export function fieldSetOf(type: FieldType, value: unknown): FieldSet {
  const set = createFieldSet();
  visit(type, value, [], set);
  return set;
}

function visit(type: FieldType, value: unknown, path: FieldPath, set: FieldSet): void {
  const shape = shapeOf(type, value);
  if (shape.kind === 'leaf') insert(set, path);
  if (shape.kind === 'list') visitItems(shape.type, itemsOf(value), path, set);
  if (shape.kind === 'object') visitMembers(shape.type, value, path, set);
}

function visitItems(type: ListType, items: readonly unknown[], path: FieldPath, set: FieldSet): void {
  for (const [element, twins] of byElement(type, items)) {
    const below = [...path, element];
    if (twins.length === 1) visit(type.items, twins[0], below, set);
    insert(set, below);
  }
}

function visitMembers(type: ObjectType, value: unknown, path: FieldPath, set: FieldSet): void {
  for (const [name, member] of Object.entries(membersOf(value))) {
    const below = [...path, fieldElement(name)];
    visit(fieldType(type, name), member, below, set);
    const empty = member === null || (isObject(member) && Object.keys(member).length === 0);
    if (empty || !type.fields.has(name)) insert(set, below);
  }
}
