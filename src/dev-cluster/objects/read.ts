import { isObject, type JsonObject } from '../../kube/types.ts';

/** Access to the fields of decoded objects. A missing value and a value of another type are empty. */

export function objectAt(parent: JsonObject | undefined, field: string): JsonObject {
  const value = parent?.[field];
  // A new object each time, because callers may change it.
  return isObject(value) ? value : {};
}

/** The objects in a list; other items are omitted. */
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

/** True if the field has a value other than null. */
export function hasField(parent: JsonObject | undefined, field: string): boolean {
  return parent?.[field] != null;
}
