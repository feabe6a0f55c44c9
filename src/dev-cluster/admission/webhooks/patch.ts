import { apply } from '../../../kube/json-patch.ts';
import { ApiError, internalError } from '../../../kube/status.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import type { ApiObject, Attributes, ResourceInfo } from '../../types.ts';
import type { Hook } from './hook.ts';
import { failed, type Outcome } from './invoke.ts';
import { readJson } from './json-text.ts';
import { inVersion } from './review.ts';

/** Reads what a patch has made as an object of the resource; `error` is Go's text for a value of a wrong type. */
export type Decode = (
  value: unknown,
  resource: ResourceInfo,
  subresource: string,
) => { readonly object: ApiObject; readonly error?: string };

/**
 * The object after a webhook's patch, defaults filled in. A patch that does not fit is the server's failure, whatever the
 * failurePolicy: throws ApiError 500.
 */
export function applyPatch(
  hook: Hook,
  text: string,
  attributes: Attributes,
  resource: ResourceInfo,
  decode: Decode,
): { readonly kind: 'patched'; readonly object: ApiObject } | Outcome {
  const ops = readPatch(text);
  if ('error' in ops) return failed(hook.name, `received undecodable patch in webhook response: ${ops.error}`);
  if (ops.list.length === 0) return { kind: 'allowed' };
  const { object } = attributes;
  if (!object) {
    const message = `admission webhook "${hook.name}" attempted to modify the object, which is not supported for this operation`;
    throw new ApiError(internalError(message));
  }
  const patched = applyOps(inVersion(object, attributes, resource) ?? object, ops.list);
  const decoded = decode(patched, resource, attributes.subresource);
  if (decoded.error !== undefined) throw new ApiError(internalError(decoded.error));
  const back: ApiObject =
    object.apiVersion === undefined ? decoded.object : { ...decoded.object, apiVersion: object.apiVersion };
  attributes.resource.strategy.defaults(back);
  return { kind: 'patched', object: back };
}

function readPatch(text: string): { readonly list: readonly JsonObject[] } | { readonly error: string } {
  const json = readJson(text);
  if (!json.ok) return { error: json.error };
  if (json.value === null) return { list: [] };
  const list = json.value;
  if (!Array.isArray(list))
    return { error: `json: cannot unmarshal ${goType(list)} into Go value of type jsonpatch.Patch` };
  const odd: unknown = list.find((op) => !isObject(op));
  if (odd !== undefined) {
    return { error: `json: cannot unmarshal ${goType(odd)} into Go value of type jsonpatch.Operation` };
  }
  return { list: list as JsonObject[] };
}

/** The kind of a JSON value, as Go's errors call it. */
export function goType(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'boolean') return 'bool';
  return value === null ? 'null' : typeof value;
}

function applyOps(object: ApiObject, ops: readonly JsonObject[]): unknown {
  try {
    return apply(object, ops);
  } catch (error) {
    if (error instanceof RangeError) throw new ApiError(internalError(error.message), { cause: error });
    throw error;
  }
}
