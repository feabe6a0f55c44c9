import { ApiError, badRequest } from '../kube/status.ts';
import protobufMessages from './protobuf-messages.json' with { type: 'json' };
import type { ApiObject } from './types.ts';

/**
 * Media type of the objects that `kubectl create` and `kubectl auth` send. The server must decode it, because clients
 * generated since Kubernetes 1.32 do not fall back to JSON. All responses are JSON.
 * @see https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
 */
export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

interface Field {
  readonly name: string;
  readonly type: string;
  readonly repeated: '*' | '{}' | undefined;
  readonly omitsZero: boolean;
}

/**
 * Fields of each message in the order of their numbers, for the kinds that kubectl creates. `-` marks a field that the
 * server ignores, such as `status`. `_` marks a field that the decoder does not support. A field is a string unless it
 * has a suffix, which is `#` for an integer, `?` for a boolean, or `:Message`, followed by `*` for a list or `{}` for a
 * map. `!` omits zero values, as Go does for non-pointer fields. `+Message` is embedded and has no separate JSON field.
 */
const messages = new Map(Object.entries(protobufMessages).map(([name, fields]) => [name, fields.map(parseField)]));

/**
 * Parses the description of a field. Returns `undefined` for an ignored field. A field without a name is an embedded
 * message.
 */
function parseField(text: string): Field | 'unsupported' | undefined {
  if (text === '-' || text === '_') return text === '-' ? undefined : 'unsupported';
  const [, name = '', kind = '', repeated, zero] = /^(\w*)(#|\?|[:+]\w+)?(\*|\{\})?(!)?$/.exec(text) ?? [];
  return { name, type: kind.replace(/[:+]/, ''), repeated: repeated as Field['repeated'], omitsZero: zero === '!' };
}

const MAGIC = Buffer.from('k8s\0');

/** Decodes an object. Throws ApiError 400 for kinds and fields that are not in the table. */
export function decodeProtobuf(body: Buffer): ApiObject {
  try {
    if (!body.subarray(0, MAGIC.length).equals(MAGIC)) throw new RangeError('the body is not a protobuf message');
    const envelope = readFields(body.subarray(MAGIC.length));
    const type = readFields(bytesAt(envelope, 1));
    const apiVersion = bytesAt(type, 1).toString();
    const kind = bytesAt(type, 2).toString();
    return { apiVersion, kind, ...decodeMessage(bytesAt(envelope, 2), kind) };
  } catch (error) {
    if (error instanceof RangeError) throw new ApiError(badRequest(error.message), { cause: error });
    throw error;
  }
}

function decodeMessage(bytes: Buffer, message: string): Record<string, unknown> {
  const fields = messages.get(message);
  if (!fields) throw new RangeError(`the development cluster does not decode ${message} from protobuf: send JSON`);
  const object: Record<string, unknown> = {};
  for (const { number, value } of readFields(bytes)) {
    const field = number > fields.length ? 'unsupported' : fields[number - 1];
    const isEmpty = typeof value === 'bigint' ? value === 0n : value.length === 0;
    if (field !== 'unsupported') addValue(object, field, value);
    else if (!isEmpty) throw new RangeError(`field ${number} of ${message} is not supported in protobuf: send JSON`);
  }
  return object;
}

function addValue(object: Record<string, unknown>, field: Field | undefined, value: Wire): void {
  if (!field) return;
  const { name, type, repeated, omitsZero } = field;
  if (repeated === '*') object[name] = [...((object[name] as unknown[] | undefined) ?? []), decodeValue(value, type)];
  else if (repeated === '{}') {
    const entry = readFields(value as Buffer);
    const decoded = decodeValue(bytesAt(entry, 2), type);
    object[name] = { ...(object[name] as object | undefined), [bytesAt(entry, 1).toString()]: decoded };
  } else {
    const decoded = decodeValue(value, type);
    if (name === '') Object.assign(object, decoded);
    const isZero = name === '' || decoded === '' || (omitsZero && (decoded === 0 || decoded === false));
    if (!isZero) object[name] = decoded;
  }
}

function decodeValue(value: Wire, type: string): unknown {
  if (typeof value === 'bigint') return type === '?' ? value !== 0n : Number(value);
  switch (type) {
    case '':
      return value.toString();
    case 'Bytes':
      return value.toString('base64');
    case 'Quantity':
      return bytesAt(readFields(value), 1).toString();
    case 'IntOrString': {
      const [, number, text] = [1, 2, 3].map((at) => readFields(value).find((field) => field.number === at)?.value);
      return text instanceof Buffer && text.length > 0 ? text.toString() : Number(number ?? 0);
    }
    default:
      return decodeMessage(value, type);
  }
}

type Wire = bigint | Buffer;

interface WireField {
  readonly number: number;
  readonly value: Wire;
}

function bytesAt(fields: readonly WireField[], number: number): Buffer {
  const value = fields.findLast((field) => field.number === number)?.value;
  return value instanceof Buffer ? value : Buffer.alloc(0);
}

/**
 * Splits a message into its fields. Throws a RangeError for a malformed message.
 * @see https://protobuf.dev/programming-guides/encoding/
 */
function readFields(message: Buffer): WireField[] {
  const fields: WireField[] = [];
  let at = 0;
  const readVarint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = message[at++];
      if (byte === undefined) break;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw new RangeError('malformed protobuf message');
  };
  while (at < message.length) {
    const tag = Number(readVarint());
    const [number, wireType] = [tag >> 3, tag & 7];
    if (wireType === 0) fields.push({ number, value: readVarint() });
    else {
      const end = wireType === 2 ? Number(readVarint()) + at : -1;
      if (end < at || end > message.length) throw new RangeError('malformed protobuf message');
      fields.push({ number, value: message.subarray(at, end) });
      at = end;
    }
  }
  return fields;
}
