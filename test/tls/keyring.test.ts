import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import {
  formatKeyring,
  type Keyring,
  type KeyringState,
  planKeyring,
  readKeyring,
  SETTLE_MS,
} from '../../src/tls/keyring.ts';

const NOW = new Date('2026-01-01T00:00:00Z');
const DAY_MS = 24 * 60 * 60 * 1000;
const HOUR_MS = DAY_MS / 24;
const NAMES = { dnsNames: ['portcullis.portcullis.svc'], ipAddresses: ['127.0.0.1'] };
const later = (days: number): Date => new Date(NOW.getTime() + days * DAY_MS);

const authority = createAuthority({ now: NOW, days: 365 });
const next = createAuthority({ now: NOW, days: 365 });
const other = createAuthority({ now: NOW, days: 365 });
const serving = createServing(authority, NAMES, { now: NOW, days: 7 });
const foreign = createServing(other, NAMES, { now: NOW, days: 7 });
const FULL = {
  'ca.crt': authority.cert,
  'ca.key': authority.key,
  'next-ca.crt': next.cert,
  'next-ca.key': next.key,
  'tls.crt': serving.cert,
  'tls.key': serving.key,
};

suite('readKeyring returns the keyring and its problems with', () => {
  const NO_CERT = (file: string) => `${file} contains no PEM certificate`;
  const NO_KEY = (file: string) => `${file} contains no unencrypted PEM private key`;
  const UNSIGNED = 'the certificate in tls.crt is not signed by the certificate in ca.crt';
  const cases: readonly {
    readonly name: string;
    readonly change: Readonly<Record<string, string | undefined>>;
    readonly now?: Date;
    readonly keyring: Keyring;
    readonly problems: readonly string[];
  }[] = [
    { name: 'all fields', change: {}, keyring: { authority, next, serving }, problems: [] },
    {
      name: 'no next CA',
      change: { 'next-ca.crt': undefined, 'next-ca.key': undefined },
      keyring: { authority, serving },
      problems: [],
    },
    {
      name: 'a next CA that has no key',
      change: { 'next-ca.key': undefined },
      keyring: { authority, serving },
      problems: [NO_KEY('next-ca.key')],
    },
    {
      name: 'a serving certificate as the next CA',
      change: { 'next-ca.crt': serving.cert, 'next-ca.key': serving.key },
      keyring: { authority, serving },
      problems: ['the certificate in next-ca.crt is not a Portcullis CA'],
    },
    {
      name: 'a CA that has no key',
      change: { 'ca.key': undefined },
      keyring: { next },
      problems: [NO_KEY('ca.key')],
    },
    {
      name: 'the key of another CA',
      change: { 'ca.key': other.key },
      keyring: { next },
      problems: ['the key in ca.key does not match the certificate in ca.crt'],
    },
    {
      name: 'no CA',
      change: { 'ca.crt': undefined },
      keyring: { next },
      problems: [NO_CERT('ca.crt')],
    },
    {
      name: 'an invalid serving certificate',
      change: { 'tls.crt': 'x' },
      keyring: { authority, next },
      problems: [NO_CERT('tls.crt')],
    },
    {
      name: 'the key of another serving certificate',
      change: { 'tls.key': foreign.key },
      keyring: { authority, next },
      problems: ['the key in tls.key does not match the certificate in tls.crt'],
    },
    {
      name: 'a serving certificate from another CA',
      change: { 'tls.crt': foreign.cert, 'tls.key': foreign.key },
      keyring: { authority, next },
      problems: [UNSIGNED],
    },
    {
      name: 'an expired serving certificate',
      change: {},
      now: later(8),
      keyring: { authority, next },
      problems: ['the certificate in tls.crt expired at 2026-01-08T00:00:00Z'],
    },
    {
      name: 'certificates that are not yet valid',
      change: {},
      now: later(-1),
      keyring: {},
      problems: [
        'the certificate in ca.crt is not valid before 2025-12-31T23:00:00Z',
        'the certificate in next-ca.crt is not valid before 2025-12-31T23:00:00Z',
        'the certificate in tls.crt is not valid before 2025-12-31T23:00:00Z',
      ],
    },
  ];
  for (const { name, change, now = NOW, keyring, problems } of cases) {
    test(name, () => {
      const texts = new Map(
        Object.entries({ ...FULL, ...change }).flatMap(([file, text]) =>
          text === undefined ? [] : [[file, text] as const],
        ),
      );
      assert.deepEqual(readKeyring(texts, now), { keyring, problems });
    });
  }

  test('the fields that formatKeyring writes, without problems', () => {
    const texts = formatKeyring({ authority, next, serving });
    assert.deepEqual(Object.fromEntries(texts), FULL);
  });
});

suite('planKeyring plans the next step with', () => {
  const state: KeyringState = {
    keyring: { authority, serving },
    problems: [],
    names: NAMES,
    requested: undefined,
    trustedMs: 10 * DAY_MS,
    settleMs: SETTLE_MS,
    now: NOW,
  };
  const reason = 'tls.crt contains no PEM certificate';
  const damaged = [reason];
  const RENEW_MS = ((7 * DAY_MS + HOUR_MS) * 2) / 3 - HOUR_MS;
  const old = createAuthority({ now: later(-250), days: 365 });
  const oldServing = createServing(old, NAMES, { now: NOW, days: 7 });
  const cases: readonly {
    readonly name: string;
    readonly given: Partial<KeyringState>;
    readonly step?: string;
    readonly reason?: string;
    readonly requeueAfterMs?: number;
  }[] = [
    { name: 'a keyring for which no step is due', given: {}, requeueAfterMs: RENEW_MS },
    {
      name: 'a next CA but no serving certificate',
      given: { keyring: { authority, next }, problems: damaged },
      step: 'Renew',
      reason,
    },
    {
      name: 'a next CA but no CA',
      given: { keyring: { next }, problems: damaged },
      step: 'Promote',
      reason,
    },
    {
      name: 'a required DNS name that the certificate lacks',
      given: { names: { dnsNames: ['x.example'], ipAddresses: [] } },
      step: 'Renew',
      reason: 'the serving certificate is not valid for x.example',
    },
    {
      name: 'a required IP address that the certificate lacks',
      given: { names: { dnsNames: [], ipAddresses: ['::1'] } },
      step: 'Renew',
      reason: 'the serving certificate is not valid for ::1',
    },
    {
      name: 'a CA that has passed two thirds of its lifetime',
      given: { keyring: { authority: old, serving: oldServing } },
      step: 'Prepare',
      reason: 'two thirds of the CA lifetime have passed',
    },
    {
      name: 'a CA rotation that is requested during a rotation',
      given: { requested: 'ca', keyring: { authority, next, serving }, trustedMs: 10_000 },
      requeueAfterMs: SETTLE_MS - 10_000,
    },
    {
      name: 'a next CA that is not trusted yet',
      given: { keyring: { authority, next, serving }, trustedMs: undefined },
      requeueAfterMs: RENEW_MS,
    },
    {
      name: 'a renewal that is due before the next CA is trusted',
      given: { keyring: { authority, next, serving }, trustedMs: 0, now: later(5) },
      step: 'Renew',
      reason: 'two thirds of the serving certificate lifetime have passed',
    },
  ];
  for (const { name, given, step, reason: expectedReason = '', requeueAfterMs = SETTLE_MS } of cases) {
    test(name, () => {
      const plan = planKeyring({ ...state, ...given });
      assert.deepEqual(
        [plan.step, plan.reason, Math.round(plan.requeueAfterMs)],
        [step, expectedReason, Math.round(requeueAfterMs)],
      );
    });
  }
});
