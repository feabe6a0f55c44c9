import { quote } from './text.ts';
import { deepEqual } from './equality.ts';
import { type JsonObject, isObject } from './types.ts';

/** A list or an object that may be changed. */
type Container = unknown[] | Record<string, unknown>;

/** A place in a document: a member of an object or an element of a list, there or not. */
interface Place {
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
function findPlace(root: unknown, pointer: string): Place | undefined {
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
function getAt({ container, key }: Place): unknown {
  return Array.isArray(container) ? container[existingIndex(container, key)] : memberOf(container, key);
}

/** Puts a member or replaces an element. Throws a RangeError for a missing element. */
function setAt({ container, key }: Place, value: unknown): void {
  if (Array.isArray(container)) container[existingIndex(container, key)] = value;
  // An assignment to `__proto__` would not make a member.
  else Object.defineProperty(container, key, { value, configurable: true, enumerable: true, writable: true });
}

/** Puts a member or inserts an element, `-` being the place behind the last. Throws a RangeError for any other key. */
function addAt(place: Place, value: unknown): void {
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
function removeAt({ container, key }: Place): void {
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

/** What copy operations may add to a document in all, as in the API server. */
const COPY_LIMIT_BYTES = 3 * 1024 * 1024;

/** A document that is being patched. */
interface PatchState {
  root: unknown;
  copiedBytes: number;
}

/** Does one operation, whatever came as such. Throws a RangeError with the API server's text if it does not apply. */
function applyOp(state: PatchState, op: JsonObject): void {
  const kind = typeof op['op'] === 'string' ? op['op'] : 'unknown';
  const run = Object.hasOwn(OPERATIONS, kind) ? OPERATIONS[kind] : undefined;
  if (!run) throw new RangeError(`Unexpected kind: ${kind}`);
  run(state, op);
}

const OPERATIONS: Readonly<Record<string, (state: PatchState, op: JsonObject) => void>> = {
  add({ root }, op) {
    const path = pathOf(op, 'path', 'add operation failed to decode path: missing value');
    const place = find(root, path, `add operation does not apply: doc is missing path: "${path}"`);
    explain(`error in add for path: '${path}'`, () => addAt(place, valueOf(op)));
  },
  remove({ root }, op) {
    const path = pathOf(op, 'path', 'remove operation failed to decode path: missing value');
    const place = find(root, path, `remove operation does not apply: doc is missing path: "${path}"`);
    explain(`error in remove for path: '${path}'`, () => removeAt(place));
  },
  replace(state, op) {
    const path = pathOf(op, 'path', `replace operation failed to decode path: ${NO_PATH}`);
    if (path === '') state.root = valueOf(op);
    else {
      const place = find(state.root, path, `replace operation does not apply: doc is missing path: ${path}`);
      replace(place, `replace operation does not apply: doc is missing key: ${path}`, valueOf(op));
    }
  },
  move({ root }, op) {
    const from = pathOf(op, 'from', `move operation failed to decode from: ${NO_FROM}`);
    const source = find(root, from, `move operation does not apply: doc is missing from path: ${from}`);
    const value = explain(`error in move for path: '${source.key}'`, () => {
      const moved = getAt(source);
      removeAt(source);
      return moved;
    });
    const path = pathOf(op, 'path', `move operation failed to decode path: ${NO_PATH}`);
    const target = find(root, path, `move operation does not apply: doc is missing destination path: ${path}`);
    explain(`error in move for path: '${path}'`, () => addAt(target, value));
  },
  copy(state, op) {
    const from = pathOf(op, 'from', `copy operation failed to decode from: ${NO_FROM}`);
    const source = find(state.root, from, `copy operation does not apply: doc is missing from path: ${from}`);
    const value = explain(`error in copy for from: '${from}'`, () => getAt(source) ?? null);
    const path = pathOf(op, 'path', 'copy operation failed to decode path: missing value');
    const target = find(state.root, path, `copy operation does not apply: doc is missing destination path: ${path}`);
    countCopy(state, value);
    explain('error while adding value during copy', () => addAt(target, structuredClone(value)));
  },
  test({ root }, op) {
    const path = pathOf(op, 'path', `test operation failed to decode path: ${NO_PATH}`);
    if (!deepEqual(readForTest(root, path), op['value'] ?? null)) {
      throw new RangeError(`testing value ${path} failed: test failed`);
    }
  },
};

const NO_PATH = 'operation missing path field: missing value';
const NO_FROM = 'operation, missing from field: missing value';

function readForTest(root: unknown, path: string): unknown {
  if (path === '') return root;
  const place = find(root, path, `test operation does not apply: is missing path: ${path}`);
  return explain(`error in test for path: '${path}'`, () => getAt(place) ?? null);
}

function replace(place: Place, message: string, value: unknown): void {
  try {
    setAt(place, value);
  } catch (error) {
    throw new RangeError(`${message}: missing value`, { cause: error });
  }
}

function find(root: unknown, pointer: string, message: string): Place {
  const place = findPlace(root, pointer);
  if (!place) throw new RangeError(`${message}: missing value`);
  return place;
}

function pathOf(op: JsonObject, field: 'path' | 'from', message: string): string {
  const path = op[field];
  if (typeof path !== 'string') throw new RangeError(message);
  return path;
}

/** The value of an operation as a part of the document, where later operations may change it. */
function valueOf(op: JsonObject): unknown {
  return structuredClone(op['value'] ?? null);
}

function countCopy(state: PatchState, value: unknown): void {
  state.copiedBytes += new TextEncoder().encode(JSON.stringify(value)).length;
  if (state.copiedBytes > COPY_LIMIT_BYTES) {
    const text = `Unable to complete the copy, the accumulated size increase of copy is ${state.copiedBytes}`;
    throw new RangeError(`${text}, exceeding the limit ${COPY_LIMIT_BYTES}`);
  }
}

/** Puts a text before the message of an error. */
function explain<T>(text: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw new RangeError(`${text}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/**
 * One operation of a JSON patch.
 * @see https://www.rfc-editor.org/rfc/rfc6902
 */
export type JsonPatchOp =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly path: string; readonly from: string };

/**
 * The operations that turn one document into the other. Lists go element by element when equally long, else they are
 * replaced as a whole.
 */
export function diff(before: unknown, after: unknown): JsonPatchOp[] {
  const ops: JsonPatchOp[] = [];
  compare(before, after, '', ops);
  return ops;
}

function compare(before: unknown, after: unknown, path: string, ops: JsonPatchOp[]): void {
  if (before === after) return;
  if (isObject(before) && isObject(after)) compareObjects(before, after, path, ops);
  else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    for (let index = 0; index < before.length; index++) {
      if (before[index] !== after[index]) compare(before[index], after[index], `${path}/${index}`, ops);
    }
  } else ops.push({ op: 'replace', path, value: after });
}

function compareObjects(before: JsonObject, after: JsonObject, path: string, ops: JsonPatchOp[]): void {
  let shared = 0;
  for (const key of Object.keys(before)) {
    const was = before[key];
    // What nothing has touched is the same in both, which most members are; nothing that is inherited is ever the same.
    if (was === after[key] && was !== undefined) shared++;
    else compareMembers(was, memberOfJsonPatch(after, key), `${path}/${escapeKey(key)}`, ops);
  }
  const keys = Object.keys(after);
  if (keys.length === shared) return;
  for (const key of keys) {
    const is = after[key];
    if (is === before[key] || is === undefined || memberOfJsonPatch(before, key) !== undefined) continue;
    ops.push({ op: 'add', path: `${path}/${escapeKey(key)}`, value: is });
  }
}

function compareMembers(was: unknown, is: unknown, path: string, ops: JsonPatchOp[]): void {
  if (was === undefined) return;
  if (is === undefined) ops.push({ op: 'remove', path });
  else compare(was, is, path, ops);
}

/** A member that is undefined is not in the JSON. */
function memberOfJsonPatch(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/**
 * Returns the patched document; what was given is not changed. Operations may come from anywhere and need not be well
 * formed. Throws a RangeError with the text that the API server shows if one does not apply.
 *
 * Like the API server, it lets a replace make a missing member, takes a missing member for null in test and copy, and
 * counts negative indexes from the end of a list.
 * @see https://github.com/evanphx/json-patch/blob/v4.12.0/patch.go
 */
export function apply(document: unknown, ops: readonly JsonObject[]): unknown {
  const state = { root: structuredClone(document), copiedBytes: 0 };
  for (const op of ops) applyOp(state, op);
  return state.root;
}
