/** Issues X.509 certificates: authorities, serving certificates and client certificates. */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  type KeyObject,
  type X509Certificate,
} from 'node:crypto';
import forge from 'node-forge';
import type { KeyPair } from './certificate-pair.ts';

/** The validity of a new certificate. */
export interface Validity {
  readonly now: Date;
  readonly days: number;
}

export interface ServerNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** The user that a client certificate identifies to the API server. */
export interface ClientIdentity {
  readonly username: string;
  readonly groups: readonly string[];
}

/** The subject or issuer of a certificate. */
export interface DistinguishedName {
  readonly organizations?: readonly string[];
  readonly commonName: string;
}

/** Certificates are backdated by an hour, since clocks differ. */
const BACKDATE_MS = 60 * 60 * 1000;
const DAY_MS = 24 * 60 * 60 * 1000;

/** The subject of every authority that Portcullis creates. */
export const AUTHORITY_NAME: DistinguishedName = { commonName: 'portcullis-ca' };

/** Creates a self-signed certificate authority. */
export function createAuthority(validity: Validity): KeyPair {
  return issue({ subject: AUTHORITY_NAME, extensions: authorityExtensions(), validity });
}

/** Creates a serving certificate for the names. Throws a RangeError for an invalid IP address. */
export function createServing(authority: KeyPair, names: ServerNames, validity: Validity): KeyPair {
  const extensions = [...leafExtensions('serverAuth'), subjectAltName(names)];
  return issue({ subject: { commonName: 'portcullis' }, issuer: issuer(authority), extensions, validity });
}

/** Creates a client certificate. */
export function createClient(authority: KeyPair, client: ClientIdentity, validity: Validity): KeyPair {
  const extensions = leafExtensions('clientAuth');
  return issue({ subject: clientName(client), issuer: issuer(authority), extensions, validity });
}

/** API servers read the user name from the common name and the groups from the organizations. */
export function clientName({ username, groups }: ClientIdentity): DistinguishedName {
  return { commonName: username, organizations: groups };
}

/** Reports whether the certificate has exactly that subject. */
export function hasSubject(cert: X509Certificate, subject: DistinguishedName): boolean {
  return cert.raw.includes(encode(distinguishedName(subject)));
}

function issuer({ key }: KeyPair): Issuer {
  return { name: AUTHORITY_NAME, key };
}

interface Issuer {
  readonly name: DistinguishedName;
  /** PEM. */
  readonly key: string;
}

export interface CertificateRequest {
  readonly subject: DistinguishedName;
  /** Absent for a self-signed certificate. */
  readonly issuer?: Issuer | undefined;
  readonly extensions: readonly Extension[];
  readonly validity: Validity;
}

export interface Extension {
  readonly id: string;
  readonly critical: boolean;
  readonly value: Asn1;
}

/** ecdsa-with-SHA256; forge does not define this object identifier. */
const ECDSA_WITH_SHA256 = '1.2.840.10045.4.3.2';

/**
 * Creates a P-256 key and a certificate for it. EC keys are generated in a millisecond, and their handshakes cost a tenth
 * of those of RSA keys. forge signs with RSA only; it encodes the ASN.1, and node:crypto signs.
 * @see https://www.rfc-editor.org/rfc/rfc5280#section-4.1
 */
export function issue({ subject, issuer, extensions, validity: { now, days } }: CertificateRequest): KeyPair {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const issuerKey = issuer ? createPrivateKey(issuer.key) : privateKey;
  const algorithm = sequence(oid(ECDSA_WITH_SHA256));
  const body = sequence(
    tagged(0, integer(Buffer.of(2))),
    integer(serialNumber()),
    algorithm,
    distinguishedName(issuer?.name ?? subject),
    sequence(time(new Date(now.getTime() - BACKDATE_MS)), time(new Date(now.getTime() + days * DAY_MS))),
    distinguishedName(subject),
    forge.asn1.fromDer(binary(publicKeyInfo(privateKey))),
    tagged(3, sequence(...[...keyIdentifiers(privateKey, issuerKey), ...extensions].map(encodeExtension))),
  );
  const signature = sign('sha256', encode(body), issuerKey);
  return {
    cert: pem(encode(sequence(body, algorithm, bits(signature)))),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

/** The extensions of an authority that issues leaf certificates only. */
export function authorityExtensions(): Extension[] {
  return [
    extension('basicConstraints', sequence(boolean(true), integer(Buffer.of(0))), true),
    // keyCertSign and cRLSign
    extension('keyUsage', bits(Buffer.of(0b0000_0110), 1), true),
  ];
}

/** The extensions of a certificate for a server or a client. */
export function leafExtensions(usage: 'serverAuth' | 'clientAuth'): Extension[] {
  return [
    extension('basicConstraints', sequence(), true),
    // digitalSignature
    extension('keyUsage', bits(Buffer.of(0b1000_0000), 7), true),
    extension('extKeyUsage', sequence(oid(namedOid(usage)))),
  ];
}

/** Throws a RangeError for an invalid IP address. */
export function subjectAltName({ dnsNames, ipAddresses }: ServerNames): Extension {
  const names = dnsNames.map((name) => taggedBytes(2, Buffer.from(name, 'latin1')));
  const addresses = ipAddresses.map((address) => taggedBytes(7, addressBytes(address)));
  return extension('subjectAltName', sequence(...names, ...addresses));
}

function keyIdentifiers(subjectKey: KeyObject, issuerKey: KeyObject): Extension[] {
  return [
    extension('subjectKeyIdentifier', octets(keyIdentifier(subjectKey))),
    extension('authorityKeyIdentifier', sequence(taggedBytes(0, keyIdentifier(issuerKey)))),
  ];
}

function extension(name: string, value: Asn1, critical = false): Extension {
  return { id: namedOid(name), critical, value };
}

function encodeExtension({ id, critical, value }: Extension): Asn1 {
  return sequence(oid(id), ...(critical ? [boolean(true)] : []), octets(encode(value)));
}

/** The leftmost 160 bits of the SHA-256 of the key, as RFC 7093 proposes. */
function keyIdentifier(key: KeyObject): Buffer {
  return createHash('sha256').update(publicKeyInfo(key)).digest().subarray(0, 20);
}

function publicKeyInfo(privateKey: KeyObject): Buffer {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
}

/** Returns 16 random bytes that encode a positive integer without a leading zero. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes;
}

function pem(bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

// ASN.1, DER encoding

type Asn1 = forge.asn1.Asn1;
const { Class, Type } = forge.asn1;

/** forge declares universal types only; context-specific tags are plain numbers. */
const create: (tagClass: number, type: number, constructed: boolean, value: string | Asn1[]) => Asn1 =
  forge.asn1.create;

function sequence(...items: readonly Asn1[]): Asn1 {
  return create(Class.UNIVERSAL, Type.SEQUENCE, true, [...items]);
}

function tagged(tag: number, item: Asn1): Asn1 {
  return create(Class.CONTEXT_SPECIFIC, tag, true, [item]);
}

function taggedBytes(tag: number, bytes: Buffer): Asn1 {
  return create(Class.CONTEXT_SPECIFIC, tag, false, binary(bytes));
}

/** Takes big-endian bytes whose first bit is 0. */
function integer(bytes: Buffer): Asn1 {
  return create(Class.UNIVERSAL, Type.INTEGER, false, binary(bytes));
}

function boolean(value: boolean): Asn1 {
  return create(Class.UNIVERSAL, Type.BOOLEAN, false, binary(Buffer.of(value ? 0xff : 0)));
}

function octets(bytes: Buffer): Asn1 {
  return create(Class.UNIVERSAL, Type.OCTETSTRING, false, binary(bytes));
}

/** Encodes a bit string whose last `unused` bits are padding. */
function bits(bytes: Buffer, unused = 0): Asn1 {
  return create(Class.UNIVERSAL, Type.BITSTRING, false, binary(Buffer.concat([Buffer.of(unused), bytes])));
}

function oid(id: string): Asn1 {
  return create(Class.UNIVERSAL, Type.OID, false, forge.asn1.oidToDer(id).getBytes());
}

function namedOid(name: string): string {
  const id = forge.pki.oids[name];
  if (id === undefined) throw new RangeError(`unknown object identifier: ${name}`);
  return id;
}

/** RFC 5280 requires UTCTime through the year 2049. */
function time(date: Date): Asn1 {
  return date.getUTCFullYear() < 2050
    ? create(Class.UNIVERSAL, Type.UTCTIME, false, forge.asn1.dateToUtcTime(date))
    : create(Class.UNIVERSAL, Type.GENERALIZEDTIME, false, forge.asn1.dateToGeneralizedTime(date));
}

function distinguishedName({ organizations = [], commonName }: DistinguishedName): Asn1 {
  const attributes = [
    ...organizations.map((name) => ['organizationName', name] as const),
    ['commonName', commonName] as const,
  ];
  const parts = attributes.map(([name, text]) => {
    const value = create(Class.UNIVERSAL, Type.UTF8, false, binary(Buffer.from(text)));
    return create(Class.UNIVERSAL, Type.SET, true, [sequence(oid(namedOid(name)), value)]);
  });
  return sequence(...parts);
}

function encode(node: Asn1): Buffer {
  return Buffer.from(forge.asn1.toDer(node).getBytes(), 'latin1');
}

/** Returns the bytes of an IPv4 or IPv6 address. */
function addressBytes(address: string): Buffer {
  const bytes = (forge.util as unknown as ForgeIpReader).bytesFromIP(address);
  if (bytes === null) throw new RangeError(`not an IP address: ${address}`);
  return Buffer.from(bytes, 'latin1');
}

/** A part of forge that its type declarations lack. */
interface ForgeIpReader {
  bytesFromIP(address: string): string | null;
}

/** forge represents bytes as the characters of a string. */
function binary(bytes: Buffer): string {
  return bytes.toString('latin1');
}
