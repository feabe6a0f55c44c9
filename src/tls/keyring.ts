import { X509Certificate } from 'node:crypto';
import { hasSubject } from './certificate.ts';
import { keyPairError, type KeyPair } from './key-pair.ts';
import { validityProblem } from './pem.ts';
import { AUTHORITY_NAME } from './self-signed.ts';
import { hasIssued } from './trust.ts';

/** An authority of ours. Without its key it signs no more, but what it has signed is good. */
export interface Authority {
  readonly cert: string;
  readonly key?: string;
}

/** What a Secret of ours holds, as far as it can be used now. */
export interface Keyring {
  /** Has signed the serving certificate. */
  readonly authority?: Authority;
  /** Will sign the serving certificate when API servers trust it. */
  readonly next?: KeyPair;
  /** Always with its authority. */
  readonly serving?: KeyPair;
}

export interface ReadKeyring {
  readonly keyring: Keyring;
  /** What cannot be used and why, one phrase each. */
  readonly problems: readonly string[];
}

export interface ReadOptions {
  readonly now: Date;
  /** Authorities that API servers trust: the one of the serving certificate may be lost in the Secret. */
  readonly trusted: readonly X509Certificate[];
}

const FILES = {
  authority: { cert: 'ca.crt', key: 'ca.key' },
  next: { cert: 'next-ca.crt', key: 'next-ca.key' },
  serving: { cert: 'tls.crt', key: 'tls.key' },
} as const;

/** The names under which a Secret of ours holds what it holds. */
export const KEYRING_FILES: readonly string[] = Object.values(FILES).flatMap(({ cert, key }) => [cert, key]);

/** Reads the texts of a Secret by their names. Whatever else they hold, the result can be used. */
export function readKeyring(texts: ReadonlyMap<string, string>, { now, trusted }: ReadOptions): ReadKeyring {
  const problems: string[] = [];
  const note = (problem: string | undefined): boolean => {
    if (problem !== undefined) problems.push(problem);
    return problem === undefined;
  };
  const pairOf = ({ cert, key }: KeyPair): KeyPair => ({ cert: texts.get(cert) ?? '', key: texts.get(key) ?? '' });

  const authority = ((): Authority | undefined => {
    const { cert, key } = pairOf(FILES.authority);
    if (!note(authorityProblem(cert, FILES.authority.cert, now))) return undefined;
    return note(keyPairError({ cert, key }, FILES.authority, now)) ? { cert, key } : { cert };
  })();
  const next = ((): KeyPair | undefined => {
    const pair = pairOf(FILES.next);
    if (pair.cert === '' && pair.key === '') return undefined;
    const { cert } = FILES.next;
    return note(authorityProblem(pair.cert, cert, now) ?? keyPairError(pair, FILES.next, now)) ? pair : undefined;
  })();
  const serving = pairOf(FILES.serving);
  const others = { ...(next ? { next } : {}) };
  if (!note(keyPairError(serving, FILES.serving, now))) {
    return { keyring: { ...(authority ? { authority } : {}), ...others }, problems };
  }
  const leaf = new X509Certificate(serving.cert);
  if (authority && hasIssued(new X509Certificate(authority.cert), leaf)) {
    return { keyring: { authority, serving, ...others }, problems };
  }
  const issuer = trusted.find((one) => isAuthority(one, now) && hasIssued(one, leaf));
  note(`the certificate in ${FILES.serving.cert} is not signed by that in ${FILES.authority.cert}`);
  // What is served stays good. If a key is missing, a new authority has one.
  if (issuer && !authority) {
    const found = { cert: issuer.toString(), key: pairOf(FILES.authority).key };
    const isWhole = keyPairError(found, FILES.authority, now) === undefined;
    return { keyring: { authority: isWhole ? found : { cert: found.cert }, serving, ...others }, problems };
  }
  return { keyring: { ...(authority ? { authority } : {}), ...others }, problems };
}

/** The texts of a Secret by their names. */
export function printKeyring(keyring: Keyring): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const part of ['authority', 'next', 'serving'] as const) {
    const { cert, key }: Partial<KeyPair> = keyring[part] ?? {};
    if (cert !== undefined) texts.set(FILES[part].cert, cert);
    if (key !== undefined) texts.set(FILES[part].key, key);
  }
  return texts;
}

function authorityProblem(pem: string, name: string, now: Date): string | undefined {
  const cert = read(pem);
  if (!cert) return `${name} holds no PEM certificate`;
  const problem = validityProblem(cert, now);
  if (problem !== undefined) return `the certificate in ${name} ${problem}`;
  return isAuthority(cert, now) ? undefined : `the certificate in ${name} is not one of our authorities`;
}

function isAuthority(cert: X509Certificate, now: Date): boolean {
  return hasSubject(cert, AUTHORITY_NAME) && hasIssued(cert, cert) && validityProblem(cert, now) === undefined;
}

function read(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}
