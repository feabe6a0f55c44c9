/** Reads parts of responses. */
import assert from 'node:assert/strict';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import type { ApiResponse } from './api-client.ts';

/** Returns the body, which must be an object. */
export function responseObject({ body, text }: ApiResponse): JsonObject {
  assert.ok(isObject(body), text);
  return body;
}

export function objectMetadata(object: JsonObject): JsonObject {
  return isObject(object['metadata']) ? object['metadata'] : {};
}

export function responseMessage(answer: ApiResponse): unknown {
  return responseObject(answer)['message'];
}

export function responseItems(answer: ApiResponse): readonly JsonObject[] {
  const { items } = responseObject(answer);
  assert.ok(Array.isArray(items));
  return items.filter(isObject);
}

export function responseNames(answer: ApiResponse): unknown[] {
  return responseItems(answer).map((item) => objectMetadata(item)['name']);
}
