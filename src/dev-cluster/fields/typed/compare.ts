import type { FieldType, ListType, ObjectType } from '../types.ts';
import { createFieldSet, insert, type FieldPath, type FieldSet } from './field-set.ts';
import { fieldElement, itemElement, type PathElement } from './path-element.ts';
import { deepEqual } from '../../../kube/equality.ts';
import { fieldType, itemsOf, membersOf, shapeOf, type Shape } from './shape.ts';

/** The fields in which two objects differ; none is in two of the sets. */
export interface Comparison {
  readonly removed: FieldSet;
  readonly modified: FieldSet;
  readonly added: FieldSet;
}

/**
 * Compares two objects of a type. A field that comes or goes counts with all that it holds.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/typed/compare.go
 */
export function compare(type: FieldType, before: unknown, after: unknown): Comparison {
  const result = { removed: createFieldSet(), modified: createFieldSet(), added: createFieldSet() };
  visit(type, before, after, [], result);
  return result;
}

/** The comparison with all three sets filtered. */
export function filtered({ removed, modified, added }: Comparison, filter: (fields: FieldSet) => FieldSet): Comparison {
  return { removed: filter(removed), modified: filter(modified), added: filter(added) };
}

/** `undefined` stands for an absent value on either side. */
function visit(type: FieldType, before: unknown, after: unknown, path: FieldPath, result: Comparison): void {
  const shape = shapeOf(type, after ?? before);
  const former = shapeOf(type, before ?? after);
  if (shape.kind !== former.kind) visitChangedShape(shape, former, { before, after }, path, result);
  else if (shape.kind === 'leaf' || (isHollow(before) && isHollow(after))) note(before, after, path, result);
  else visitBelow(shape, before, after, path, result);
}

function visitBelow(
  shape: Exclude<Shape, { kind: 'leaf' }>,
  before: unknown,
  after: unknown,
  path: FieldPath,
  result: Comparison,
): void {
  if (shape.kind === 'list') visitItems(shape.type, itemsOf(before), itemsOf(after), path, result);
  else visitMembers(shape.type, before, after, path, result);
  if (before === undefined) insert(result.added, path);
  else if (after === undefined) insert(result.removed, path);
}

/** Where anything is allowed, a leaf may become an object, and the reverse. */
function visitChangedShape(
  shape: Shape,
  former: Shape,
  { before, after }: { before: unknown; after: unknown },
  path: FieldPath,
  result: Comparison,
): void {
  note(before, after, path, result);
  if (former.kind === 'object') visitMembers(former.type, before, undefined, path, result);
  if (shape.kind === 'object') visitMembers(shape.type, undefined, after, path, result);
}

function note(before: unknown, after: unknown, path: FieldPath, result: Comparison): void {
  if (before === undefined) insert(result.added, path);
  else if (after === undefined) insert(result.removed, path);
  else if (!deepEqual(before, after)) insert(result.modified, path);
}

function visitMembers(type: ObjectType, before: unknown, after: unknown, path: FieldPath, result: Comparison): void {
  const [left, right] = [new Map(Object.entries(membersOf(before))), new Map(Object.entries(membersOf(after)))];
  for (const name of new Set([...left.keys(), ...right.keys()])) {
    visit(fieldType(type, name), left.get(name), right.get(name), [...path, fieldElement(name)], result);
  }
}

function visitItems(
  type: ListType,
  before: readonly unknown[],
  after: readonly unknown[],
  path: FieldPath,
  result: Comparison,
): void {
  const [left, right] = [byElement(type, before), byElement(type, after)];
  for (const element of new Set([...left.keys(), ...right.keys()])) {
    visitTwins(type, left.get(element) ?? [], right.get(element) ?? [], [...path, element], result);
  }
}

/** Items of one key; more than one of them on a side is legal in stored objects, and owned as one leaf. */
function visitTwins(
  type: ListType,
  before: readonly unknown[],
  after: readonly unknown[],
  path: FieldPath,
  result: Comparison,
): void {
  if (before.length > 1 && after.length > 1) {
    if (!deepEqual(before, after)) insert(result.modified, path);
  } else if (before.length > 1) {
    if (after.length === 1) visit(type.items, undefined, after[0], path, result);
    insert(result.removed, path);
  } else if (after.length > 1) {
    if (before.length === 1) visit(type.items, before[0], undefined, path, result);
    insert(result.added, path);
  } else visit(type.items, before[0], after[0], path, result);
}

/** The items of a list by their path elements; what has none is left out. */
export function byElement(type: ListType, items: readonly unknown[]): Map<PathElement, unknown[]> {
  const found = new Map<PathElement, unknown[]>();
  for (const item of items) {
    const result = itemElement(type, item);
    if ('element' in result) found.set(result.element, [...(found.get(result.element) ?? []), item]);
  }
  return found;
}

/** Absent, null, or with nothing in it: told apart as leaves. */
function isHollow(value: unknown): boolean {
  return value == null || (typeof value === 'object' && Object.keys(value).length === 0);
}
