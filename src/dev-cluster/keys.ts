import { metadataOf, type ApiObject } from './types.ts';

/** The key under which an object is kept, and by which lists are ordered and continued: `namespace/name` or `name`. */
export function keyOf(namespace: string, name: string): string {
  return namespace === '' ? name : `${namespace}/${name}`;
}

export function keyOfObject(object: ApiObject): string {
  const { namespace, name } = metadataOf(object);
  return keyOf(namespace ?? '', name ?? '');
}
