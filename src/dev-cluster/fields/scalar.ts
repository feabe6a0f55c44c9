import { quote } from '../../kube/text.ts';
import { jsonTypeName } from '../../kube/field-error.ts';
import { readTime } from './time.ts';
import type { ScalarType } from './types.ts';

/** A scalar as it is kept, a complaint in Go's words, or the sign that the JSON value is of a wrong type altogether. */
export type Scalar =
  { readonly value: unknown } | { readonly error: string } | { readonly mismatch: string; readonly goType: string };

/** Reads a JSON value as a scalar of that type. */
export function readScalar(type: ScalarType, value: unknown): Scalar {
  switch (type.scalar) {
    case 'string':
      return typeof value === 'string' ? { value } : mismatch(value, type.goType);
    case 'boolean':
      return typeof value === 'boolean' ? { value } : mismatch(value, type.goType);
    case 'number':
      return typeof value === 'number' ? { value } : mismatch(value, type.goType);
    case 'int32':
    case 'int64':
      return readInteger(value, type.scalar);
    case 'int-or-string':
      return typeof value === 'string' ? { value } : readInteger(value, 'int32');
    case 'bytes':
      return typeof value === 'string' ? readBase64(value) : mismatch(value, type.goType);
    case 'quantity':
      return readQuantity(value);
    case 'duration':
      return typeof value === 'string' ? readDuration(value) : mismatch(value, 'string');
    case 'time':
    case 'micro-time':
      return typeof value === 'string' ? readTime(value, type.scalar) : mismatch(value, 'string');
  }
}

function mismatch(value: unknown, goType: string): Scalar {
  return { mismatch: jsonTypeName(value), goType };
}

const LIMITS = { int32: 2 ** 31, int64: 2 ** 63 } as const;

function readInteger(value: unknown, scalar: 'int32' | 'int64'): Scalar {
  if (typeof value !== 'number') return mismatch(value, scalar);
  const limit = LIMITS[scalar];
  const fits = Number.isInteger(value) && value >= -limit && value < limit;
  return fits ? { value } : { mismatch: `number ${value}`, goType: scalar };
}

function readBase64(text: string): Scalar {
  const data = text.replace(/[\r\n]/g, '');
  const good = /^[A-Za-z0-9+/]*/.exec(data)?.[0].length ?? 0;
  const padding = data.slice(good);
  const whole = (good + padding.length) % 4 === 0 && good % 4 !== 1;
  if (/^={0,2}$/.test(padding) && whole) return { value: text };
  const at = padding === '' ? data.length - (good % 4) : good;
  return { error: `illegal base64 data at input byte ${at}` };
}

const QUANTITY = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+|[EPTGMK]i|[numkMGTPE])?$/;

/** The text is checked and kept: the API server brings it to its canonical form when it fills in defaults. */
function readQuantity(value: unknown): Scalar {
  const text = typeof value === 'number' ? String(value) : value;
  if (typeof text === 'string' && QUANTITY.test(text.trim())) return { value: text.trim() };
  return { error: "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'" };
}

const DURATION = /^[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/;

function readDuration(text: string): Scalar {
  return DURATION.test(text) ? { value: text } : { error: `time: invalid duration ${quote(text)}` };
}
