import { isObject, type JsonObject } from '../../kube/types.ts';
import { unmarshalError } from '../../kube/unmarshal-error.ts';

/** The types of some fields; `*` stands for every key. Fields that a shape does not name may hold anything. */
export type Shape = 'string' | 'int32' | { readonly [field: string]: Shape };

/** Names the first field that has a wrong type, in the words of the API server's decoder; null fits every type. */
export function wrongType(value: unknown, shape: Shape, path: string): string | undefined {
  if (value == null) return undefined;
  if (typeof shape === 'string') return isOfType(value, shape) ? undefined : unmarshalError(value, path, shape);
  if (!isObject(value)) return unmarshalError(value, path, Object.hasOwn(shape, '*') ? 'map[string]string' : 'struct');
  for (const [field, type] of Object.entries(shape)) {
    for (const key of field === '*' ? Object.keys(value) : [field]) {
      const error = wrongType(own(value, key), type, `${path}.${key}`);
      if (error !== undefined) return error;
    }
  }
  return undefined;
}

function own(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function isOfType(value: unknown, type: 'string' | 'int32'): boolean {
  return type === 'string' ? typeof value === 'string' : typeof value === 'number' && (value | 0) === value;
}
