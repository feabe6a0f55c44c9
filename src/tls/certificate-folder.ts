import { randomUUID, X509Certificate } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasSubject, type DistinguishedName } from './certificate.ts';
import { keyPairError, type KeyPair } from './key-pair.ts';
import {
  AUTHORITY_NAME,
  clientName,
  createAuthority,
  createClient,
  createServing,
  type ClientIdentity,
  type ServerNames,
} from './self-signed.ts';

export interface CertificateFolderOptions extends ServerNames {
  readonly folder: string;
  /** Client certificates to keep, by the name of their files. */
  readonly clients?: ReadonlyMap<string, ClientIdentity>;
  readonly now: () => Date;
}

/** What lies in the folder: each pair as `<name>.crt` and `<name>.key`. */
export interface Certificates {
  readonly authority: KeyPair;
  readonly serving: KeyPair;
  readonly clients: ReadonlyMap<string, KeyPair>;
}

const AUTHORITY_DAYS = 10 * 365;
const LEAF_DAYS = 365;
/** Renewed when less is left, so that a server which starts today can run for a while. */
const RENEW_DAYS = 30;
const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * Returns an authority, a serving certificate and client certificates from the folder. What is missing, damaged, lacks a
 * name or has less than 30 days left is made anew; what is good stays. Keys are readable by their owner only.
 * Rejects if the folder cannot be read or written.
 */
export async function keepCertificates(options: CertificateFolderOptions): Promise<Certificates> {
  const { folder, clients = new Map<string, ClientIdentity>() } = options;
  const now = options.now();
  await makeFolder(folder);
  const authority = await keep(folder, 'ca', {
    good: (pair) => lasts(pair, now) && isFor(pair, AUTHORITY_NAME),
    make: () => createAuthority({ now, days: AUTHORITY_DAYS }),
  });
  const validity = { now, days: LEAF_DAYS };
  const ours = (pair: KeyPair): boolean => lasts(pair, now) && isSignedBy(pair, authority);
  const serving = await keep(folder, 'tls', {
    good: (pair) => ours(pair) && hasNames(pair, options),
    make: () => createServing(authority, options, validity),
  });
  const kept = new Map<string, KeyPair>();
  for (const [name, client] of clients) {
    kept.set(
      name,
      await keep(folder, name, {
        good: (pair) => ours(pair) && isFor(pair, clientName(client)),
        make: () => createClient(authority, client, validity),
      }),
    );
  }
  return { authority, serving, clients: kept };
}

interface Recipe {
  good(pair: KeyPair): boolean;
  make(): KeyPair;
}

async function keep(folder: string, name: string, { good, make }: Recipe): Promise<KeyPair> {
  const certFile = join(folder, `${name}.crt`);
  const keyFile = join(folder, `${name}.key`);
  const [cert, key] = await Promise.all([readIfThere(certFile), readIfThere(keyFile)]);
  if (cert !== undefined && key !== undefined && good({ cert, key })) return { cert, key };
  const made = make();
  await replaceFile(keyFile, made.key, 0o600);
  await replaceFile(certFile, made.cert, 0o644);
  return made;
}

function lasts(pair: KeyPair, now: Date): boolean {
  const then = new Date(now.getTime() + RENEW_DAYS * DAY_MS);
  const names = { cert: 'certificate', key: 'key' };
  return keyPairError(pair, names, now) === undefined && keyPairError(pair, names, then) === undefined;
}

function isSignedBy(pair: KeyPair, authority: KeyPair): boolean {
  const issuer = new X509Certificate(authority.cert);
  const cert = new X509Certificate(pair.cert);
  return cert.checkIssued(issuer) && cert.verify(issuer.publicKey);
}

function hasNames(pair: KeyPair, { dnsNames, ipAddresses }: ServerNames): boolean {
  const cert = new X509Certificate(pair.cert);
  return (
    dnsNames.every((name) => cert.checkHost(name, { subject: 'never' }) !== undefined) &&
    ipAddresses.every((address) => cert.checkIP(address) !== undefined)
  );
}

function isFor(pair: KeyPair, subject: DistinguishedName): boolean {
  return hasSubject(new X509Certificate(pair.cert), subject);
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Readers see the old content or the new one, never a part. */
async function replaceFile(path: string, content: string, mode: number): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  try {
    await writeFile(temporary, content, { mode, flag: 'wx' });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Makes a folder and those that it lies in, one by one: Node itself never ends where one cannot be made, as in `/proc`. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (codeOf(error) === 'EEXIST' && (await stat(folder)).isDirectory()) return;
    const parent = dirname(folder);
    if (codeOf(error) !== 'ENOENT' || parent === folder) throw error;
    await makeFolder(parent);
    await mkdir(folder);
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
