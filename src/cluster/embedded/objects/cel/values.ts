import { isObject } from '../../../../kube/types.ts';

/**
 * JSON as CEL sees it: whole numbers are integers, objects are maps. Maps of ours rather than objects, so that no key
 * means anything to JavaScript.
 */
export function celValue(value: unknown): unknown {
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(celValue);
  if (typeof value !== 'object' || value === null) return value ?? null;
  return new Map(Object.entries(value).map(([key, item]) => [key, celValue(item)]));
}

/** The same of a value that has a schema: a field that is null is absent. */
export function schemaValue(value: unknown): unknown {
  return celValue(withoutNulls(value));
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([key, member]) => [key, withoutNulls(member)]));
}
