import { applyPatch, type Operation } from 'rfc6902';
import type { JsonObject } from '../kube/types.ts';

/**
 * Applies a JSON patch to a copy of the document. The operations may be malformed.
 * @throws {RangeError} for the first operation that does not apply, in the words of the API server
 */
export function applyJsonPatch(document: unknown, operations: readonly JsonObject[]): unknown {
  // As a member, the document itself can be replaced.
  const root = { document: structuredClone(document) };
  for (const operation of operations) {
    const { op, path, from } = operation;
    const { value = null } = operation;
    const located = { op, path: locate(path), ...(from === undefined ? {} : { from: locate(from) }), value };
    const [error] = applyPatch(root, [located as Operation]);
    if (error) throw new RangeError(errorMessage(error, operation));
  }
  return root.document;
}

function locate(pointer: unknown): unknown {
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
