/** JSON Patch (RFC 6902) without copy, move and test, which the server does not send. */
import { isObject } from './json.ts';

/** Returns the patched document. Throws if an operation does not apply. */
export function applyPatch(document: unknown, patch: readonly unknown[]): unknown {
  const holder = { document: structuredClone(document) };
  for (const operation of patch) applyOperation(holder, operation);
  return holder.document;
}

function applyOperation(holder: { document: unknown }, operation: unknown): void {
  if (!isObject(operation)) throw new TypeError('an operation is not an object');
  const { op, path, value } = operation;
  if (typeof path !== 'string' || (path !== '' && !path.startsWith('/'))) throw new TypeError(`path ${String(path)}`);
  const keys = ['document', ...path.split('/').slice(1).map(unescape)];
  const last = keys.pop() ?? '';
  let parent: unknown = holder;
  for (const key of keys) parent = child(parent, key, path);
  if (op === 'remove') remove(parent, last, path);
  else if (op === 'add') set(parent, last, structuredClone(value), path);
  else if (op === 'replace') {
    child(parent, last, path);
    if (Array.isArray(parent)) parent[indexOf(parent, last, path)] = structuredClone(value);
    else set(parent, last, structuredClone(value), path);
  } else throw new TypeError(`op ${String(op)}`);
}

function unescape(key: string): string {
  return key.replaceAll('~1', '/').replaceAll('~0', '~');
}

function child(parent: unknown, key: string, path: string): unknown {
  if (Array.isArray(parent)) return parent[indexOf(parent, key, path)] as unknown;
  if (!isObject(parent) || !Object.hasOwn(parent, key)) throw new RangeError(`no value at ${path}`);
  return parent[key];
}

function indexOf(list: readonly unknown[], key: string, path: string): number {
  if (!/^(0|[1-9]\d*)$/.test(key) || Number(key) >= list.length) throw new RangeError(`no item ${key} of ${path}`);
  return Number(key);
}

function set(parent: unknown, key: string, value: unknown, path: string): void {
  if (Array.isArray(parent)) {
    const index = key === '-' ? parent.length : Number(key);
    if (!Number.isInteger(index) || index < 0 || index > parent.length)
      throw new RangeError(`invalid index in ${path}`);
    parent.splice(index, 0, value);
  } else if (isObject(parent)) {
    Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true });
  } else throw new RangeError(`no parent of ${path}`);
}

function remove(parent: unknown, key: string, path: string): void {
  child(parent, key, path);
  if (Array.isArray(parent)) parent.splice(indexOf(parent, key, path), 1);
  else Reflect.deleteProperty(parent as object, key);
}
