import { ApiError, badRequest } from '../../../kube/status.ts';
import type { Field, FieldType, ObjectType, ScalarKind, Schemas } from '../../fields/index.ts';
import type { ApiObject } from '../../types.ts';
import { readNumbers, type Numbered } from './numbers/index.ts';
import { readFields, readVarints, type WireField } from './wire.ts';

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

/** Stands before every object: kubectl sends objects of built-in kinds in an envelope that says what they are. */
const MAGIC = Buffer.from('6b387300', 'hex');
const TYPE_META = 1;
const RAW = 2;

/**
 * Makes the function that reads an object in protobuf, which kubectl sends for built-in kinds, and returns what it would
 * be in JSON. Throws ApiError 400.
 * @see https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
 */
export function createProtobufDecoder(schemas: Schemas): (body: Buffer) => ApiObject {
  const numbers = readNumbers();
  return (body) => {
    try {
      return decodeEnvelope(body, schemas, numbers);
    } catch (error) {
      if (error instanceof RangeError) throw new ApiError(badRequest(error.message), { cause: error });
      throw error;
    }
  };
}

type Numbers = ReadonlyMap<string, ReadonlyMap<number, Numbered>>;

function decodeEnvelope(body: Buffer, schemas: Schemas, numbers: Numbers): ApiObject {
  if (!body.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new RangeError('provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]');
  }
  const envelope = readFields(body.subarray(MAGIC.length));
  const meta = readFields(bytesOf(envelope, TYPE_META));
  const apiVersion = bytesOf(meta, 1).toString();
  const kind = bytesOf(meta, 2).toString();
  const [version = '', group = ''] = apiVersion.split('/').reverse();
  const type = schemas.typeOf({ group, version, kind });
  if (type?.name === undefined || !numbers.has(type.name)) {
    throw new RangeError(`no kind "${kind}" is registered for version "${apiVersion}" in protobuf`);
  }
  return { ...decodeMessage(bytesOf(envelope, RAW), type, numbers), apiVersion, kind };
}

function bytesOf(fields: readonly WireField[], number: number): Buffer {
  const found = fields.findLast((field) => field.number === number);
  return found?.kind === 'bytes' ? found.value : Buffer.alloc(0);
}

function decodeMessage(message: Buffer, type: ObjectType, numbers: Numbers): Record<string, unknown> {
  const object: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  const known = numbers.get(type.name ?? '') ?? new Map<number, Numbered>();
  collect(object, message, known, type, numbers);
  return object;
}

function collect(
  object: Record<string, unknown>,
  message: Buffer,
  known: ReadonlyMap<number, Numbered>,
  type: ObjectType,
  numbers: Numbers,
): void {
  for (const wire of readFields(message)) {
    const numbered = known.get(wire.number);
    if (!numbered) continue;
    if ('embedded' in numbered) {
      if (wire.kind === 'bytes') collect(object, wire.value, numbered.embedded, type, numbers);
      continue;
    }
    const field = type.fields.get(numbered.field);
    if (field) addField(object, numbered.field, field, wire, numbers);
  }
}

/** Repeated fields gather in lists and maps. What Go's JSON would leave out is left out. */
function addField(
  object: Record<string, unknown>,
  name: string,
  field: Field,
  wire: WireField,
  numbers: Numbers,
): void {
  const { type } = field;
  if (type.kind === 'list') {
    const list = (object[name] ??= []) as unknown[];
    list.push(...decodeItems(wire, type.items, numbers));
  } else if (type.kind === 'object' && type.additional && type.fields.size === 0) {
    const map = (object[name] ??= Object.create(null)) as Record<string, unknown>;
    const [key, value] = decodeEntry(wire, type.additional, numbers);
    map[key] = value;
  } else {
    const value = decodeValue(wire, type, numbers);
    if (value !== undefined && (field.pointer || field.always || !isZero(value))) object[name] = value;
  }
}

function isZero(value: unknown): boolean {
  return value === '' || value === 0 || value === false;
}

/** Numbers may stand one behind the other in one field. */
function decodeItems(wire: WireField, items: FieldType, numbers: Numbers): unknown[] {
  const packed = wire.kind === 'bytes' && items.kind === 'scalar' && isVarint(items.scalar);
  if (packed) return readVarints(wire.value).map((value) => decodeVarint(value, items.scalar));
  return [decodeValue(wire, items, numbers)];
}

function decodeEntry(wire: WireField, values: FieldType, numbers: Numbers): [string, unknown] {
  const fields = wire.kind === 'bytes' ? readFields(wire.value) : [];
  const value = fields.find(({ number }) => number === 2) ?? { number: 2, kind: 'bytes', value: Buffer.alloc(0) };
  if (values.kind !== 'list') return [bytesOf(fields, 1).toString(), decodeValue(value, values, numbers)];
  // Lists as values are messages of their own.
  const items = value.kind === 'bytes' ? readFields(value.value) : [];
  return [bytesOf(fields, 1).toString(), items.flatMap((item) => decodeItems(item, values.items, numbers))];
}

function decodeValue(wire: WireField, type: FieldType, numbers: Numbers): unknown {
  if (type.kind === 'scalar') return decodeScalar(wire, type.scalar);
  if (wire.kind !== 'bytes') return undefined;
  if (type.kind === 'object') return decodeMessage(wire.value, type, numbers);
  // Raw JSON in a message of its own.
  const raw = bytesOf(readFields(wire.value), 1).toString();
  return type.kind === 'any' && raw !== '' ? parse(raw) : undefined;
}

function parse(raw: string): unknown {
  try {
    return JSON.parse(raw);
  } catch {
    throw new RangeError('raw JSON in a protobuf message is broken');
  }
}

function isVarint(scalar: ScalarKind): boolean {
  return scalar === 'boolean' || scalar === 'int32' || scalar === 'int64';
}

function decodeScalar(wire: WireField, scalar: ScalarKind): unknown {
  if (wire.kind === 'varint') return decodeVarint(wire.value, scalar);
  if (wire.kind === 'fixed') return wire.value.length === 8 ? wire.value.readDoubleLE() : wire.value.readFloatLE();
  switch (scalar) {
    case 'bytes':
      return wire.value.toString('base64');
    case 'quantity':
      return bytesOf(readFields(wire.value), 1).toString() || '0';
    case 'int-or-string':
      return intOrString(readFields(wire.value));
    case 'time':
      return timeOf(readFields(wire.value), (time) => time.replace(/\.\d+Z$/, 'Z'));
    case 'micro-time':
      return timeOf(readFields(wire.value), (time) => time);
    default:
      return wire.value.toString();
  }
}

function decodeVarint(value: bigint, scalar: ScalarKind): unknown {
  return scalar === 'boolean' ? value !== 0n : Number(value);
}

function varintOf(fields: readonly WireField[], number: number): number {
  const found = fields.findLast((field) => field.number === number);
  return found?.kind === 'varint' ? Number(found.value) : 0;
}

function intOrString(fields: readonly WireField[]): unknown {
  return varintOf(fields, 1) === 0
    ? Number(BigInt.asIntN(32, BigInt(varintOf(fields, 2))))
    : bytesOf(fields, 3).toString();
}

/** A message without seconds is no time at all, which is how an unset one is sent. */
function timeOf(fields: readonly WireField[], print: (time: string) => string): string | undefined {
  if (fields.length === 0) return undefined;
  const micros = String(Math.trunc(varintOf(fields, 2) / 1000)).padStart(6, '0');
  const seconds = new Date(varintOf(fields, 1) * 1000).toISOString().replace(/\.\d+Z$/, '');
  return print(`${seconds}.${micros}Z`);
}
