import { isObject } from '../../../kube/types.ts';
import { compareElements, fieldElement, parseElement, printElement, type PathElement } from './path-element.ts';
import type { FieldType } from '../types.ts';

/**
 * A set of field paths as a tree: `members` are in the set, `children` lead to what lies below. A field that is a child
 * is not a member by that alone.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/fieldpath/set.go
 */
export interface FieldSet {
  readonly members: Set<PathElement>;
  readonly children: Map<PathElement, FieldSet>;
}

export type FieldPath = readonly PathElement[];

export function createFieldSet(paths: readonly FieldPath[] = []): FieldSet {
  const set: FieldSet = { members: new Set(), children: new Map() };
  for (const path of paths) insert(set, path);
  return set;
}

/** Adds a path; the empty path, which is the whole object, is never owned. */
export function insert(set: FieldSet, path: FieldPath): void {
  const last = path.at(-1);
  if (last === undefined) return;
  let node = set;
  for (const element of path.slice(0, -1)) {
    const child = node.children.get(element) ?? createFieldSet();
    node.children.set(element, child);
    node = child;
  }
  node.members.add(last);
}

export function isEmpty(set: FieldSet): boolean {
  return set.members.size === 0 && set.children.values().every(isEmpty);
}

export function hasPath(set: FieldSet, path: FieldPath): boolean {
  const [first, ...rest] = path;
  if (first === undefined) return false;
  return rest.length === 0 ? set.members.has(first) : hasPath(below(set, first), rest);
}

/** What the set holds below an element. */
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

/** What is in `a` and not in `b`; a field stays where only something below it is in `b`, and the reverse. */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  return withoutEmpty(
    [...a.members].filter((element) => !b.members.has(element)),
    [...a.children].map(([element, child]) => [element, difference(child, below(b, element))]),
  );
}

/** What is in `a` and neither in `b` nor below a member of `b`. */
export function differenceBelow(a: FieldSet, b: FieldSet): FieldSet {
  return withoutEmpty(
    [...a.members].filter((element) => !b.members.has(element)),
    [...a.children]
      .filter(([element]) => !b.members.has(element))
      .map(([element, child]) => [element, differenceBelow(child, below(b, element))]),
  );
}

/** The set with all struct fields on the way to its members; maps and list items on the way do not become members. */
export function withNamedFields(set: FieldSet, type: FieldType | undefined): FieldSet {
  const named = [...set.children.keys()].filter(
    (element) => type?.kind === 'object' && element.startsWith('f:') && type.fields.has(element.slice(2)),
  );
  return {
    members: new Set([...set.members, ...named]),
    children: new Map(
      [...set.children].map(([element, child]) => [element, withNamedFields(child, typeBelow(type, element))]),
    ),
  };
}

/** The type of what an element leads to. */
export function typeBelow(type: FieldType | undefined, element: PathElement): FieldType | undefined {
  if (type?.kind === 'list') return type.items;
  if (type?.kind !== 'object') return type?.kind === 'any' ? type : undefined;
  return type.fields.get(element.slice(2))?.type ?? type.additional;
}

/** All paths: members before what lies below them, each in the order of the API server. */
export function pathsOf(set: FieldSet, prefix: FieldPath = []): FieldPath[] {
  const members = [...set.members].sort(compareElements).map((element) => [...prefix, element]);
  const children = [...set.children].sort(([a], [b]) => compareElements(a, b));
  return [...members, ...children.flatMap(([element, child]) => pathsOf(child, [...prefix, element]))];
}

export function printPath(path: FieldPath): string {
  return path.map(printElement).join('');
}

/** A path of plain fields. */
export function fieldPath(names: readonly string[]): FieldPath {
  return names.map(fieldElement);
}

/** The set as `fieldsV1` holds it. */
export function toFieldsV1(set: FieldSet): Record<string, unknown> {
  const elements = [...new Set([...set.members, ...set.children.keys()])].sort(compareElements);
  const entries = elements.map((element): [string, unknown] => {
    const child = set.children.get(element);
    const self = set.members.has(element) && child && !isEmpty(child) ? { '.': {} } : {};
    return [element, child ? { ...self, ...toFieldsV1(child) } : {}];
  });
  return Object.fromEntries(entries);
}

/** Reads `fieldsV1`; `undefined` where it is malformed. */
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

function withoutEmpty(members: readonly PathElement[], children: [PathElement, FieldSet][]): FieldSet {
  return { members: new Set(members), children: new Map(children.filter(([, child]) => !isEmpty(child))) };
}
