/**
 * Applies JSON patches, JSON merge patches and strategic merge patches.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
 */
import { withoutNulls } from '../../kube/equality.ts';
import { invalidValue, unmarshalError } from '../../kube/field-error.ts';
import { ApiError, badRequest, createStatus, invalid } from '../../kube/status.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { applyJsonPatch } from '../json-patch.ts';
import type { ApiObject } from '../types.ts';
import { decodeValue, plainError } from './decode.ts';
import type { Schema } from './schema.ts';
import { sortItems } from './typed.ts';

export type PatchMediaType =
  | 'application/json-patch+json'
  | 'application/merge-patch+json'
  | 'application/strategic-merge-patch+json';

/**
 * Returns a patched and decoded copy of an object. Throws ApiError 400 for a malformed patch, and 422 for a patch that
 * cannot be applied.
 */
export function applyPatch(object: ApiObject, text: string, mediaType: PatchMediaType, schema: Schema): ApiObject {
  const patched = patchObject(object, parsePatch(text), mediaType, schema);
  const decoding = decodeValue(patched, schema);
  if (decoding.error === undefined) return decoding.object;
  const error = invalidValue('patch', JSON.stringify(patched), decoding.error);
  throw new ApiError(invalid({ group: '', kind: '' }, '', [error]));
}

function parsePatch(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(badRequest(`error decoding patch: ${(error as Error).message}`), { cause: error });
  }
}

function patchObject(object: ApiObject, patch: unknown, mediaType: PatchMediaType, schema: Schema): unknown {
  if (mediaType === 'application/json-patch+json') return applyOperations(object, patch);
  if (!isObject(patch)) throw malformed(patch, 'map[string]interface {}');
  return mediaType === 'application/merge-patch+json'
    ? mergePatch(object, patch)
    : strategicMerge(object, patch, schema);
}

function malformed(patch: unknown, goType: string): ApiError {
  return new ApiError(badRequest(`error decoding patch: ${unmarshalError(patch, '', goType)}`));
}

const MAX_OPERATIONS = 10_000;

/** Applies a JSON patch. As in the API server, the error does not name the failed operation. */
function applyOperations(object: ApiObject, patch: unknown): unknown {
  if (!Array.isArray(patch) || !patch.every(isObject)) throw malformed(patch, '[]handlers.jsonPatchOp');
  if (patch.length > MAX_OPERATIONS) {
    const limit = `The allowed maximum operations in a JSON patch is ${MAX_OPERATIONS}, got ${patch.length}`;
    throw new ApiError(createStatus(413, 'RequestEntityTooLarge', `Request entity too large: ${limit}`));
  }
  try {
    return applyJsonPatch(object, patch);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = 'the server rejected our request due to an error in our request';
    throw new ApiError(createStatus(422, 'Invalid', message, {}), { cause: error });
  }
}

/**
 * Applies a JSON merge patch.
 * @see https://www.rfc-editor.org/rfc/rfc7386
 */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const members = new Map(Object.entries(isObject(target) ? target : {}));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) members.delete(key);
    else members.set(key, mergePatch(members.get(key), value));
  }
  return Object.fromEntries(members);
}

const DIRECTIVE = '$patch';
const RETAIN_KEYS = '$retainKeys';
const DELETE_FROM = '$deleteFromPrimitiveList/';
const ORDER = '$setElementOrder/';

/** Merges a strategic merge patch into an object without modifying either of them. */
function strategicMerge(original: JsonObject, patch: JsonObject, schema: Schema): JsonObject {
  const { [DIRECTIVE]: directive, [RETAIN_KEYS]: retained, ...rest } = patch;
  if (directive === 'replace') return rest;
  if (directive === 'delete') return {};
  if (directive !== undefined && directive !== 'merge') throw unknownDirective(directive, patch);
  const entries = Object.entries(original).filter(([key]) => !Array.isArray(retained) || retained.includes(key));
  const members = new Map(entries);
  for (const [key, value] of Object.entries(rest)) {
    if (key.startsWith(ORDER)) continue;
    if (key.startsWith(DELETE_FROM)) deleteItems(members, key.slice(DELETE_FROM.length), value);
    else if (value === null) members.delete(key);
    else members.set(key, mergeMember(members.get(key), value, schema.field(key)));
  }
  for (const [key, order] of Object.entries(rest)) {
    const name = key.slice(ORDER.length);
    const list = key.startsWith(ORDER) ? members.get(name) : undefined;
    if (Array.isArray(list)) {
      members.set(
        name,
        sortItems(list, asList(order), asList(original[name]), keyReader(mergeKey(schema.field(name)))),
      );
    }
  }
  return Object.fromEntries([...members].filter(([, value]) => value !== undefined));
}

function unknownDirective(directive: unknown, patch: unknown): ApiError {
  return plainError(`unknown patch type: ${String(directive)} in map: ${JSON.stringify(patch)}`);
}

function deleteItems(members: Map<string, unknown>, name: string, deleted: unknown): void {
  const list = members.get(name);
  const items = asList(deleted);
  if (!Array.isArray(list)) return;
  members.set(
    name,
    list.filter((item) => !items.includes(item)),
  );
}

function mergeKey({ list }: Schema): string | undefined {
  return list === 'set' ? undefined : list?.[0];
}

/** Returns a function that reads an item's merge key. If the list has no merge key, items are their own keys. */
function keyReader(mergeKey: string | undefined): (item: unknown) => unknown {
  return (item) => (mergeKey !== undefined && isObject(item) ? item[mergeKey] : item);
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Merges two objects or two mergeable lists. Replaces other values. */
function mergeMember(original: unknown, change: unknown, schema: Schema): unknown {
  if (isObject(original) && isObject(change)) return strategicMerge(original, change, schema);
  if (!Array.isArray(original) || !Array.isArray(change) || schema.list === undefined) {
    return withoutDirectives(withoutNulls(change));
  }
  const key = mergeKey(schema);
  if (key !== undefined) return mergeItems(original, change, key, schema.item());
  return sortItems([...new Set<unknown>(original.concat(change))], change, original, keyReader(undefined));
}

/** Merges lists of objects by their merge key. */
function mergeItems(original: readonly unknown[], patch: readonly unknown[], mergeKey: string, schema: Schema) {
  const changes = patch.filter(isObject);
  if (changes.some((change) => change[DIRECTIVE] === 'replace')) {
    return changes.filter((change) => change[DIRECTIVE] === undefined);
  }
  let items: unknown[] = [...original];
  for (const change of changes) {
    const key = change[mergeKey];
    if (key === undefined) {
      throw plainError(`map: ${JSON.stringify(change)} does not contain declared merge key: ${mergeKey}`);
    }
    const isSame = (item: unknown): boolean => isObject(item) && item[mergeKey] === key;
    const index = items.findIndex(isSame);
    const directive = change[DIRECTIVE];
    if (directive === 'delete') items = items.filter((item) => !isSame(item));
    else if (directive !== undefined) throw unknownDirective(directive, change);
    else if (index < 0) items.push(withoutDirectives(withoutNulls(change)));
    else items[index] = strategicMerge(items[index] as JsonObject, change, schema);
  }
  return sortItems(items, changes, original, keyReader(mergeKey));
}

/** Returns the value of a new field. Omits objects that contain a directive. */
function withoutDirectives(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDirectives).filter((item) => item !== undefined);
  if (!isObject(value)) return value;
  if (Object.hasOwn(value, DIRECTIVE)) return undefined;
  const entries = Object.entries(value).filter(
    ([key]) => key !== RETAIN_KEYS && !key.startsWith(ORDER) && !key.startsWith(DELETE_FROM),
  );
  return Object.fromEntries(entries.map(([key, member]) => [key, withoutDirectives(member)]));
}
