import { quote } from '../../../kube/quote.ts';
import { jsonTypeOf } from '../../../kube/unmarshal-error.ts';
import type { ScalarType } from './types.ts';

/** A scalar as it is kept, a complaint in Go's words, or the sign that the JSON value is of a wrong type altogether. */
export type Scalar = { readonly value: unknown } | { readonly error: string } | { readonly mismatch: string };

/** Reads a JSON value as a scalar of that type. */
export function readScalar(type: ScalarType, value: unknown): Scalar {
  switch (type.scalar) {
    case 'string':
      return typeof value === 'string' ? { value } : mismatch(value);
    case 'boolean':
      return typeof value === 'boolean' ? { value } : mismatch(value);
    case 'number':
      return typeof value === 'number' ? { value } : mismatch(value);
    case 'int32':
      return readInteger(value, 2 ** 31);
    case 'int64':
      return readInteger(value, 2 ** 63);
    case 'int-or-string':
      return typeof value === 'string' ? { value } : withoutField(readInteger(value, 2 ** 31), value, 'int32');
    case 'bytes':
      return typeof value === 'string' ? readBase64(value) : mismatch(value);
    case 'quantity':
      return readQuantity(value);
    case 'duration':
      return typeof value === 'string' ? readDuration(value) : withoutField(mismatch(value), value, 'string');
    case 'time':
    case 'micro-time':
      return typeof value === 'string' ? readTime(value, type.scalar) : withoutField(mismatch(value), value, 'string');
  }
}

function mismatch(value: unknown): Scalar {
  return { mismatch: jsonTypeOf(value) };
}

function readInteger(value: unknown, limit: number): Scalar {
  if (typeof value !== 'number') return mismatch(value);
  return Number.isInteger(value) && value >= -limit && value < limit ? { value } : { mismatch: `number ${value}` };
}

/** Types with a decoder of their own do not say in which field they are. */
function withoutField(result: Scalar, value: unknown, goType: string): Scalar {
  if (!('mismatch' in result)) return result;
  return { error: `json: cannot unmarshal ${jsonTypeOf(value)} into Go value of type ${goType}` };
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

const TIME = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:[.,](\d+))?(Z|[+-]\d{2}:\d{2})$/;

/** Times are kept in UTC, in whole seconds or in microseconds. */
function readTime(text: string, scalar: 'time' | 'micro-time'): Scalar {
  const match = TIME.exec(text);
  const fraction = match?.[7] ?? '';
  const date = new Date(text);
  if (!match || Number.isNaN(date.getTime())) return timeError(text, scalar, text, '2006');
  if (scalar === 'time') return { value: `${date.toISOString().slice(0, 19)}Z` };
  if (fraction.length !== 6) {
    const rest = text.slice(19);
    return timeError(text, scalar, rest, '.000000');
  }
  return { value: `${date.toISOString().slice(0, 19)}.${fraction}Z` };
}

const LAYOUTS = { time: '2006-01-02T15:04:05Z07:00', 'micro-time': '2006-01-02T15:04:05.000000Z07:00' } as const;

function timeError(text: string, scalar: 'time' | 'micro-time', rest: string, wanted: string): Scalar {
  return {
    error: `parsing time ${quote(text)} as ${quote(LAYOUTS[scalar])}: cannot parse ${quote(rest)} as ${quote(wanted)}`,
  };
}
