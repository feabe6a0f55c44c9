import type { ManifestDocument, Path } from '../config/manifests.ts';
import { UserError } from '../config/user-error.ts';
import { isObject, type JsonObject } from '../kube/types.ts';

/**
 * Reads fields of a document by their paths. An absent or empty one is `undefined`.
 * Throws a UserError with file, line and column for a field of another type.
 */
export interface FieldReader {
  text(path: Path): string | undefined;
  flag(path: Path): boolean;
  texts(path: Path): readonly string[];
  object(path: Path): JsonObject | undefined;
  /** The paths of the items of a list. */
  items(path: Path): readonly Path[];
  fail(path: Path, problem: string): UserError;
}

export function createFieldReader({ file, value: root, positionOf }: ManifestDocument): FieldReader {
  const fail = (path: Path, problem: string): UserError => {
    const { line, column } = positionOf(path);
    return new UserError(`${file}:${line}:${column}: ${printPath(path)}${problem}`);
  };
  const read = <T>(path: Path, is: (value: unknown) => value is T, name: string): T | undefined => {
    const value = valueAt(root, path);
    if (value == null) return undefined;
    if (!is(value)) throw fail(path, ` must be ${name}`);
    return value;
  };
  return {
    text: (path) => read(path, isText, 'a string') || undefined,
    flag: (path) => read(path, isFlag, 'true or false') ?? false,
    texts: (path) => read(path, isTexts, 'a list of strings') ?? [],
    object: (path) => read(path, isObject, 'an object'),
    items: (path) => (read(path, Array.isArray, 'a list') ?? []).map((_item, index) => [...path, index]),
    fail,
  };
}

function valueAt(root: unknown, path: Path): unknown {
  return path.reduce((value, name) => {
    if (Array.isArray(value)) return value[Number(name)] as unknown;
    return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }, root);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isFlag(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(isText);
}

/** `users[0].user.token` */
function printPath(path: Path): string {
  return path.reduce<string>(
    (text, name) => (typeof name === 'number' ? `${text}[${name}]` : text === '' ? name : `${text}.${name}`),
    '',
  );
}
