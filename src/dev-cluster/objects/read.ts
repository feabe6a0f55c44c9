import { isObject, type JsonObject } from '../../kube/types.ts';

/** Reads of decoded objects: what is missing or has another type reads as empty. */

export function objectAt(parent: JsonObject | undefined, field: string): JsonObject {
  const value = parent?.[field];
  // A new one each time: whoever writes into it must not write into that of others.
  return isObject(value) ? value : {};
}

/** The objects in a list; anything else in it is left out. */
export function objectsAt(parent: JsonObject | undefined, field: string): readonly JsonObject[] {
  const value = parent?.[field];
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function textAt(parent: JsonObject | undefined, field: string): string {
  const value = parent?.[field];
  return typeof value === 'string' ? value : '';
}

export function textsAt(parent: JsonObject | undefined, field: string): readonly string[] {
  const value = parent?.[field];
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

export function numberAt(parent: JsonObject | undefined, field: string): number | undefined {
  const value = parent?.[field];
  return typeof value === 'number' ? value : undefined;
}

/** True if the field holds anything but null. */
export function hasField(parent: JsonObject | undefined, field: string): boolean {
  return parent?.[field] != null;
}
