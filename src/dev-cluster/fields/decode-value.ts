import { compareBytes, quote } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { jsonTypeName } from '../../kube/field-error.ts';
import { readScalar } from './scalar.ts';
import type { Field, FieldType, ListType, ObjectType, ScalarKind, ScalarType } from './types.ts';
import { isEmptyValue, zeroOf } from './zero.ts';

/** What decoding made of a value. */
export interface Decoding {
  readonly object: ApiObject;
  /** Go's text for the first value of a wrong type. */
  readonly error?: string;
  /** `unknown field "spec.bogus"` for each field that was dropped. */
  readonly unknown: readonly string[];
}

/** Go's limit of complaints about unknown and duplicate fields. */
export const MAX_COMPLAINTS = 100;

/**
 * Turns parsed JSON into an object of the type as a trip through Go's structs does: unknown fields, nulls and empty
 * values go, fields that are always written come. In custom resources only unknown fields and nulls go.
 */
export function decodeValue(value: unknown, type: ObjectType): Decoding {
  const decoder = createDecoder();
  const object = decoder.decode(type, value, { struct: '', stack: [], path: '' });
  const { error, unknown } = decoder.result();
  return {
    object: isObject(object) ? { ...object } : {},
    ...(error === undefined ? {} : { error }),
    unknown,
  };
}

/** Where the decoder is: Go's names for error texts, and the path of the JSON field. */
interface Place {
  readonly struct: string;
  readonly stack: readonly string[];
  readonly path: string;
}

function createDecoder() {
  const unknown = new Set<string>();
  let error: string | undefined;
  let fatal: string | undefined;

  const fail = (found: string, goType: string, place: Place): void => {
    error ??= mismatchError(found, goType, place);
  };
  const dropped = (path: string): void => {
    if (unknown.size < MAX_COMPLAINTS) unknown.add(`unknown field ${quote(path)}`);
  };

  /** The value as kept; `undefined` where there is none. */
  function decode(type: FieldType, value: unknown, place: Place): unknown {
    if (value == null) return undefined;
    switch (type.kind) {
      case 'any':
        return value;
      case 'list':
        if (Array.isArray(value)) return items(type, value, place);
        break;
      case 'object':
        if (isObject(value)) return object(type, value, place);
        break;
      case 'scalar':
        return scalar(type, value, place);
    }
    fail(jsonTypeName(value), type.goType, place);
    return undefined;
  }

  function scalar(type: ScalarType, value: unknown, place: Place): unknown {
    const result = readScalar(type, value);
    if ('value' in result) return result.value;
    const text = 'error' in result ? result.error : mismatchError(result.mismatch, result.goType, place);
    // Go goes on after a value of a wrong type, but not after one that a decoder of its own refuses.
    if (OWN_DECODER.has(type.scalar)) fatal ??= text;
    else error ??= text;
    return undefined;
  }

  function items(type: ListType, list: readonly unknown[], place: Place): unknown[] {
    return list.map((item, index) => {
      const path = `${place.path}[${index}]`;
      return decode(type.items, item, { ...place, path }) ?? zeroOf(type.items);
    });
  }

  function object(type: ObjectType, value: JsonObject, place: Place): unknown {
    if (type.fields.size === 0 && type.additional) return map(type.additional, value, place);
    return type.structural ? structural(type, value, place.path) : struct(type, value, place);
  }

  function map(values: FieldType, value: JsonObject, place: Place): unknown {
    const entries = Object.entries(value).map(([key, member]): [string, unknown] => [
      key,
      decode(values, member, { ...place, path: join(place.path, key) }) ?? zeroOf(values),
    ]);
    return Object.fromEntries(entries.sort(([a], [b]) => compareBytes(a, b)));
  }

  function struct(type: ObjectType, value: JsonObject, place: Place): unknown {
    const name = type.goType.slice(type.goType.lastIndexOf('.') + 1);
    const found = new Map<string, unknown>();
    for (const [key, member] of Object.entries(value)) {
      const field = type.fields.get(key);
      const path = join(place.path, key);
      if (!field) dropped(path);
      else {
        const stack = [...place.stack, ...(field.embedded === undefined ? [] : [field.embedded]), key];
        found.set(key, decode(field.type, member, { struct: name, stack, path }));
      }
    }
    return Object.fromEntries([...type.fields].flatMap(([key, field]) => written(key, field, found.get(key))));
  }

  /** Unknown fields of custom resources are named after those of their metadata, in order. */
  function structural(type: ObjectType, value: JsonObject, path: string): unknown {
    const keys = Object.keys(value).sort(
      (a, b) => Number(b === 'metadata') - Number(a === 'metadata') || compareBytes(a, b),
    );
    const found = new Map<string, unknown>();
    for (const key of keys) {
      const field = type.fields.get(key);
      const below = field?.type ?? type.additional;
      const member = value[key];
      if (!below) dropped(join(path, key));
      else if (member !== null || field?.nullable) found.set(key, lenient(below, member, join(path, key)));
    }
    return Object.fromEntries(
      Object.keys(value)
        .filter((key) => found.has(key))
        .map((key) => [key, found.get(key)]),
    );
  }

  /** In custom resources a value of a wrong type stays as it is, for validation to see. */
  function lenient(type: FieldType, value: unknown, path: string): unknown {
    if (type.kind === 'list' && Array.isArray(value)) {
      return value.map((item, index) => lenient(type.items, item, `${path}[${index}]`));
    }
    if (type.kind !== 'object' || !isObject(value)) return value;
    if (!type.structural) return struct(type, value, { struct: '', stack: [], path });
    return structural(type, value, path);
  }

  return { decode, result: () => ({ error: fatal ?? error, unknown: [...unknown] }) };
}

/** The types that Go does not decode itself. */
const OWN_DECODER: ReadonlySet<ScalarKind> = new Set(['int-or-string', 'quantity', 'time', 'micro-time', 'duration']);

function mismatchError(found: string, goType: string, { struct, stack }: Place): string {
  const where = struct === '' ? 'Go value' : `Go struct field ${struct}.${stack.join('.')}`;
  return `json: cannot unmarshal ${found} into ${where} of type ${goType}`;
}

/** The field as Go writes it: left out when empty, unless it is always written or a pointer. */
function written(key: string, field: Field, value: unknown): [string, unknown][] {
  if (value === undefined) return field.always ? [[key, field.pointer ? null : zeroOf(field.type)]] : [];
  const omitted = !field.always && !field.pointer && isEmptyValue(field.type, value);
  return omitted ? [] : [[key, value]];
}

function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}
