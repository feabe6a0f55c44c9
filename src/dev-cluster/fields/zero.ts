import type { FieldType, ObjectType, ScalarKind } from './types.ts';

const ZERO: Readonly<Record<ScalarKind, unknown>> = {
  string: '',
  boolean: false,
  int32: 0,
  int64: 0,
  number: 0,
  'int-or-string': 0,
  quantity: '0',
  time: null,
  'micro-time': null,
  duration: '0s',
  bytes: null,
};

/** A new object of a built-in kind as Go writes it: the fields that are written even if nobody set them. */
export function emptyObject(type: ObjectType): Record<string, unknown> {
  const entries = [...type.fields].flatMap(([name, field]): [string, unknown][] =>
    field.always ? [[name, field.pointer ? null : zeroOf(field.type)]] : [],
  );
  return Object.fromEntries(entries);
}

/** What a field of that type holds in Go until it is set. */
export function zeroOf(type: FieldType): unknown {
  if (type.kind === 'scalar') return ZERO[type.scalar];
  return type.kind === 'object' && !type.additional ? emptyObject(type) : null;
}

/** True for a value that Go does not write in a field with `omitempty`. */
export function isEmptyValue(type: FieldType, value: unknown): boolean {
  switch (type.kind) {
    case 'scalar':
      return value === ZERO[type.scalar] || value === '';
    case 'list':
      return Array.isArray(value) && value.length === 0;
    case 'object':
      // A struct is never empty to Go, a map without keys is.
      return type.additional !== undefined && typeof value === 'object' && Object.keys(value ?? {}).length === 0;
    case 'any':
      return false;
  }
}
