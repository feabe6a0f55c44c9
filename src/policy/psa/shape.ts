import { isObject } from '../../kube/types.ts';

/** The types of some fields; `*` stands for every key. Fields that a shape does not name may hold anything. */
export type Shape = 'string' | 'int32' | { readonly [field: string]: Shape };

/** Names the first field that has a wrong type, in the words of the API server's decoder; `null` fits every type. */
export function wrongType(value: unknown, shape: Shape, path: string): string | undefined {
  if (value == null) return undefined;
  if (typeof shape === 'string') return isOfType(value, shape) ? undefined : mismatch(value, path, shape);
  if (!isObject(value)) return mismatch(value, path, shape['*'] === undefined ? 'struct' : `map[string]string`);
  for (const field in shape) {
    for (const key of field === '*' ? Object.keys(value) : [field]) {
      const error = Object.hasOwn(value, key) ? wrongType(value[key], shape[field] ?? {}, `${path}.${key}`) : undefined;
      if (error !== undefined) return error;
    }
  }
  return undefined;
}

function isOfType(value: unknown, type: 'string' | 'int32'): boolean {
  return type === 'string' ? typeof value === 'string' : (Number(value) | 0) === value;
}

function mismatch(value: unknown, path: string, type: string): string {
  return `json: cannot unmarshal ${jsonTypeOf(value)} into Go struct field ${path} of type ${type}`;
}

function jsonTypeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}
