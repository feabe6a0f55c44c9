import forge from 'node-forge';

/** A node of an ASN.1 tree. */
export type Node = forge.asn1.Asn1;

const { Class, Type } = forge.asn1;

/** Tags are numbers: those of their own are not in forge's list of types. */
const create: (tagClass: number, type: number, constructed: boolean, value: string | Node[]) => Node =
  forge.asn1.create;

export function sequence(...items: readonly Node[]): Node {
  return create(Class.UNIVERSAL, Type.SEQUENCE, true, [...items]);
}

/** A node with a tag of its own, holding one other. */
export function tagged(tag: number, item: Node): Node {
  return create(Class.CONTEXT_SPECIFIC, tag, true, [item]);
}

/** Bytes under a tag of their own. */
export function taggedBytes(tag: number, bytes: Buffer): Node {
  return create(Class.CONTEXT_SPECIFIC, tag, false, binary(bytes));
}

/** A number of up to 127, or big-endian bytes whose first bit is 0. */
export function integer(value: number | Buffer): Node {
  return create(Class.UNIVERSAL, Type.INTEGER, false, binary(typeof value === 'number' ? Buffer.of(value) : value));
}

export function boolean(value: boolean): Node {
  return create(Class.UNIVERSAL, Type.BOOLEAN, false, binary(Buffer.of(value ? 0xff : 0)));
}

export function octets(bytes: Buffer): Node {
  return create(Class.UNIVERSAL, Type.OCTETSTRING, false, binary(bytes));
}

/** Bits, of which the last `unused` ones do not count. */
export function bits(bytes: Buffer, unused = 0): Node {
  return create(Class.UNIVERSAL, Type.BITSTRING, false, binary(Buffer.concat([Buffer.of(unused), bytes])));
}

/** An object identifier in dotted form. */
export function oid(id: string): Node {
  return create(Class.UNIVERSAL, Type.OID, false, forge.asn1.oidToDer(id).getBytes());
}

/** A point in time; RFC 5280 wants the short form until 2049. */
export function time(date: Date): Node {
  return date.getUTCFullYear() < 2050
    ? create(Class.UNIVERSAL, Type.UTCTIME, false, forge.asn1.dateToUtcTime(date))
    : create(Class.UNIVERSAL, Type.GENERALIZEDTIME, false, forge.asn1.dateToGeneralizedTime(date));
}

/** Attributes of a distinguished name, each a part of its own, in order. */
export function distinguishedName(attributes: readonly (readonly [id: string, text: string])[]): Node {
  const parts = attributes.map(([id, text]) => {
    const value = create(Class.UNIVERSAL, Type.UTF8, false, binary(Buffer.from(text)));
    return create(Class.UNIVERSAL, Type.SET, true, [sequence(oid(id), value)]);
  });
  return sequence(...parts);
}

export function encode(node: Node): Buffer {
  return Buffer.from(forge.asn1.toDer(node).getBytes(), 'latin1');
}

export function decode(der: Buffer): Node {
  return forge.asn1.fromDer(binary(der));
}

/** The bytes of an IPv4 or IPv6 address. Throws a RangeError for another text. */
export function addressBytes(address: string): Buffer {
  const bytes = (forge.util as unknown as AddressReader).bytesFromIP(address);
  if (bytes === null) throw new RangeError(`not an IP address: ${address}`);
  return Buffer.from(bytes, 'latin1');
}

/** Part of forge that its declarations leave out. */
interface AddressReader {
  bytesFromIP(address: string): string | null;
}

/** Forge keeps bytes as the characters of a text. */
function binary(bytes: Buffer): string {
  return bytes.toString('latin1');
}
