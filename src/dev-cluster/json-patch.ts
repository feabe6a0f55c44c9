import { applyPatch, type Operation, Pointer } from 'rfc6902';
import { isObject, type JsonObject } from '../kube/types.ts';

/**
 * Applies a JSON patch to a copy of the document. The operations may be malformed. As in the API server, `replace` creates
 * a missing member, and `test` treats a missing member as null.
 * @throws {RangeError} for the first operation that cannot be applied, with the API server's message
 * @see https://github.com/evanphx/json-patch/blob/v4.12.0/patch.go
 */
export function applyJsonPatch(document: unknown, operations: readonly JsonObject[]): unknown {
  // Wraps the document so that operations can replace it.
  const root = { document: structuredClone(document) };
  for (const operation of operations) {
    const located = locate(root, operation);
    const [error] = located ? applyPatch(root, [located]) : [];
    if (error) throw new RangeError(errorMessage(error, operation));
  }
  return root.document;
}

/**
 * Converts an operation on the document to an operation on the wrapper. Returns `undefined` for a test that passes
 * because the member is missing.
 */
function locate(root: object, { op, path, from, value = null }: JsonObject): Operation | undefined {
  const located = { op, path: prefix(path), ...(from === undefined ? {} : { from: prefix(from) }), value };
  if (typeof located.path === 'string' && isObject(Pointer.fromJSON(located.path).evaluate(root).parent)) {
    const isMissing = Pointer.fromJSON(located.path).get(root) === undefined;
    if (op === 'test' && value === null && isMissing) return undefined;
    if (op === 'replace') return { ...located, op: 'add' } as Operation;
  }
  return located as Operation;
}

function prefix(pointer: unknown): unknown {
  if (typeof pointer !== 'string') return pointer;
  if (pointer !== '' && !pointer.startsWith('/')) throw new RangeError(`invalid JSON pointer: ${pointer}`);
  return `/document${pointer}`;
}

function errorMessage(error: Error, { op, path, from }: JsonObject): string {
  if (error.name === 'TestError') return `testing value ${String(path)} failed: test failed`;
  if (error.name !== 'MissingError') return `Unexpected kind: ${String(op)}`;
  const missing = op === 'move' || op === 'copy' ? `from path: ${String(from)}` : `path: ${JSON.stringify(path)}`;
  return `${String(op)} operation does not apply: doc is missing ${missing}: missing value`;
}
