import type { JsonObject } from '../kube/types.ts';

/** A copy of an object without some of its fields. */
export function omit(object: JsonObject, ...fields: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([field]) => !fields.includes(field)));
}
