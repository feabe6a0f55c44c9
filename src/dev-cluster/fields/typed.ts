/**
 * Compares and merges objects according to their schema, as structured-merge-diff does.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/tree/v6.3.2/typed
 */
import { deepEqual } from '../../kube/equality.ts';
import { isObject, ownMember } from '../../kube/types.ts';
import {
  fieldElement,
  type JoinedPath,
  type FieldSet,
  isField,
  itemElement,
  joinPath,
  type PathElement,
} from './field-set.ts';
import type { Schema } from './schema.ts';

/** The fields in which two objects differ. Each path is in at most one of the sets. */
export interface Comparison {
  readonly removed: FieldSet;
  readonly modified: FieldSet;
  readonly added: FieldSet;
}

/** An object member or a list item. */
interface Part {
  readonly schema: Schema;
  /**
   * Values of the part. There are several if a stored object has items with the same keys, which are owned as a whole.
   */
  readonly values: readonly unknown[];
}

/** A value at a path. A leaf is owned as a whole. The parts of all other values are owned separately. */
interface Node {
  readonly isLeaf: boolean;
  readonly values: readonly unknown[];
}

/** Returns the parts of a value that are owned separately, or `undefined` for a value that is owned as a whole. */
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

/** Returns the values at all paths below an object's root. */
function flatten(schema: Schema, object: unknown): Map<JoinedPath, Node> {
  const nodes = new Map<JoinedPath, Node>();
  const visit = (part: Part, path: JoinedPath): void => {
    const { values } = part;
    const parts = values.length === 1 ? getParts(part.schema, values[0]) : undefined;
    if (path !== '') nodes.set(path, { isLeaf: parts === undefined, values });
    for (const [element, inner] of parts ?? []) visit(inner, joinPath(path, element));
  };
  visit({ schema, values: [object] }, '');
  return nodes;
}

/** Compares two objects. If a field is added or removed, all fields below it are also added or removed. */
export function compare(schema: Schema, before: unknown, after: unknown): Comparison {
  const [old, current] = [flatten(schema, before), flatten(schema, after)];
  const isModified = ([path, node]: [JoinedPath, Node]): boolean => {
    const was = old.get(path);
    return was !== undefined && (was.isLeaf || node.isLeaf) && !deepEqual(was.values, node.values);
  };
  return {
    removed: new Set(old.keys().filter((path) => !current.has(path))),
    modified: new Set([...current].filter(isModified).map(([path]) => path)),
    added: new Set(current.keys().filter((path) => !old.has(path))),
  };
}

/** Returns all fields that an applied configuration sets, which are its leaves, list items and empty objects. */
export function collectFields(schema: Schema, value: unknown): FieldSet {
  const isOwned = ([path, { isLeaf, values }]: [JoinedPath, Node]): boolean => {
    const [first] = values;
    return isLeaf || !isField(path) || (isObject(first) && Object.keys(first).length === 0);
  };
  return new Set([...flatten(schema, value)].filter(isOwned).map(([path]) => path));
}

/**
 * Merges an applied configuration into a live value. Replaces leaves, and merges list items by their keys.
 * Items in both lists follow the order of the applied configuration.
 */
export function merge(schema: Schema, live: unknown, applied: unknown): unknown {
  if (applied === undefined) return live;
  if (Array.isArray(live) && Array.isArray(applied) && schema.list !== undefined) {
    return mergeItems(schema, live, applied);
  }
  if (!isObject(live) || !isObject(applied) || schema.atomic === true) return applied;
  const names = new Set([...Object.keys(live), ...Object.keys(applied)]);
  return Object.fromEntries(
    [...names].map((name) => [name, merge(schema.field(name), ownMember(live, name), ownMember(applied, name))]),
  );
}

function mergeItems(schema: Schema, live: readonly unknown[], applied: readonly unknown[]): unknown[] {
  const key = (item: unknown): PathElement | undefined => itemElement(schema, item);
  const liveItems = Map.groupBy(live, key);
  const appliedKeys = new Set(applied.map(key));
  const merged = applied.map((item) => {
    const [same, ...duplicates] = liveItems.get(key(item)) ?? [];
    return merge(schema.item(), duplicates.length === 0 ? same : undefined, item);
  });
  return sortItems([...live.filter((item) => !appliedKeys.has(key(item))), ...merged], applied, live, key);
}

/**
 * Sorts merged items. Items in `order` have that order, and each other item precedes the item that followed it on the
 * server.
 */
export function sortItems(
  items: readonly unknown[],
  order: readonly unknown[],
  server: readonly unknown[],
  key: (item: unknown) => unknown,
): unknown[] {
  const [orderKeys, serverKeys] = [order.map(key), server.map(key)];
  const rank = (ranks: readonly unknown[], item: unknown): number => ranks.indexOf(key(item));
  const ordered = items.filter((item) => rank(orderKeys, item) >= 0);
  const others = items.filter((item) => rank(orderKeys, item) < 0);
  others.sort((a, b) => rank(serverKeys, a) - rank(serverKeys, b));
  const sorted: unknown[] = [];
  for (const item of ordered.sort((a, b) => rank(orderKeys, a) - rank(orderKeys, b))) {
    const isBefore = (other: unknown): boolean =>
      rank(serverKeys, other) >= 0 && rank(serverKeys, other) < rank(serverKeys, item);
    while (others.length > 0 && isBefore(others[0])) sorted.push(others.shift());
    sorted.push(item);
  }
  return [...sorted, ...others];
}

/** Removes the given fields from the value. An object or a list that loses all of its members becomes empty. */
export function removeFields(schema: Schema, value: unknown, fields: FieldSet, path: JoinedPath = ''): unknown {
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
