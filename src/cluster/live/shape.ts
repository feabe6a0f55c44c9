import { isObject } from '../../kube/types.ts';

/** Which part of a JSON value is kept: all of it, some members of an object, or some of each element of a list. */
export type Shape = 'all' | { readonly each: Shape } | { readonly members: ReadonlyMap<string, Shape> };

export function each(shape: Shape): Shape {
  return { each: shape };
}

export function members(shapes: Readonly<Record<string, Shape>>): Shape {
  return { members: new Map(Object.entries(shapes)) };
}

/** The part of a value that a shape keeps, its members in their order; a value of another type stays as it is. */
export function keep(value: unknown, shape: Shape): unknown {
  if (shape === 'all') return value;
  if ('each' in shape) return Array.isArray(value) ? value.map((item) => keep(item, shape.each)) : value;
  if (!isObject(value)) return value;
  const entries: [string, unknown][] = [];
  for (const key of Object.keys(value)) {
    const inner = shape.members.get(key);
    if (inner !== undefined) entries.push([key, keep(value[key], inner)]);
  }
  return Object.fromEntries(entries);
}
