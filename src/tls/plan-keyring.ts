import { X509Certificate } from 'node:crypto';
import type { Keyring } from './keyring.ts';
import { createAuthority, createServing, type ServerNames } from './self-signed.ts';
import { isFor } from './trust.ts';

/** How long a serving certificate and an authority last. */
const SERVING_DAYS = 7;
const AUTHORITY_DAYS = 365;

/** After that part of its life a certificate is renewed. */
const RENEW_AFTER = 2 / 3;

/** Every API server follows configurations of webhooks, and every replica its Secret, well within that time. */
export const SETTLE_MS = 30_000;

/** What somebody asked for. */
export const ROTATIONS = ['ca', 'serving'] as const;
export type Rotation = (typeof ROTATIONS)[number];
/** The reason of a step that answers it. */
export const ASKED_FOR = 'asked for';

export interface KeyringState {
  readonly keyring: Keyring;
  /** What is wrong with what the Secret holds: why there is no serving certificate. */
  readonly problems: readonly string[];
  readonly names: ServerNames;
  readonly asked: Rotation | undefined;
  /** How long all configurations have trusted the authorities of the keyring; `undefined`: they do not all yet. */
  readonly trustedMs: number | undefined;
  readonly settleMs: number;
  readonly now: Date;
}

/**
 * `start over`: a new authority signs. `sign`: the authority signs a new serving certificate. `prepare`: a next authority
 * is made, and trusted before it signs. `change`: the next authority takes the place of the authority, and signs.
 */
export type Step = 'start over' | 'sign' | 'prepare' | 'change';

export interface KeyringPlan {
  /** Absent: nothing is to be done yet. */
  readonly step?: Step;
  readonly reason: string;
  /** When there may be something to do although nothing has happened. */
  readonly againMs: number;
}

/**
 * What becomes of a keyring next. As long as what is served is good, another authority signs only after all have trusted
 * it for a while; a key that is lost is no reason to hurry.
 */
export function planKeyring(state: KeyringState): KeyringPlan {
  const { keyring, problems, asked, trustedMs = 0, settleMs, now } = state;
  const { authority, next, serving } = keyring;
  const plan = (step: Step, reason: string): KeyringPlan => ({ step, reason, againMs: settleMs });
  if (!serving || !authority) {
    const reason = problems.join('; ');
    if (authority?.key !== undefined) return plan('sign', reason);
    return plan(next ? 'change' : 'start over', reason);
  }
  if (next && trustedMs >= settleMs) return plan('change', 'the next authority is trusted everywhere');
  const lack = state.names.dnsNames.concat(state.names.ipAddresses).find((name) => !isFor(read(serving.cert), name));
  const ages = { authority: renewalMs(authority.cert), serving: renewalMs(serving.cert) };
  if (!next) {
    if (authority.key === undefined) return plan('prepare', 'the key of the authority is lost');
    if (asked === 'ca') return plan('prepare', ASKED_FOR);
    if (now.getTime() >= ages.authority) return plan('prepare', 'two thirds of the life of the authority are over');
  }
  if (authority.key !== undefined) {
    if (asked === 'serving') return plan('sign', ASKED_FOR);
    if (lack !== undefined) return plan('sign', `the serving certificate is not for ${lack}`);
    if (now.getTime() >= ages.serving) return plan('sign', 'two thirds of its life are over');
  }
  const dueMs = Math.min(...(next ? [ages.serving] : Object.values(ages))) - now.getTime();
  const waitMs = next && state.trustedMs !== undefined ? settleMs - trustedMs : Infinity;
  return { reason: '', againMs: Math.max(0, Math.min(dueMs < 0 ? settleMs : dueMs, waitMs)) };
}

/** The keyring after a step of its plan. Throws a RangeError if an address of the names is none. */
export function takeStep(
  step: Step,
  { keyring, names, now }: Pick<KeyringState, 'keyring' | 'names' | 'now'>,
): Keyring {
  const newAuthority = () => createAuthority({ now, days: AUTHORITY_DAYS });
  if (step === 'prepare') return { ...keyring, next: newAuthority() };
  const { next, authority } = keyring;
  const known = step === 'change' ? next : authority;
  const signer = step === 'start over' || known?.key === undefined ? newAuthority() : { ...known, key: known.key };
  const serving = createServing(signer, names, { now, days: SERVING_DAYS });
  return { authority: signer, serving, ...(step === 'sign' && next ? { next } : {}) };
}

/** When the certificate is to be renewed, in Unix milliseconds. */
function renewalMs(pem: string): number {
  const { validFromDate, validToDate } = read(pem);
  const fromMs = validFromDate.getTime();
  return fromMs + (validToDate.getTime() - fromMs) * RENEW_AFTER;
}

function read(pem: string): X509Certificate {
  return new X509Certificate(pem);
}
