/** Reads of answers, for tests that look at a part of them. */
import assert from 'node:assert/strict';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import type { ApiResponse } from './api-client.ts';

/** The body, which must be an object. */
export function objectOf({ body, text }: ApiResponse): JsonObject {
  assert.ok(isObject(body), text);
  return body;
}

/** The metadata of an object. */
export function metadataOf(object: JsonObject): JsonObject {
  return isObject(object['metadata']) ? object['metadata'] : {};
}

export function messageOf(answer: ApiResponse): unknown {
  return objectOf(answer)['message'];
}

export function itemsOf(answer: ApiResponse): readonly JsonObject[] {
  const { items } = objectOf(answer);
  assert.ok(Array.isArray(items));
  return items.filter(isObject);
}

export function namesOf(answer: ApiResponse): unknown[] {
  return itemsOf(answer).map((item) => metadataOf(item)['name']);
}
