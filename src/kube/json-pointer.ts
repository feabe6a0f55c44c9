import { quote } from './quote.ts';

/** A list or an object that may be changed. */
export type Container = unknown[] | Record<string, unknown>;

/** A place in a document: a member of an object or an element of a list, there or not. */
export interface Place {
  readonly container: Container;
  readonly key: string;
}

/** A key as a part of a pointer. */
export function escapeKey(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/**
 * The place that a pointer names; `undefined` if the way to it leads through something that holds nothing.
 * @see https://www.rfc-editor.org/rfc/rfc6901
 */
export function findPlace(root: unknown, pointer: string): Place | undefined {
  const keys = pointer.split('/').slice(1).map(unescapeKey);
  const last = keys.pop();
  if (last === undefined) return undefined;
  let node = root;
  for (const key of keys) {
    if (Array.isArray(node)) {
      const index = readIndex(key, node.length);
      node = typeof index === 'number' ? node[index] : undefined;
    } else node = isContainer(node) ? memberOf(node, key) : undefined;
  }
  return isContainer(node) ? { container: node, key: last } : undefined;
}

/** What lies there; `undefined` for a member that an object does not have. Throws a RangeError for a missing element. */
export function getAt({ container, key }: Place): unknown {
  return Array.isArray(container) ? container[existingIndex(container, key)] : memberOf(container, key);
}

/** Puts a member or replaces an element. Throws a RangeError for a missing element. */
export function setAt({ container, key }: Place, value: unknown): void {
  if (Array.isArray(container)) container[existingIndex(container, key)] = value;
  // An assignment to `__proto__` would not make a member.
  else Object.defineProperty(container, key, { value, configurable: true, enumerable: true, writable: true });
}

/** Puts a member or inserts an element, `-` being the place behind the last. Throws a RangeError for any other key. */
export function addAt(place: Place, value: unknown): void {
  const { container, key } = place;
  if (!Array.isArray(container)) setAt(place, value);
  else if (key === '-') container.push(value);
  else {
    const index = readIndex(key, container.length + 1);
    if (typeof index === 'number') container.splice(index, 0, value);
    else throw new RangeError(isNumber(key) ? index : `value was not a proper array index: '${key}': ${index}`);
  }
}

/** Takes a member or an element away. Throws a RangeError if there is none. */
export function removeAt({ container, key }: Place): void {
  if (Array.isArray(container)) container.splice(existingIndex(container, key), 1);
  else if (Object.hasOwn(container, key)) Reflect.deleteProperty(container, key);
  else throw new RangeError(`Unable to remove nonexistent key: ${key}: missing value`);
}

function existingIndex(list: readonly unknown[], key: string): number {
  const index = readIndex(key, list.length);
  if (typeof index === 'string') throw new RangeError(index);
  return index;
}

/** The index below `length` that a key names, counted from the end where it is negative; else what is wrong with it. */
function readIndex(key: string, length: number): number | string {
  if (!isNumber(key)) return `strconv.Atoi: parsing ${quote(key)}: invalid syntax`;
  const index = Number(key);
  if (index >= length || index < -length) return `Unable to access invalid index: ${index}: invalid index referenced`;
  return index < 0 ? index + length : index;
}

function isNumber(key: string): boolean {
  return /^[+-]?[0-9]+$/.test(key);
}

function memberOf(container: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(container, key) ? container[key] : undefined;
}

function unescapeKey(text: string): string {
  return text.replaceAll(/~[01]/g, (escaped) => (escaped === '~1' ? '/' : '~'));
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
