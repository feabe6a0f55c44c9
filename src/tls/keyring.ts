/**
 * Manages the keyring of an installation that issues its own certificates. The keyring contains the CA and the serving
 * certificate, which are rotated.
 */
import { X509Certificate } from 'node:crypto';
import { attempt, type KeyPair, keyPairProblem } from './certificate-pair.ts';
import { AUTHORITY_NAME, createAuthority, createServing, hasSubject, type ServerNames } from './issue.ts';
import { coversHost, hasIssued } from './trust.ts';

/** The usable key pairs in the Secret. */
export interface Keyring {
  /** The CA that issued the serving certificate. */
  readonly authority?: KeyPair;
  /** The next CA, which issues serving certificates once API servers trust it. */
  readonly next?: KeyPair;
  /** The serving certificate. Set only if `authority` is set. */
  readonly serving?: KeyPair;
}

interface ReadKeyring {
  readonly keyring: Keyring;
  /** Phrases that explain which parts of the Secret cannot be used and why. */
  readonly problems: readonly string[];
}

const FILES = {
  authority: { cert: 'ca.crt', key: 'ca.key' },
  next: { cert: 'next-ca.crt', key: 'next-ca.key' },
  serving: { cert: 'tls.crt', key: 'tls.key' },
} as const;

/** Keys in the data of the Secret. */
export const KEYRING_FILES: readonly string[] = Object.values(FILES).flatMap(({ cert, key }) => [cert, key]);

type Texts = ReadonlyMap<string, string>;

/** Reads the keyring from the data of a Secret. Omits key pairs that cannot be used. */
export function readKeyring(texts: Texts, now: Date): ReadKeyring {
  const problems: string[] = [];
  const use = (pair: KeyPair, problem: string | undefined): KeyPair | undefined => {
    if (problem === undefined) return pair;
    problems.push(problem);
    return undefined;
  };
  const authority = readPair(texts, FILES.authority);
  const usedAuthority = use(authority, authorityProblem(authority, FILES.authority, now));
  const next = readPair(texts, FILES.next);
  const isAbsent = next.cert === '' && next.key === '';
  const usedNext = isAbsent ? undefined : use(next, authorityProblem(next, FILES.next, now));
  const serving = readPair(texts, FILES.serving);
  const usedServing = use(
    serving,
    keyPairProblem(serving, FILES.serving, now) ?? (usedAuthority && issuerProblem(serving, usedAuthority)),
  );
  return {
    keyring: {
      ...(usedAuthority ? { authority: usedAuthority } : {}),
      ...(usedAuthority && usedServing ? { serving: usedServing } : {}),
      ...(usedNext ? { next: usedNext } : {}),
    },
    problems,
  };
}

function issuerProblem({ cert }: KeyPair, authority: KeyPair): string | undefined {
  return hasIssued(new X509Certificate(authority.cert), new X509Certificate(cert))
    ? undefined
    : `the certificate in ${FILES.serving.cert} is not signed by the certificate in ${FILES.authority.cert}`;
}

function readPair(texts: Texts, { cert, key }: KeyPair): KeyPair {
  return { cert: texts.get(cert) ?? '', key: texts.get(key) ?? '' };
}

/** Returns the data of the Secret that stores the keyring. */
export function formatKeyring(keyring: Keyring): Texts {
  const texts = new Map<string, string>();
  for (const part of ['authority', 'next', 'serving'] as const) {
    const pair = keyring[part];
    if (pair) texts.set(FILES[part].cert, pair.cert).set(FILES[part].key, pair.key);
  }
  return texts;
}

function authorityProblem(pair: KeyPair, names: KeyPair, now: Date): string | undefined {
  const cert = attempt(() => new X509Certificate(pair.cert));
  const isAuthority = cert && hasSubject(cert, AUTHORITY_NAME) && hasIssued(cert, cert);
  if (isAuthority === false) return `the certificate in ${names.cert} is not a Portcullis CA`;
  return keyPairProblem(pair, names, now);
}

// Rotation

const SERVING_DAYS = 7;
const AUTHORITY_DAYS = 365;

/** Fraction of its lifetime after which a certificate is renewed. */
const RENEW_AFTER = 2 / 3;

/**
 * Maximum time that API servers take to observe webhook configurations, and that replicas take to observe their Secret.
 */
export const SETTLE_MS = 30_000;

/** Values of the `ROTATE_ANNOTATION`, which requests a rotation. */
export const ROTATIONS = ['ca', 'serving'] as const;
export type Rotation = (typeof ROTATIONS)[number];
/** The reason for a step if it was triggered by a rotation request. */
export const ROTATION_REQUESTED = 'rotation requested';

export interface KeyringState {
  readonly keyring: Keyring;
  /** Problems with the Secret. They explain why the serving certificate is missing. */
  readonly problems: readonly string[];
  readonly names: ServerNames;
  readonly requested: Rotation | undefined;
  /**
   * Time for which all configurations have trusted the CAs in the keyring, or `undefined` if some do not trust them.
   */
  readonly trustedMs: number | undefined;
  readonly settleMs: number;
  readonly now: Date;
}

/**
 * - `Replace`: a new CA immediately issues the serving certificate.
 * - `Renew`: the CA issues a new serving certificate.
 * - `Prepare`: the next CA is created and distributed before it issues certificates.
 * - `Promote`: the next CA becomes the CA and issues certificates.
 */
export type KeyringStep = 'Replace' | 'Renew' | 'Prepare' | 'Promote';

export interface KeyringPlan {
  /** The step to take. Absent if no step is due. */
  readonly step?: KeyringStep;
  readonly reason: string;
  /** Time until the next plan if no event arrives earlier. */
  readonly requeueAfterMs: number;
}

/**
 * Plans the next step for a keyring. While the keyring is complete, a new CA issues certificates only after all API
 * servers have trusted it for `settleMs`. If the CA is lost, a new CA issues certificates immediately, and replicas
 * keep serving the previous certificate until API servers trust the new one.
 */
export function planKeyring(state: KeyringState): KeyringPlan {
  const { keyring, problems, trustedMs = 0, settleMs, now } = state;
  const { authority, next, serving } = keyring;
  const plan = (step: KeyringStep, reason: string): KeyringPlan => ({ step, reason, requeueAfterMs: settleMs });
  if (!serving || !authority) {
    const reason = problems.join('; ');
    if (authority) return plan('Renew', reason);
    return plan(next ? 'Promote' : 'Replace', reason);
  }
  if (next && trustedMs >= settleMs) return plan('Promote', 'all API servers trust the next CA');
  const renewals = { authority: renewalMs(authority.cert), serving: renewalMs(serving.cert) };
  const prepare = next ? undefined : prepareReason(state, renewals.authority);
  if (prepare !== undefined) return plan('Prepare', prepare);
  const renew = renewReason(state, serving, renewals.serving);
  if (renew !== undefined) return plan('Renew', renew);
  const dueMs = Math.min(...(next ? [renewals.serving] : Object.values(renewals))) - now.getTime();
  const waitMs = next && state.trustedMs !== undefined ? settleMs - trustedMs : Infinity;
  return { reason: '', requeueAfterMs: Math.max(0, Math.min(dueMs < 0 ? settleMs : dueMs, waitMs)) };
}

function prepareReason({ requested, now }: KeyringState, dueMs: number): string | undefined {
  if (requested === 'ca') return ROTATION_REQUESTED;
  return now.getTime() >= dueMs ? 'two thirds of the CA lifetime have passed' : undefined;
}

function renewReason({ names, requested, now }: KeyringState, serving: KeyPair, dueMs: number): string | undefined {
  if (requested === 'serving') return ROTATION_REQUESTED;
  const cert = new X509Certificate(serving.cert);
  const missing = [...names.dnsNames, ...names.ipAddresses].find((name) => !coversHost(cert, name));
  if (missing !== undefined) return `the serving certificate is not valid for ${missing}`;
  return now.getTime() >= dueMs ? 'two thirds of the serving certificate lifetime have passed' : undefined;
}

/** Returns the keyring after a step. Throws an Error if the names contain an invalid IP address. */
export function takeKeyringStep(
  step: KeyringStep,
  { keyring, names, now }: Pick<KeyringState, 'keyring' | 'names' | 'now'>,
): Keyring {
  const newAuthority = (): KeyPair => createAuthority({ now, days: AUTHORITY_DAYS });
  if (step === 'Prepare') return { ...keyring, next: newAuthority() };
  const { next, authority } = keyring;
  const known = step === 'Promote' ? next : authority;
  const issuer = step === 'Replace' || !known ? newAuthority() : known;
  const serving = createServing(issuer, names, { now, days: SERVING_DAYS });
  return { authority: issuer, serving, ...(step === 'Renew' && next ? { next } : {}) };
}

/** Returns the time at which the certificate must be renewed, in Unix milliseconds. */
function renewalMs(pem: string): number {
  const { validFromDate, validToDate } = new X509Certificate(pem);
  const fromMs = validFromDate.getTime();
  return fromMs + (validToDate.getTime() - fromMs) * RENEW_AFTER;
}
