/**
 * Certificates for TLS: made here where none are given, and watched where they are. Reads and writes files; knows
 * nothing of servers, which are told by a callback.
 */
import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import {
  alternativeNames,
  authorityExtensions,
  issueCertificate,
  leafExtensions,
  type DistinguishedName,
  type Extension,
} from './certificate.ts';
import type { KeyPair } from './key-pair.ts';

export interface Validity {
  readonly now: Date;
  readonly days: number;
}

export interface ServerNames {
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** Who a client certificate says its owner is. */
export interface ClientIdentity {
  readonly username: string;
  readonly groups: readonly string[];
}

/** Clocks differ: what is made now is valid already for one that is an hour slow. */
const SKEW_MS = 60 * 60 * 1000;
const DAY_MS = 24 * 60 * 60 * 1000;

/** The name of an authority made here, by which it is known again. */
export const AUTHORITY_NAME: DistinguishedName = { commonName: 'portcullis-ca' };

/** Makes a certificate authority that signs itself. */
export function createAuthority(validity: Validity): KeyPair {
  const { privateKey, publicKey } = newKey();
  const cert = issueCertificate({
    subject: AUTHORITY_NAME,
    issuer: AUTHORITY_NAME,
    subjectKey: publicKey,
    issuerKey: privateKey,
    ...period(validity),
    extensions: authorityExtensions(),
  });
  return { cert, key: printKey(privateKey) };
}

/** Makes a certificate for a server with these names. Throws a RangeError if an address is none. */
export function createServing(authority: KeyPair, names: ServerNames, validity: Validity): KeyPair {
  const extensions = [...leafExtensions('serverAuth'), alternativeNames(names.dnsNames, names.ipAddresses)];
  return createLeaf(authority, { commonName: 'portcullis' }, extensions, validity);
}

/** Makes a certificate by which a client proves to be a user. */
export function createClient(authority: KeyPair, client: ClientIdentity, validity: Validity): KeyPair {
  return createLeaf(authority, clientName(client), leafExtensions('clientAuth'), validity);
}

/** The API server reads the username from the common name, the groups from the organizations. */
export function clientName({ username, groups }: ClientIdentity): DistinguishedName {
  return { commonName: username, organizations: groups };
}

function createLeaf(
  authority: KeyPair,
  subject: DistinguishedName,
  extensions: readonly Extension[],
  validity: Validity,
): KeyPair {
  const { privateKey, publicKey } = newKey();
  const cert = issueCertificate({
    subject,
    issuer: AUTHORITY_NAME,
    subjectKey: publicKey,
    issuerKey: createPrivateKey(authority.key),
    ...period(validity),
    extensions,
  });
  return { cert, key: printKey(privateKey) };
}

function newKey(): { privateKey: KeyObject; publicKey: KeyObject } {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' });
}

function printKey(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function period({ now, days }: Validity): { notBefore: Date; notAfter: Date } {
  return {
    notBefore: new Date(now.getTime() - SKEW_MS),
    notAfter: new Date(now.getTime() + days * DAY_MS),
  };
}
