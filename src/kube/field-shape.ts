import { isObject } from './types.ts';

/** The schema of a field: a scalar type, the items of a list, or the fields of an object. */
export type FieldShape = PlainType | readonly [FieldShape] | FieldShapes;

export interface FieldShapes {
  readonly [name: string]: FieldShape;
}

type PlainType = 'any' | 'string' | 'boolean' | 'number' | 'int32' | 'int64';

/** The type of JSON values that have the shape. Null is treated as absent. */
export type ShapeValue<Shape> = Shape extends 'string'
  ? string
  : Shape extends 'boolean'
    ? boolean
    : Shape extends PlainType
      ? number
      : Shape extends readonly [infer Item]
        ? readonly ShapeValue<Item>[]
        : { readonly [Name in keyof Shape]?: ShapeValue<Shape[Name]> | null };

type Path = readonly (string | number)[];

/** An unknown field and the known fields of its object, or a value whose type does not match its shape. */
type ShapeError =
  | { readonly path: Path; readonly known: readonly string[] }
  | { readonly path: Path; readonly value: unknown; readonly shape: FieldShape };

/**
 * Returns unknown fields and values of the wrong type, in the order in which they occur in the object. Null is treated
 * as absent, except as a list item.
 */
export function findShapeErrors(value: unknown, shape: FieldShape, path: Path = []): readonly ShapeError[] {
  if (value == null) return [];
  if (typeof shape === 'string') return IS_OF_TYPE[shape](value) ? [] : [{ path, value, shape }];
  if (isList(shape)) {
    if (!Array.isArray(value)) return [{ path, value, shape }];
    return value.flatMap((item: unknown, index) => {
      const here = [...path, index];
      return item == null ? [{ path: here, value: item, shape: shape[0] }] : findShapeErrors(item, shape[0], here);
    });
  }
  if (!isObject(value)) return [{ path, value, shape }];
  return Object.entries(value).flatMap(([name, member]) => {
    const own = Object.hasOwn(shape, name) ? shape[name] : undefined;
    const below = [...path, name];
    return own === undefined ? [{ path: below, known: Object.keys(shape) }] : findShapeErrors(member, own, below);
  });
}

export function isList(shape: FieldShape): shape is readonly [FieldShape] {
  return Array.isArray(shape);
}

const IS_OF_TYPE: Readonly<Record<PlainType, (value: unknown) => boolean>> = {
  any: () => true,
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  number: (value) => typeof value === 'number',
  int32: (value) => typeof value === 'number' && (value | 0) === value,
  // JSON.parse rounds 2^63-1 up to 2^63, so the bound itself is allowed.
  int64: (value) => typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= 2 ** 63,
};
