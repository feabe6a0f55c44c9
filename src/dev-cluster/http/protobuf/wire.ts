/**
 * The wire format of protobuf.
 * @see https://protobuf.dev/programming-guides/encoding/
 */

/** One field as it stands on the wire. */
export type WireField =
  | { readonly number: number; readonly kind: 'varint'; readonly value: bigint }
  | { readonly number: number; readonly kind: 'bytes'; readonly value: Buffer }
  | { readonly number: number; readonly kind: 'fixed'; readonly value: Buffer };

const VARINT = 0;
const FIXED_64 = 1;
const BYTES = 2;
const FIXED_32 = 5;

/** Reads the fields of a message in order. Throws a RangeError where it is broken. */
export function readFields(message: Buffer): WireField[] {
  const fields: WireField[] = [];
  const cursor = { at: 0 };
  while (cursor.at < message.length) {
    const tag = Number(readVarint(message, cursor));
    const number = Math.floor(tag / 8);
    const type = tag % 8;
    if (type === VARINT) fields.push({ number, kind: 'varint', value: readVarint(message, cursor) });
    else if (type === FIXED_64) fields.push({ number, kind: 'fixed', value: take(message, cursor, 8) });
    else if (type === FIXED_32) fields.push({ number, kind: 'fixed', value: take(message, cursor, 4) });
    else if (type === BYTES) {
      const length = Number(readVarint(message, cursor));
      fields.push({ number, kind: 'bytes', value: take(message, cursor, length) });
    } else throw new RangeError(`proto: illegal wireType ${type}`);
  }
  return fields;
}

/** Reads numbers that stand one behind the other. */
export function readVarints(bytes: Buffer): bigint[] {
  const cursor = { at: 0 };
  const values: bigint[] = [];
  while (cursor.at < bytes.length) values.push(readVarint(bytes, cursor));
  return values;
}

function readVarint(bytes: Buffer, cursor: { at: number }): bigint {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = bytes[cursor.at];
    if (byte === undefined) throw new RangeError('unexpected EOF');
    cursor.at += 1;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return BigInt.asIntN(64, value);
  }
  throw new RangeError('proto: integer overflow');
}

function take(bytes: Buffer, cursor: { at: number }, length: number): Buffer {
  const end = cursor.at + length;
  if (length < 0 || end > bytes.length) throw new RangeError('unexpected EOF');
  const taken = bytes.subarray(cursor.at, end);
  cursor.at = end;
  return taken;
}
