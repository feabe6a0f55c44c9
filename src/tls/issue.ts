/** Issues X.509 CA, serving and client certificates. */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  type X509Certificate,
} from 'node:crypto';
import { isIPv6 } from 'node:net';
import forge from 'node-forge';
import { DAY_MS } from '../kube/units.ts';
import type { KeyPair } from './certificate-pair.ts';

/** Validity period of a new certificate. */
interface Validity {
  readonly now: Date;
  readonly days: number;
}

export interface ServerNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** The user that a client certificate represents to the API server. */
export interface ClientIdentity {
  readonly username: string;
  readonly groups: readonly string[];
}

/** The subject or issuer of a certificate. */
interface DistinguishedName {
  readonly organizations?: readonly string[];
  readonly commonName: string;
}

/** Time by which certificates are backdated to allow for clock skew. */
const BACKDATE_MS = 60 * 60 * 1000;

/** Subject of all CAs that Portcullis creates. */
export const AUTHORITY_NAME: DistinguishedName = { commonName: 'portcullis-ca' };

/** Creates a self-signed CA. */
export function createAuthority(validity: Validity): KeyPair {
  return issue({ subject: AUTHORITY_NAME, extensions: authorityExtensions(), validity });
}

/** Creates a serving certificate for the given names. Throws an Error for an invalid IP address. */
export function createServing(authority: KeyPair, names: ServerNames, validity: Validity): KeyPair {
  const extensions = [...leafExtensions('serverAuth'), subjectAltName(names)];
  return issue({ subject: { commonName: 'portcullis' }, issuer: issuer(authority), extensions, validity });
}

/** Creates a client certificate. */
export function issueClient(authority: KeyPair, client: ClientIdentity, validity: Validity): KeyPair {
  const extensions = leafExtensions('clientAuth');
  return issue({ subject: clientName(client), issuer: issuer(authority), extensions, validity });
}

/**
 * Converts a user to a subject. API servers read the username from the common name and the groups from the
 * organizations.
 */
export function clientName({ username, groups }: ClientIdentity): DistinguishedName {
  return { commonName: username, organizations: groups };
}

/** Returns true if the subject or the issuer of the certificate is exactly the given name. */
export function hasSubject(cert: X509Certificate, subject: DistinguishedName): boolean {
  return cert.raw.includes(encode(distinguishedName(subject)));
}

function issuer({ key }: KeyPair): Issuer {
  return { name: AUTHORITY_NAME, key };
}

interface Issuer {
  readonly name: DistinguishedName;
  /** The private key in PEM. */
  readonly key: string;
}

interface CertificateRequest {
  readonly subject: DistinguishedName;
  /** Absent for a self-signed certificate. */
  readonly issuer?: Issuer | undefined;
  readonly extensions: readonly Extension[];
  readonly validity: Validity;
}

/** An extension in forge's format. Its other fields depend on the name. */
export type Extension = Readonly<Record<string, unknown>> & { readonly name: string };

/** X.509 version 3. It is encoded as 2, because the encoded versions start at 0. */
const VERSION_3 = Buffer.of(2);
/** Object identifier of ecdsa-with-SHA256, which forge does not define. */
const ECDSA_WITH_SHA256 = '1.2.840.10045.4.3.2';

/**
 * Creates a P-256 key and a certificate for it. Generating an EC key takes 1 ms, and a handshake costs a tenth of one
 * with RSA. forge only encodes the ASN.1, and node:crypto signs it, because forge can sign only with RSA.
 * @see https://www.rfc-editor.org/rfc/rfc5280#section-4.1
 */
export function issue({ subject, issuer, extensions, validity: { now, days } }: CertificateRequest): KeyPair {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const issuerKey = issuer ? createPrivateKey(issuer.key) : privateKey;
  const algorithm = sequence(oid(ECDSA_WITH_SHA256));
  const body = sequence(
    forge.asn1.create(Class.CONTEXT_SPECIFIC, Type.NONE, true, [primitive(Type.INTEGER, VERSION_3)]),
    primitive(Type.INTEGER, serialNumber()),
    algorithm,
    distinguishedName(issuer?.name ?? subject),
    sequence(time(new Date(now.getTime() - BACKDATE_MS)), time(new Date(now.getTime() + days * DAY_MS))),
    distinguishedName(subject),
    forge.asn1.fromDer(binary(publicKeyInfo(privateKey))),
    encodeExtensions([...keyIdentifiers(privateKey, issuerKey), ...extensions]),
  );
  const signature = sign('sha256', encode(body), issuerKey);
  return {
    cert: pem(encode(sequence(body, algorithm, bits(signature)))),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

/** Returns the extensions of a CA that issues only leaf certificates. */
export function authorityExtensions(): Extension[] {
  return [
    { name: 'basicConstraints', critical: true, cA: true, pathLenConstraint: 0 },
    { name: 'keyUsage', critical: true, keyCertSign: true, cRLSign: true },
  ];
}

/** Returns the extensions of a server or client certificate. */
export function leafExtensions(usage: 'serverAuth' | 'clientAuth'): Extension[] {
  return [
    { name: 'basicConstraints', critical: true },
    { name: 'keyUsage', critical: true, digitalSignature: true },
    { name: 'extKeyUsage', [usage]: true },
  ];
}

/** Returns the subjectAltName extension. The name types are defined in RFC 5280. */
export function subjectAltName({ dnsNames, ipAddresses }: ServerNames): Extension {
  const names = [
    ...dnsNames.map((value) => ({ type: 2, value })),
    ...ipAddresses.map((ip) => ({ type: 7, ip: normalizeAddress(ip) })),
  ];
  return { name: 'subjectAltName', altNames: names };
}

/** Rewrites addresses that have a dotted part, such as `::ffff:127.0.0.1`, because forge cannot encode them. */
function normalizeAddress(ip: string): string {
  return isIPv6(ip) ? new URL(`https://[${ip}]`).hostname.slice(1, -1) : ip;
}

function keyIdentifiers(subjectKey: KeyObject, issuerKey: KeyObject): Extension[] {
  const value = primitive(Type.OCTETSTRING, keyIdentifier(subjectKey));
  return [
    { name: 'subjectKeyIdentifier', value },
    { name: 'authorityKeyIdentifier', keyIdentifier: binary(keyIdentifier(issuerKey)) },
  ];
}

function encodeExtensions(extensions: readonly Extension[]): Asn1 {
  const certificate = forge.pki.createCertificate();
  certificate.setExtensions([...extensions]);
  return (forge.pki as unknown as ExtensionEncoder).certificateExtensionsToAsn1(certificate.extensions);
}

/** A part of forge that is missing from its type declarations. */
interface ExtensionEncoder {
  certificateExtensionsToAsn1(extensions: readonly unknown[]): Asn1;
}

/** Returns the leftmost 160 bits of the key's SHA-256 hash, as proposed in RFC 7093. */
function keyIdentifier(key: KeyObject): Buffer {
  return createHash('sha256').update(publicKeyInfo(key)).digest().subarray(0, 20);
}

function publicKeyInfo(privateKey: KeyObject): Buffer {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
}

/** Returns 16 random bytes that encode a positive integer without a leading zero byte. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes;
}

function pem(bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

// ASN.1 in DER encoding

type Asn1 = forge.asn1.Asn1;
const { Class, Type } = forge.asn1;

function sequence(...items: readonly Asn1[]): Asn1 {
  return forge.asn1.create(Class.UNIVERSAL, Type.SEQUENCE, true, [...items]);
}

function primitive(type: forge.asn1.Type, bytes: Buffer): Asn1 {
  return forge.asn1.create(Class.UNIVERSAL, type, false, binary(bytes));
}

function bits(bytes: Buffer): Asn1 {
  return primitive(Type.BITSTRING, Buffer.concat([Buffer.of(0), bytes]));
}

function oid(id: string): Asn1 {
  return forge.asn1.create(Class.UNIVERSAL, Type.OID, false, forge.asn1.oidToDer(id).getBytes());
}

/** Returns an ASN.1 time. RFC 5280 requires UTCTime through the year 2049. */
function time(date: Date): Asn1 {
  return date.getUTCFullYear() < 2050
    ? forge.asn1.create(Class.UNIVERSAL, Type.UTCTIME, false, forge.asn1.dateToUtcTime(date))
    : forge.asn1.create(Class.UNIVERSAL, Type.GENERALIZEDTIME, false, forge.asn1.dateToGeneralizedTime(date));
}

const ORGANIZATION_NAME = '2.5.4.10';
const COMMON_NAME = '2.5.4.3';

function distinguishedName({ organizations = [], commonName }: DistinguishedName): Asn1 {
  const attribute = (id: string, text: string): Asn1 =>
    forge.asn1.create(Class.UNIVERSAL, Type.SET, true, [sequence(oid(id), primitive(Type.UTF8, Buffer.from(text)))]);
  return sequence(
    ...organizations.map((name) => attribute(ORGANIZATION_NAME, name)),
    attribute(COMMON_NAME, commonName),
  );
}

function encode(node: Asn1): Buffer {
  return Buffer.from(forge.asn1.toDer(node).getBytes(), 'latin1');
}

/** Converts bytes to a string, because forge represents bytes as characters. */
function binary(bytes: Buffer): string {
  return bytes.toString('latin1');
}
