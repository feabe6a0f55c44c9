/**
 * Comparison and merging of objects by their schema, as structured-merge-diff does it.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/tree/v6.3.2/typed
 */
import { deepEqual } from '../../kube/equality.ts';
import { isObject } from '../../kube/types.ts';
import {
  below,
  createFieldSet,
  fieldElement,
  insert,
  isEmpty,
  itemElement,
  type FieldPath,
  type FieldSet,
  type PathElement,
} from './field-set.ts';
import type { Schema } from './schema.ts';

/** The fields in which two objects differ. Each path is in one of the sets at most. */
export interface Comparison {
  readonly removed: FieldSet;
  readonly modified: FieldSet;
  readonly added: FieldSet;
}

/** A member of an object or an item of a list. More than one value: items with the same keys. */
interface Part {
  readonly schema: Schema;
  readonly values: readonly unknown[];
}

/** The parts of a value that are owned one by one; `undefined` for a value that is owned as a whole. */
function getParts(schema: Schema, value: unknown): Map<PathElement, Part> | undefined {
  const parts = new Map<PathElement, Part>();
  if (Array.isArray(value) && schema.list !== undefined) {
    const itemSchema = schema.item();
    for (const item of value as unknown[]) {
      const element = itemElement(schema, item);
      if (element === undefined) continue;
      parts.set(element, { schema: itemSchema, values: [...(parts.get(element)?.values ?? []), item] });
    }
    return parts;
  }
  if (!isObject(value) || schema.atomic === true) return undefined;
  for (const [name, member] of Object.entries(value)) {
    if (member !== undefined) parts.set(fieldElement(name), { schema: schema.field(name), values: [member] });
  }
  return parts;
}

/** Compares two objects. A field that is added or removed counts with all fields below it. */
export function compare(schema: Schema, before: unknown, after: unknown): Comparison {
  const result = { removed: createFieldSet(), modified: createFieldSet(), added: createFieldSet() };
  const rootOf = (value: unknown): Part => ({ schema, values: value === undefined ? [] : [value] });
  visitChange(rootOf(before), rootOf(after), [], result);
  return result;
}

function visitChange(before: Part | undefined, after: Part | undefined, path: FieldPath, result: Comparison): void {
  const [was, is] = [partsOf(before), partsOf(after)];
  const isWhole = (!was && !is) || (isHollow(was) && isHollow(is));
  if (isWhole || (before && after && (!was || !is))) noteChange(before, after, path, result);
  else if (!before) insert(result.added, path);
  else if (!after) insert(result.removed, path);
  for (const element of new Set([...(was?.keys() ?? []), ...(is?.keys() ?? [])])) {
    visitChange(was?.get(element), is?.get(element), [...path, element], result);
  }
}

/** Items with the same keys are legal in stored objects and are compared as a whole. */
function partsOf(part: Part | undefined): Map<PathElement, Part> | undefined {
  return part?.values.length === 1 ? getParts(part.schema, part.values[0]) : undefined;
}

function isHollow(parts: Map<PathElement, Part> | undefined): boolean {
  return !parts || parts.size === 0;
}

function noteChange(before: Part | undefined, after: Part | undefined, path: FieldPath, result: Comparison): void {
  if (!before?.values.length) insert(result.added, path);
  else if (!after?.values.length) insert(result.removed, path);
  else if (!deepEqual(before.values, after.values)) insert(result.modified, path);
}

/** All fields that an applied configuration sets: its leaves, list items and empty objects. */
export function collectFields(schema: Schema, value: unknown): FieldSet {
  const set = createFieldSet();
  visitFields({ schema, values: [value] }, [], set);
  return set;
}

function visitFields(part: Part, path: FieldPath, set: FieldSet): void {
  const parts = partsOf(part);
  const isEmptyObject = parts?.size === 0 && !Array.isArray(part.values[0]);
  if (!parts || isEmptyObject || !path.at(-1)?.startsWith('f:')) insert(set, path);
  for (const [element, inner] of parts ?? []) visitFields(inner, [...path, element], set);
}

/**
 * Merges an applied configuration into a live value: leaves are replaced, list items join by their keys, in the order of
 * the configuration where both have them.
 */
export function merge(schema: Schema, live: unknown, applied: unknown): unknown {
  if (applied === undefined) return live;
  if (Array.isArray(live) && Array.isArray(applied) && schema.list !== undefined) {
    return mergeItems(schema, live, applied);
  }
  if (!isObject(live) || !isObject(applied) || schema.atomic === true) return applied;
  const names = new Set([...Object.keys(live), ...Object.keys(applied)]);
  const valueAt = (object: object, name: string): unknown =>
    Object.hasOwn(object, name) ? (object as Record<string, unknown>)[name] : undefined;
  return Object.fromEntries(
    [...names].map((name) => [name, merge(schema.field(name), valueAt(live, name), valueAt(applied, name))]),
  );
}

function mergeItems(schema: Schema, live: readonly unknown[], applied: readonly unknown[]): unknown[] {
  const left = keyed(schema, live);
  const rest = keyed(schema, applied);
  const liveValues = Map.groupBy(left, ({ element }) => element);
  const isApplied = new Set(rest.map(({ element }) => element));
  const out: unknown[] = [];
  const takeNext = (): void => {
    const item = rest.shift();
    const twins = liveValues.get(item?.element ?? '') ?? [];
    out.push(merge(schema.item(), twins.length === 1 ? twins[0]?.value : undefined, item?.value));
  };
  for (const { element, value } of left) {
    const next = rest.findIndex((item) => liveValues.has(item.element));
    if (!isApplied.has(element)) out.push(value);
    else if (rest[next]?.element === element) for (let count = 0; count <= next; count++) takeNext();
  }
  while (rest.length > 0) takeNext();
  return out;
}

function keyed(schema: Schema, items: readonly unknown[]): { element: PathElement; value: unknown }[] {
  return items.flatMap((value) => {
    const element = itemElement(schema, value);
    return element === undefined ? [] : [{ element, value }];
  });
}

/** The value without the given fields; `null` if nothing is left of it. */
export function removeFields(schema: Schema, value: unknown, fields: FieldSet): unknown {
  if (Array.isArray(value) && schema.list !== undefined) {
    const items = value.flatMap((item: unknown) => {
      const element = itemElement(schema, item);
      return element === undefined ? [item] : remaining(schema.item(), item, element, fields);
    });
    return items.length === 0 ? null : items;
  }
  if (isObject(value) && schema.atomic !== true) {
    const entries = Object.entries(value).flatMap(([name, member]) =>
      remaining(schema.field(name), member, fieldElement(name), fields).map((rest) => [name, rest] as const),
    );
    return entries.length === 0 ? null : Object.fromEntries(entries);
  }
  // A list or an object that is owned as a whole is removed as a whole.
  return typeof value === 'object' ? null : value;
}

/** The rest of a member: none if it is removed itself; an empty list or object if everything below it is removed. */
function remaining(schema: Schema, value: unknown, element: PathElement, fields: FieldSet): unknown[] {
  if (fields.members.has(element)) return [];
  const inner = below(fields, element);
  if (isEmpty(inner)) return [value];
  const rest = removeFields(schema, value, inner);
  if (rest !== null) return [rest];
  return [Array.isArray(value) ? [] : isObject(value) ? {} : null];
}
