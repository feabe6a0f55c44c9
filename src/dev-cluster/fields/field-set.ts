/**
 * Sets of field paths and their form in `metadata.managedFields`.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/fieldpath/set.go
 */
import { compareBytes, quote } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import type { Schema } from './schema.ts';

/**
 * One step of a field path in the notation of `fieldsV1`: `f:name`, `k:{"name":"c"}` for an item of a list with keys,
 * `v:"x"` for an item of a set.
 */
export type PathElement = string;

export type FieldPath = readonly PathElement[];

/**
 * A set of field paths as a tree: `members` are in the set, `children` lead to the paths below. A field that is a child
 * is not a member by that alone.
 */
export interface FieldSet {
  readonly members: Set<PathElement>;
  readonly children: Map<PathElement, FieldSet>;
}

export function fieldElement(name: string): PathElement {
  return `f:${name}`;
}

/** The element of a list item; `undefined` for an item without keys or with the wrong type. */
export function itemElement({ list }: Schema, item: unknown): PathElement | undefined {
  if (list === undefined || list === 'set') {
    return typeof item === 'object' || item === undefined ? undefined : `v:${JSON.stringify(item)}`;
  }
  if (!isObject(item)) return undefined;
  const pairs = list.toSorted(compareBytes).flatMap((key): [string, unknown][] => {
    const value = item[key] ?? (key === 'protocol' ? 'TCP' : undefined);
    return value === undefined ? [] : [[key, value]];
  });
  return pairs.length === 0 ? undefined : `k:${JSON.stringify(Object.fromEntries(pairs))}`;
}

/** A path as messages print it: `.spec.containers[name="c"].image`. */
export function printPath(path: FieldPath): string {
  return path.map(printElement).join('');
}

function printElement(element: PathElement): string {
  const content = element.slice(2);
  if (element.startsWith('f:')) return `.${content}`;
  if (element.startsWith('v:')) return `[=${content}]`;
  const keys = Object.entries(JSON.parse(content) as object);
  return `[${keys.map(([key, value]) => `${key}=${typeof value === 'string' ? quote(value) : JSON.stringify(value)}`).join(',')}]`;
}

export function createFieldSet(paths: readonly FieldPath[] = []): FieldSet {
  const set: FieldSet = { members: new Set(), children: new Map() };
  for (const path of paths) insert(set, path);
  return set;
}

/** Adds a path. The empty path stands for the whole object and is never in a set. */
export function insert(set: FieldSet, path: FieldPath): void {
  const last = path.at(-1);
  if (last === undefined) return;
  let node = set;
  for (const element of path.slice(0, -1)) {
    const child = below(node, element);
    node.children.set(element, child);
    node = child;
  }
  node.members.add(last);
}

export function isEmpty(set: FieldSet): boolean {
  return set.members.size === 0 && set.children.values().every(isEmpty);
}

/** The part of the set below an element. */
export function below(set: FieldSet, element: PathElement): FieldSet {
  return set.children.get(element) ?? createFieldSet();
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  const elements = new Set([...a.children.keys(), ...b.children.keys()]);
  return {
    members: new Set([...a.members, ...b.members]),
    children: new Map([...elements].map((element) => [element, union(below(a, element), below(b, element))])),
  };
}

export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  return withoutEmpty(
    [...a.members].filter((element) => b.members.has(element)),
    [...a.children].map(([element, child]) => [element, intersection(child, below(b, element))]),
  );
}

/** The paths of `a` that are not in `b`. A path stays if only a path above or below it is in `b`. */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  return withoutEmpty(
    [...a.members].filter((element) => !b.members.has(element)),
    [...a.children].map(([element, child]) => [element, difference(child, below(b, element))]),
  );
}

/** The paths of `a` that are neither in `b` nor below a member of `b`. */
export function differenceBelow(a: FieldSet, b: FieldSet): FieldSet {
  return withoutEmpty(
    [...a.members].filter((element) => !b.members.has(element)),
    [...a.children]
      .filter(([element]) => !b.members.has(element))
      .map(([element, child]) => [element, differenceBelow(child, below(b, element))]),
  );
}

/** The set together with all fields on the way to its members. List items on the way do not become members. */
export function withParentFields(set: FieldSet): FieldSet {
  return {
    members: new Set([...set.members, ...[...set.children.keys()].filter((element) => element.startsWith('f:'))]),
    children: new Map([...set.children].map(([element, child]) => [element, withParentFields(child)])),
  };
}

/** All paths in the order of the API server: members before the paths below them. */
export function listPaths(set: FieldSet, prefix: FieldPath = []): FieldPath[] {
  const members = [...set.members].sort(compareElements).map((element) => [...prefix, element]);
  const children = [...set.children].sort(([a], [b]) => compareElements(a, b));
  return [...members, ...children.flatMap(([element, child]) => listPaths(child, [...prefix, element]))];
}

/** The set in the notation of `fieldsV1`. */
export function toFieldsV1(set: FieldSet): Record<string, unknown> {
  const elements = [...new Set([...set.members, ...set.children.keys()])].sort(compareElements);
  const entries = elements.map((element): [string, unknown] => {
    const child = below(set, element);
    const self = set.members.has(element) && !isEmpty(child) ? { '.': {} } : {};
    return [element, { ...self, ...toFieldsV1(child) }];
  });
  return Object.fromEntries(entries);
}

/** Parses `fieldsV1`; `undefined` if it is malformed. */
export function fromFieldsV1(fields: unknown): FieldSet | undefined {
  if (!isObject(fields)) return undefined;
  const set = createFieldSet();
  for (const [key, value] of Object.entries(fields)) {
    if (key === '.') continue;
    const element = parseElement(key);
    const child = fromFieldsV1(value);
    if (element === undefined || !child || !isObject(value)) return undefined;
    if (isEmpty(child) || Object.hasOwn(value, '.')) set.members.add(element);
    if (!isEmpty(child)) set.children.set(element, child);
  }
  return set;
}

/** The element in the notation of `itemElement`; `undefined` for text in another notation. */
function parseElement(text: string): PathElement | undefined {
  if (/^(f:|i:\d+$)/.test(text)) return text;
  if (!/^[kv]:/.test(text)) return undefined;
  try {
    const content: unknown = JSON.parse(text.slice(2));
    if (text.startsWith('v:')) return `v:${JSON.stringify(content)}`;
    if (!isObject(content)) return undefined;
    const pairs = Object.entries(content).sort(([a], [b]) => compareBytes(a, b));
    return `k:${JSON.stringify(Object.fromEntries(pairs))}`;
  } catch {
    return undefined;
  }
}

/** Fields come before keys, keys before values, values before indexes. */
function compareElements(a: PathElement, b: PathElement): number {
  return 'fkvi'.indexOf(a.charAt(0)) - 'fkvi'.indexOf(b.charAt(0)) || compareBytes(a, b);
}

function withoutEmpty(members: readonly PathElement[], children: [PathElement, FieldSet][]): FieldSet {
  return { members: new Set(members), children: new Map(children.filter(([, child]) => !isEmpty(child))) };
}
