import { isObject } from '../kube/types.ts';
import type { Intern } from './intern.ts';

/**
 * Which part of a JSON value is kept: all of it, some members of an object, or some of each element of a list; `shared`
 * is held but once for all values that are equal.
 */
export type Shape =
  'all' | { readonly each: Shape } | { readonly members: ReadonlyMap<string, Shape> } | { readonly shared: Shape };

export function each(shape: Shape): Shape {
  return { each: shape };
}

export function members(shapes: Readonly<Record<string, Shape>>): Shape {
  return { members: new Map(Object.entries(shapes)) };
}

export function shared(shape: Shape): Shape {
  return { shared: shape };
}

/**
 * The part of a value that a shape keeps, its members in their order; a value of another type stays as it is. Without a
 * pool nothing is shared.
 */
export function keep(value: unknown, shape: Shape, intern?: Intern): unknown {
  if (shape === 'all') return value;
  if ('shared' in shape) {
    const kept = keep(value, shape.shared, intern);
    return intern ? intern(kept) : kept;
  }
  if ('each' in shape) return Array.isArray(value) ? value.map((item) => keep(item, shape.each, intern)) : value;
  if (!isObject(value)) return value;
  const entries: [string, unknown][] = [];
  for (const key of Object.keys(value)) {
    const inner = shape.members.get(key);
    if (inner !== undefined) entries.push([key, keep(value[key], inner, intern)]);
  }
  return Object.fromEntries(entries);
}
