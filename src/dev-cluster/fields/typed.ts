/**
 * Comparison and merging of objects by their schema, as structured-merge-diff does it.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/tree/v6.3.2/typed
 */
import { deepEqual } from '../../kube/equality.ts';
import { isObject } from '../../kube/types.ts';
import {
  fieldElement,
  isField,
  itemElement,
  joinPath,
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

/** A member of an object or an item of a list. */
interface Part {
  readonly schema: Schema;
  /** More than one value: items with the same keys, which stored objects can have. They are owned as a whole. */
  readonly values: readonly unknown[];
}

/** A value at a path: a leaf is owned as a whole, other values by their parts. */
interface Node {
  readonly isLeaf: boolean;
  readonly values: readonly unknown[];
}

/** Returns the parts of a value that are owned one by one; `undefined` for a value that is owned as a whole. */
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

/** Returns the values at all paths below the root of an object. */
function flatten(schema: Schema, object: unknown): Map<FieldPath, Node> {
  const nodes = new Map<FieldPath, Node>();
  const visit = (part: Part, path: FieldPath): void => {
    const { values } = part;
    const parts = values.length === 1 ? getParts(part.schema, values[0]) : undefined;
    if (path !== '') nodes.set(path, { isLeaf: parts === undefined, values });
    for (const [element, inner] of parts ?? []) visit(inner, joinPath(path, element));
  };
  visit({ schema, values: [object] }, '');
  return nodes;
}

/** Compares two objects. A field that is added or removed counts with all fields below it. */
export function compare(schema: Schema, before: unknown, after: unknown): Comparison {
  const [old, current] = [flatten(schema, before), flatten(schema, after)];
  const isModified = ([path, node]: [FieldPath, Node]): boolean => {
    const was = old.get(path);
    return was !== undefined && (was.isLeaf || node.isLeaf) && !deepEqual(was.values, node.values);
  };
  return {
    removed: new Set(old.keys().filter((path) => !current.has(path))),
    modified: new Set([...current].filter(isModified).map(([path]) => path)),
    added: new Set(current.keys().filter((path) => !old.has(path))),
  };
}

/** All fields that an applied configuration sets: its leaves, list items and empty objects. */
export function collectFields(schema: Schema, value: unknown): FieldSet {
  const isOwned = ([path, { isLeaf, values }]: [FieldPath, Node]): boolean => {
    const [first] = values;
    return isLeaf || !isField(path) || (isObject(first) && Object.keys(first).length === 0);
  };
  return new Set([...flatten(schema, value)].filter(isOwned).map(([path]) => path));
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

/** Returns the value without the given fields. An object or a list from which everything is removed becomes empty. */
export function removeFields(schema: Schema, value: unknown, fields: FieldSet, path: FieldPath = ''): unknown {
  if (Array.isArray(value) && schema.list !== undefined) {
    return value.flatMap((item: unknown) => {
      const element = itemElement(schema, item);
      if (element === undefined) return [item];
      const itemPath = joinPath(path, element);
      return fields.has(itemPath) ? [] : [removeFields(schema.item(), item, fields, itemPath)];
    });
  }
  if (!isObject(value) || schema.atomic === true) return value;
  const entries = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    const memberPath = joinPath(path, fieldElement(name));
    return fields.has(memberPath) ? [] : [[name, removeFields(schema.field(name), member, fields, memberPath)]];
  });
  return Object.fromEntries(entries);
}
