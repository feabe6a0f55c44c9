import { createHash, createPublicKey, randomBytes, sign, type KeyObject, type X509Certificate } from 'node:crypto';
import forge from 'node-forge';
import * as der from './der.ts';

const { oids } = forge.pki;
/** ecdsa-with-SHA256, of which forge does not know the number. */
const ECDSA_WITH_SHA256 = '1.2.840.10045.4.3.2';

/** Who a certificate is for, or from. */
export interface DistinguishedName {
  readonly organizations?: readonly string[];
  readonly commonName: string;
}

export interface CertificateRequest {
  readonly subject: DistinguishedName;
  readonly issuer: DistinguishedName;
  readonly subjectKey: KeyObject;
  /** The private key of the issuer. */
  readonly issuerKey: KeyObject;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly extensions: readonly Extension[];
}

export interface Extension {
  readonly id: string;
  readonly critical: boolean;
  readonly value: der.Node;
}

/**
 * Makes and signs an X.509 certificate, as PEM. Keys are EC keys on P-256: made in a millisecond where RSA takes a good
 * part of a second, and their handshakes cost a tenth. Forge signs with RSA only, so it writes the ASN.1 and
 * node:crypto signs.
 * @see https://www.rfc-editor.org/rfc/rfc5280#section-4.1
 */
export function issueCertificate(request: CertificateRequest): string {
  const algorithm = der.sequence(der.oid(ECDSA_WITH_SHA256));
  const body = der.sequence(
    der.tagged(0, der.integer(2)),
    der.integer(serialNumber()),
    algorithm,
    nameOf(request.issuer),
    der.sequence(der.time(request.notBefore), der.time(request.notAfter)),
    nameOf(request.subject),
    der.decode(publicKeyInfo(request.subjectKey)),
    der.tagged(3, der.sequence(...[...identifiersOf(request), ...request.extensions].map(printExtension))),
  );
  const signature = sign('sha256', der.encode(body), request.issuerKey);
  return pem(der.encode(der.sequence(body, algorithm, der.bits(signature))));
}

/** What the key of an authority may do: sign certificates that are no authorities themselves. */
export function authorityExtensions(): Extension[] {
  return [
    { id: oid('basicConstraints'), critical: true, value: der.sequence(der.boolean(true), der.integer(0)) },
    // keyCertSign and cRLSign
    { id: oid('keyUsage'), critical: true, value: der.bits(Buffer.of(0b0000_0110), 1) },
  ];
}

/** What the key of a server or a client may do: prove who it is. */
export function leafExtensions(usage: 'serverAuth' | 'clientAuth'): Extension[] {
  return [
    { id: oid('basicConstraints'), critical: true, value: der.sequence() },
    // digitalSignature
    { id: oid('keyUsage'), critical: true, value: der.bits(Buffer.of(0b1000_0000), 7) },
    { id: oid('extKeyUsage'), critical: false, value: der.sequence(der.oid(oid(usage))) },
  ];
}

/** The names under which a server is reached. Throws a RangeError if an address is none. */
export function alternativeNames(dnsNames: readonly string[], ipAddresses: readonly string[]): Extension {
  const names = dnsNames.map((name) => der.taggedBytes(2, Buffer.from(name, 'latin1')));
  const addresses = ipAddresses.map((address) => der.taggedBytes(7, der.addressBytes(address)));
  return { id: oid('subjectAltName'), critical: false, value: der.sequence(...names, ...addresses) };
}

/** True if the certificate was made for exactly that subject. */
export function hasSubject(cert: X509Certificate, subject: DistinguishedName): boolean {
  return cert.raw.includes(der.encode(nameOf(subject)));
}

function identifiersOf({ subjectKey, issuerKey }: CertificateRequest): Extension[] {
  const issuer = der.sequence(der.taggedBytes(0, keyIdentifier(issuerKey)));
  return [
    { id: oid('subjectKeyIdentifier'), critical: false, value: der.octets(keyIdentifier(subjectKey)) },
    { id: oid('authorityKeyIdentifier'), critical: false, value: issuer },
  ];
}

function printExtension({ id, critical, value }: Extension): der.Node {
  return der.sequence(der.oid(id), ...(critical ? [der.boolean(true)] : []), der.octets(der.encode(value)));
}

function nameOf({ organizations = [], commonName }: DistinguishedName): der.Node {
  const parts = organizations.map((name) => [oid('organizationName'), name] as const);
  return der.distinguishedName([...parts, [oid('commonName'), commonName]]);
}

/** Any bytes that tell keys apart; the leftmost 160 bits of SHA-256 as RFC 7093 proposes. */
function keyIdentifier(key: KeyObject): Buffer {
  return createHash('sha256').update(publicKeyInfo(key)).digest().subarray(0, 20);
}

function publicKeyInfo(key: KeyObject): Buffer {
  return (key.type === 'private' ? createPublicKey(key) : key).export({ type: 'spki', format: 'der' });
}

/** 16 random bytes that read as a positive number without a leading zero. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes;
}

function oid(name: string): string {
  const id = oids[name];
  if (id === undefined) throw new RangeError(`unknown object identifier: ${name}`);
  return id;
}

function pem(bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
