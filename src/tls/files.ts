/** Manages a directory of self-signed certificates. */
import { X509Certificate } from 'node:crypto';
import { mkdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readFileText, replaceFile } from '../config/files.ts';
import { errorCode } from '../kube/error-code.ts';
import { DAY_MS } from '../kube/units.ts';
import { type KeyPair, keyPairProblem } from './certificate-pair.ts';
import {
  AUTHORITY_NAME,
  type ClientIdentity,
  clientName,
  createAuthority,
  issueClient,
  createServing,
  hasSubject,
  type ServerNames,
} from './issue.ts';
import { coversHost, hasIssued } from './trust.ts';

export interface CertificateFolderOptions extends ServerNames {
  readonly folder: string;
  /** Client certificates by file name, without the extension. */
  readonly clients?: ReadonlyMap<string, ClientIdentity>;
  readonly now: () => Date;
}

/** The key pairs in a certificate directory. Each key pair is stored as `<name>.crt` and `<name>.key`. */
export interface Certificates {
  readonly authority: KeyPair;
  readonly serving: KeyPair;
  readonly clients: ReadonlyMap<string, KeyPair>;
}

const AUTHORITY_DAYS = 10 * 365;
const LEAF_DAYS = 365;
/** Minimum remaining lifetime. Certificates that expire sooner are renewed at startup. */
const RENEW_DAYS = 30;

/**
 * Returns the CA, the serving certificate and the client certificates in a directory. Recreates key pairs that are
 * missing or damaged, lack a name, have another subject or issuer, or expire within 30 days. Only the owner can read
 * the keys. Rejects if the directory cannot be read or written.
 */
export async function ensureCertificates(options: CertificateFolderOptions): Promise<Certificates> {
  const { folder, clients = new Map<string, ClientIdentity>() } = options;
  const now = options.now();
  await makeFolder(folder);
  const authority = await ensurePair(folder, 'ca', {
    isGood: (pair) => lasts(pair, now) && hasSubject(new X509Certificate(pair.cert), AUTHORITY_NAME),
    create: () => createAuthority({ now, days: AUTHORITY_DAYS }),
  });
  const validity = { now, days: LEAF_DAYS };
  const isSigned = (pair: KeyPair): boolean =>
    lasts(pair, now) && hasIssued(new X509Certificate(authority.cert), new X509Certificate(pair.cert));
  const serving = await ensurePair(folder, 'tls', {
    isGood: (pair) => isSigned(pair) && hasNames(pair, options),
    create: () => createServing(authority, options, validity),
  });
  const pairs = new Map<string, KeyPair>();
  for (const [name, client] of clients) {
    const pair = await ensurePair(folder, name, {
      isGood: (pair) => isSigned(pair) && hasSubject(new X509Certificate(pair.cert), clientName(client)),
      create: () => issueClient(authority, client, validity),
    });
    pairs.set(name, pair);
  }
  return { authority, serving, clients: pairs };
}

interface PairRecipe {
  isGood(pair: KeyPair): boolean;
  create(): KeyPair;
}

async function ensurePair(folder: string, name: string, { isGood, create }: PairRecipe): Promise<KeyPair> {
  const certFile = join(folder, `${name}.crt`);
  const keyFile = join(folder, `${name}.key`);
  const [cert, key] = await Promise.all([readIfExists(certFile), readIfExists(keyFile)]);
  if (cert !== undefined && key !== undefined && isGood({ cert, key })) return { cert, key };
  const pair = create();
  await replaceFile(keyFile, pair.key, 0o600);
  await replaceFile(certFile, pair.cert, 0o644);
  return pair;
}

function lasts(pair: KeyPair, now: Date): boolean {
  const renewal = new Date(now.getTime() + RENEW_DAYS * DAY_MS);
  const names = { cert: 'certificate', key: 'key' };
  return [now, renewal].every((time) => keyPairProblem(pair, names, time) === undefined);
}

function hasNames(pair: KeyPair, { dnsNames, ipAddresses }: ServerNames): boolean {
  const cert = new X509Certificate(pair.cert);
  return [...dnsNames, ...ipAddresses].every((name) => coversHost(cert, name));
}

async function readIfExists(path: string): Promise<string | undefined> {
  try {
    return await readFileText(path);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Creates a directory and its parents one at a time, because Node's recursive mkdir never returns for paths such as
 * `/proc/x`.
 */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (errorCode(error) === 'EEXIST' && (await stat(folder)).isDirectory()) return;
    const parent = dirname(folder);
    if (errorCode(error) !== 'ENOENT' || parent === folder) throw error;
    await makeFolder(parent);
    await mkdir(folder);
  }
}
