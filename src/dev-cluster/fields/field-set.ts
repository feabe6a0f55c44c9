/**
 * Computes sets of field paths, and their representation in `metadata.managedFields`.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/fieldpath/set.go
 */
import { compareBytes, quote } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import type { Schema } from './schema.ts';

/**
 * A step in a field path in `fieldsV1` notation. It is `f:name` for a field, `k:{"name":"c"}` for an item of a keyed
 * list, or `v:"x"` for an item of a set.
 */
export type PathElement = string;

/**
 * The elements of a path, joined by a character that no element contains. The empty path represents the whole object.
 */
export type JoinedPath = string;

/** A set of field paths. A path in the set does not imply that its parents or children are in the set. */
export type FieldSet = ReadonlySet<JoinedPath>;

const SEPARATOR = '\0';

export function joinPath(parent: JoinedPath, element: PathElement): JoinedPath {
  return parent === '' ? element : parent + SEPARATOR + element;
}

export function fieldElement(name: string): PathElement {
  return `f:${name}`;
}

/** Returns the path of an object's field. */
export function joinedPath(...names: readonly string[]): JoinedPath {
  return names.map(fieldElement).reduce(joinPath, '');
}

/** Returns the element for a list item, or `undefined` for an item that lacks its keys or has the wrong type. */
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

/** Returns true if the last element of the path is a field name. */
export function isField(path: JoinedPath): boolean {
  return path.slice(path.lastIndexOf(SEPARATOR) + 1).startsWith('f:');
}

/** Formats a path for messages, such as `.spec.containers[name="c"].image`. */
export function printPath(path: JoinedPath): string {
  return path.split(SEPARATOR).map(printElement).join('');
}

function printElement(element: PathElement): string {
  const content = element.slice(2);
  if (element.startsWith('f:')) return `.${content}`;
  if (element.startsWith('v:')) return `[=${content}]`;
  const keys = Object.entries(JSON.parse(content) as object);
  return `[${keys.map(([key, value]) => `${key}=${typeof value === 'string' ? quote(value) : JSON.stringify(value)}`).join(',')}]`;
}

/** Returns the parent paths of a path. */
function parentPaths(path: JoinedPath): JoinedPath[] {
  const elements = path.split(SEPARATOR);
  return elements.slice(1).map((_element, index) => elements.slice(0, index + 1).join(SEPARATOR));
}

/** Returns the paths in `fields` that are neither in `removed` nor below one of its members. */
export function differenceBelow(fields: FieldSet, removed: FieldSet): FieldSet {
  return new Set([...fields].filter((path) => ![path, ...parentPaths(path)].some((prefix) => removed.has(prefix))));
}

/** Returns the set and all parent fields of its members. Parent list items do not become members. */
export function withParentFields(fields: FieldSet): FieldSet {
  return fields.union(new Set([...fields].flatMap(parentPaths).filter(isField)));
}

/**
 * Compares paths in the order of the API server, which is fields, items by key, and items by value. A path comes before
 * the paths below it.
 */
export function comparePaths(a: JoinedPath, b: JoinedPath): number {
  const [left, right] = [a.split(SEPARATOR), b.split(SEPARATOR)];
  const index = left.findIndex((element, at) => element !== right[at]);
  if (index < 0) return left.length - right.length;
  const areLast = Number(index < left.length - 1) - Number(index < right.length - 1);
  return areLast || compareElements(left[index] ?? '', right[index] ?? '');
}

function compareElements(a: PathElement, b: PathElement): number {
  return 'fkvi'.indexOf(a.charAt(0)) - 'fkvi'.indexOf(b.charAt(0)) || compareBytes(a, b);
}

interface FieldTree {
  [element: string]: FieldTree;
}

/** Formats the set in `fieldsV1` notation, in which a member that has members below it contains an entry named `.`. */
export function toFieldsV1(fields: FieldSet): FieldTree {
  const root: FieldTree = {};
  for (const path of [...fields].sort(comparePaths)) {
    let [node, parent] = [root, ''];
    for (const element of path.split(SEPARATOR)) {
      if (fields.has(parent)) node['.'] ??= {};
      node = node[element] ??= {};
      parent = joinPath(parent, element);
    }
  }
  return root;
}

/** Parses `fieldsV1`. Returns `undefined` if it is malformed. */
export function fromFieldsV1(fields: unknown, parent: JoinedPath = ''): FieldSet | undefined {
  if (!isObject(fields)) return undefined;
  const paths = new Set<JoinedPath>();
  for (const [element, value] of Object.entries(fields)) {
    if (element === '.') continue;
    const path = joinPath(parent, element);
    const below = fromFieldsV1(value, path);
    if (!below || !isObject(value) || !/^[fkvi]:/.test(element)) return undefined;
    if (below.size === 0 || Object.hasOwn(value, '.')) paths.add(path);
    for (const child of below) paths.add(child);
  }
  return paths;
}
