import { withoutNulls } from '../../../kube/equality.ts';

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
