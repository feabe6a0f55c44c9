import { formatFieldError, tooMany, unmarshalError } from '../../../kube/field-error.ts';
import { MAX_ITEMS } from '../../../kube/pod.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { pathOf, type PodFields, type SetterFields } from '../fields.ts';
import { NONE } from './scratch.ts';

/** A field whose value has another type than the API gives it, or more items than there can be. */
export interface DecodeError {
  /** With indexes: `spec.containers[0].securityContext.privileged`. */
  readonly path: string;
  readonly value: unknown;
  /** In the words of the API server. */
  readonly message: string;
}

/** Where decoding is, and the first wrong type that it met. */
export interface Reader {
  error: DecodeError | undefined;
  readonly pod: PodFields;
  /** The pod spec or the container that is being read; `undefined` at the top of the object. */
  setter: SetterFields | undefined;
  /** The place in the list or map that is being read, which `[*]` in a path stands for. */
  index: number | string;
  /** How many elements the lists have that were read so far. */
  items: number;
}

/** A struct of the API and where it lies: from the container or the pod spec, with `[*]` for an element. */
export interface Struct {
  readonly name: string;
  readonly path: string;
}

const MAX_INT64 = 2 ** 63;

export function booleanIn(reader: Reader, struct: Struct, key: string, value: unknown): boolean | undefined {
  if (typeof value === 'boolean') return value;
  if (value != null) mismatch(reader, struct, key, value, 'bool');
  return undefined;
}

/** A key that ends in `[*]` is a list; null in a list is the empty string. */
export function stringIn(reader: Reader, struct: Struct, key: string, value: unknown, type = 'string'): string {
  if (typeof value === 'string') return value;
  if (value != null) mismatch(reader, struct, key, value, type);
  return '';
}

/** Like `stringIn`, but tells an absent string from an empty one. */
export function optionalStringIn(
  reader: Reader,
  struct: Struct,
  key: string,
  value: unknown,
  type: string,
): string | undefined {
  return value == null ? undefined : stringIn(reader, struct, key, value, type);
}

export function int32In(reader: Reader, struct: Struct, key: string, value: unknown): number | undefined {
  if (typeof value === 'number' && (value | 0) === value) return value;
  if (value != null) mismatch(reader, struct, key, value, 'int32');
  return undefined;
}

/** JSON.parse cannot tell 2^63 from 2^63-1: the bound itself passes. */
export function int64In(reader: Reader, struct: Struct, key: string, value: unknown): number | undefined {
  if (typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= MAX_INT64) return value;
  if (value != null) mismatch(reader, struct, key, value, 'int64');
  return undefined;
}

/** The type is the name of the struct in the API, for the message. */
export function objectIn(
  reader: Reader,
  struct: Struct,
  key: string,
  value: unknown,
  type: string,
): JsonObject | undefined {
  if (isObject(value)) return value;
  if (value != null) mismatch(reader, struct, key, value, type);
  return undefined;
}

/** The type is that of the elements. */
export function listIn(reader: Reader, struct: Struct, key: string, value: unknown, type: string): readonly unknown[] {
  if (Array.isArray(value)) {
    if ((reader.items += value.length) <= MAX_ITEMS) return value;
    overflow(reader, joinPath(struct.path, key), { count: reader.items, max: MAX_ITEMS });
    return NONE;
  }
  if (value != null) mismatch(reader, struct, key, value, `[]${type}`);
  return NONE;
}

/** A list of strings as it stands, or a mended copy if it is odd. */
export function stringsIn(
  reader: Reader,
  struct: Struct,
  key: string,
  value: unknown,
  type: string,
): readonly string[] {
  const list = listIn(reader, struct, key, value, type);
  return areStrings(list)
    ? list
    : list.map((item, index) => {
        reader.index = index;
        return stringIn(reader, struct, `${key}[*]`, item, type);
      });
}

function areStrings(list: readonly unknown[]): list is readonly string[] {
  for (const item of list) if (typeof item !== 'string') return false;
  return true;
}

/** Notes a list with too many items, unless an error has been noted before; the field lies in what is being read. */
export function overflow(reader: Reader, field: string, { count, max }: { count: number; max: number }): void {
  if (reader.error !== undefined) return;
  const path = pathIn(reader, field);
  reader.error = { path, value: count, message: formatFieldError(tooMany(path, count, max)) };
}

/** Notes a value of the wrong type, unless an error has been noted before. */
function mismatch(reader: Reader, struct: Struct, key: string, value: unknown, type: string): void {
  if (reader.error !== undefined) return;
  const field = joinPath(struct.path, key);
  const { setter } = reader;
  const goPath = joinPath(setter === undefined ? '' : joinPath('spec', setter.list ?? ''), field);
  reader.error = {
    path: pathIn(reader, field),
    value,
    message: unmarshalError(value, `${struct.name}.${goPath.replace('[*]', '')}`, type),
  };
}

function pathIn({ setter, index }: Reader, field: string): string {
  return joinPath(setter === undefined ? '' : pathOf(setter), field).replace('[*]', () => `[${index}]`);
}

function joinPath(parent: string, child: string): string {
  return parent === '' || child === '' ? parent + child : `${parent}.${child}`;
}
