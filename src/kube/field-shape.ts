import { isObject } from './types.ts';

/** The schema of a field: a scalar type, the items of a list, or the fields of an object. */
export type FieldShape = PlainType | readonly [FieldShape] | FieldShapes;

export interface FieldShapes {
  readonly [name: string]: FieldShape;
}

type PlainType = 'any' | 'string' | 'boolean' | 'int32' | 'int64';

type Path = readonly (string | number)[];

/** An unknown field, with the known fields of its object; or a value of a wrong type. */
export type Misshapen =
  | { readonly path: Path; readonly known: readonly string[] }
  | { readonly path: Path; readonly value: unknown; readonly expected: string };

/** Returns the unknown fields and the values of wrong types, in the order of the object. Null counts as absent. */
export function findMisshapen(value: unknown, shape: FieldShape, path: Path = []): readonly Misshapen[] {
  if (value == null) return [];
  if (typeof shape === 'string') return IS_OF_TYPE[shape](value) ? [] : [{ path, value, expected: EXPECTED[shape] }];
  if (isList(shape)) {
    if (!Array.isArray(value)) return [{ path, value, expected: 'must be a list' }];
    return value.flatMap((item: unknown, index) => findInList(item, shape[0], [...path, index]));
  }
  if (!isObject(value)) return [{ path, value, expected: 'must be an object' }];
  return Object.entries(value).flatMap(([name, member]) => {
    const own = Object.hasOwn(shape, name) ? shape[name] : undefined;
    const below = [...path, name];
    return own === undefined ? [{ path: below, known: Object.keys(shape) }] : findMisshapen(member, own, below);
  });
}

/** Items of lists must not be null. */
function findInList(item: unknown, shape: FieldShape, path: Path): readonly Misshapen[] {
  return item == null ? [{ path, value: item, expected: expectedOf(shape) }] : findMisshapen(item, shape, path);
}

function expectedOf(shape: FieldShape): string {
  if (typeof shape === 'string') return EXPECTED[shape];
  return isList(shape) ? 'must be a list' : 'must be an object';
}

function isList(shape: FieldShape): shape is readonly [FieldShape] {
  return Array.isArray(shape);
}

const IS_OF_TYPE: Readonly<Record<PlainType, (value: unknown) => boolean>> = {
  any: () => true,
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  int32: (value) => typeof value === 'number' && (value | 0) === value,
  // Numbers beyond 2^53 are not exact.
  int64: (value) => typeof value === 'number' && Number.isInteger(value) && Math.abs(value) < 2 ** 63,
};

const EXPECTED: Readonly<Record<PlainType, string>> = {
  any: '',
  string: 'must be a string',
  boolean: 'must be a boolean',
  int32: 'must be an integer of 32 bits',
  int64: 'must be an integer of 64 bits',
};
