import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { suite, test } from 'node:test';
import { printKeyring, readKeyring, type Keyring } from '../../src/tls/keyring.ts';
import { ASKED_FOR, planKeyring, SETTLE_MS, takeStep, type KeyringState } from '../../src/tls/plan-keyring.ts';
import { createAuthority, createServing } from '../../src/tls/self-signed.ts';

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

suite('what is read of a Secret', () => {
  const NO_CERT = (file: string) => `${file} holds no PEM certificate`;
  const NO_KEY = (file: string) => `${file} holds no PEM private key that can be read without a passphrase`;
  const UNSIGNED = 'the certificate in tls.crt is not signed by that in ca.crt';
  const keyless = { cert: authority.cert };
  const cases: readonly {
    readonly name: string;
    readonly change: Readonly<Record<string, string | undefined>>;
    readonly trusted?: readonly string[];
    readonly now?: Date;
    readonly keyring: Keyring;
    readonly problems: readonly string[];
  }[] = [
    { name: 'all of it', change: {}, keyring: { authority, next, serving }, problems: [] },
    {
      name: 'no next authority',
      change: { 'next-ca.crt': undefined, 'next-ca.key': undefined },
      keyring: { authority, serving },
      problems: [],
    },
    {
      name: 'half of the next authority',
      change: { 'next-ca.key': undefined },
      keyring: { authority, serving },
      problems: [NO_KEY('next-ca.key')],
    },
    {
      name: 'a next authority that is none',
      change: { 'next-ca.crt': serving.cert, 'next-ca.key': serving.key },
      keyring: { authority, serving },
      problems: ['the certificate in next-ca.crt is not one of our authorities'],
    },
    {
      name: 'no key of the authority',
      change: { 'ca.key': undefined },
      keyring: { authority: keyless, next, serving },
      problems: [NO_KEY('ca.key')],
    },
    {
      name: 'the key of another',
      change: { 'ca.key': other.key },
      keyring: { authority: keyless, next, serving },
      problems: ['the key in ca.key is not that of the certificate in ca.crt'],
    },
    {
      name: 'no authority',
      change: { 'ca.crt': undefined },
      keyring: { next },
      problems: [NO_CERT('ca.crt'), UNSIGNED],
    },
    {
      name: 'no authority, but API servers know it',
      change: { 'ca.crt': 'x' },
      trusted: [other.cert, authority.cert],
      keyring: { authority, next, serving },
      problems: [NO_CERT('ca.crt'), UNSIGNED],
    },
    {
      name: 'no authority nor its key, but API servers know it',
      change: { 'ca.crt': undefined, 'ca.key': undefined },
      trusted: [authority.cert],
      keyring: { authority: keyless, next, serving },
      problems: [NO_CERT('ca.crt'), UNSIGNED],
    },
    {
      name: 'nonsense served',
      change: { 'tls.crt': 'x' },
      keyring: { authority, next },
      problems: [NO_CERT('tls.crt')],
    },
    {
      name: 'the key of another served',
      change: { 'tls.key': foreign.key },
      keyring: { authority, next },
      problems: ['the key in tls.key is not that of the certificate in tls.crt'],
    },
    {
      name: 'half of another pair',
      change: { 'tls.crt': foreign.cert, 'tls.key': foreign.key },
      keyring: { authority, next },
      problems: [UNSIGNED],
    },
    {
      name: 'what is served has expired',
      change: {},
      now: later(8),
      keyring: { authority, next },
      problems: ['the certificate in tls.crt has expired at 2026-01-08T00:00:00Z'],
    },
    {
      name: 'the clock is slow',
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
  for (const { name, change, trusted = [], now = NOW, keyring, problems } of cases) {
    test(name, () => {
      const texts = new Map(
        Object.entries({ ...FULL, ...change }).flatMap(([file, text]) =>
          text === undefined ? [] : [[file, text] as const],
        ),
      );
      const read = readKeyring(texts, { now, trusted: trusted.map((pem) => new X509Certificate(pem)) });
      assert.deepEqual(read, { keyring, problems });
    });
  }

  test('what is printed is read again', () => {
    const texts = printKeyring({ authority, next, serving });
    assert.deepEqual(Object.fromEntries(texts), FULL);
    assert.deepEqual([...printKeyring({ authority: keyless }).keys()], ['ca.crt']);
  });
});

suite('what becomes of it', () => {
  const state: KeyringState = {
    keyring: { authority, serving },
    problems: [],
    names: NAMES,
    asked: undefined,
    trustedMs: 10 * DAY_MS,
    settleMs: SETTLE_MS,
    now: NOW,
  };
  const reason = 'tls.crt holds no PEM certificate';
  const damaged = [reason];
  const lost = { cert: authority.cert };
  const RENEW_MS = ((7 * DAY_MS + HOUR_MS) * 2) / 3 - HOUR_MS;
  const old = createAuthority({ now: later(-250), days: 365 });
  const oldServing = createServing(old, NAMES, { now: NOW, days: 7 });
  const cases: readonly {
    readonly name: string;
    readonly given: Partial<KeyringState>;
    readonly step?: string;
    readonly reason?: string;
    readonly againMs?: number;
  }[] = [
    { name: 'all is well', given: {}, againMs: RENEW_MS },
    {
      name: 'there is nothing yet',
      given: { keyring: {}, problems: ['there is no Secret yet'] },
      step: 'start over',
      reason: 'there is no Secret yet',
    },
    { name: 'nothing to serve', given: { keyring: { authority }, problems: damaged }, step: 'sign', reason },
    {
      name: 'nothing to serve, and a next authority',
      given: { keyring: { authority, next }, problems: damaged },
      step: 'sign',
      reason,
    },
    {
      name: 'nothing to serve, nor a key',
      given: { keyring: { authority: lost }, problems: damaged },
      step: 'start over',
      reason,
    },
    {
      name: 'nothing to serve, but a next authority',
      given: { keyring: { next }, problems: damaged },
      step: 'change',
      reason,
    },
    {
      name: 'two thirds of seven days',
      given: { now: later(4.7) },
      step: 'sign',
      reason: 'two thirds of its life are over',
    },
    { name: 'not yet two thirds', given: { now: later(4.6) }, againMs: RENEW_MS - 4.6 * DAY_MS },
    {
      name: 'a further name',
      given: { names: { dnsNames: ['x.example'], ipAddresses: [] } },
      step: 'sign',
      reason: 'the serving certificate is not for x.example',
    },
    {
      name: 'a further address',
      given: { names: { dnsNames: [], ipAddresses: ['::1'] } },
      step: 'sign',
      reason: 'the serving certificate is not for ::1',
    },
    {
      name: 'an old authority',
      given: { keyring: { authority: old, serving: oldServing } },
      step: 'prepare',
      reason: 'two thirds of the life of the authority are over',
    },
    {
      name: 'a lost key',
      given: { keyring: { authority: lost, serving } },
      step: 'prepare',
      reason: 'the key of the authority is lost',
    },
    {
      name: 'a lost key, and the next authority not trusted',
      given: { keyring: { authority: lost, next, serving }, trustedMs: undefined, now: later(6) },
      againMs: SETTLE_MS,
    },
    { name: 'asked for an authority', given: { asked: 'ca' }, step: 'prepare', reason: ASKED_FOR },
    {
      name: 'asked for an authority while one is under way',
      given: { asked: 'ca', keyring: { authority, next, serving }, trustedMs: 10_000 },
      againMs: SETTLE_MS - 10_000,
    },
    { name: 'asked for a serving certificate', given: { asked: 'serving' }, step: 'sign', reason: ASKED_FOR },
    {
      name: 'the next authority is trusted nowhere',
      given: { keyring: { authority, next, serving }, trustedMs: undefined },
      againMs: RENEW_MS,
    },
    {
      name: 'the next authority is trusted for long enough',
      given: { keyring: { authority, next, serving }, trustedMs: SETTLE_MS },
      step: 'change',
      reason: 'the next authority is trusted everywhere',
    },
    {
      name: 'renewal does not wait for the next authority',
      given: { keyring: { authority, next, serving }, trustedMs: 0, now: later(5) },
      step: 'sign',
      reason: 'two thirds of its life are over',
    },
  ];
  for (const { name, given, step, reason: why = '', againMs = SETTLE_MS } of cases) {
    test(name, () => {
      const plan = planKeyring({ ...state, ...given });
      assert.deepEqual([plan.step, plan.reason, Math.round(plan.againMs)], [step, why, Math.round(againMs)]);
    });
  }

  test('steps keep what they do not change', () => {
    const whole = { keyring: { authority, next, serving }, names: NAMES, now: NOW };
    const signed = takeStep('sign', whole);
    assert.deepEqual([signed.authority, signed.next], [authority, next]);
    assert.notEqual(signed.serving?.cert, serving.cert);
    const changed = takeStep('change', whole);
    assert.deepEqual([changed.authority, changed.next], [next, undefined]);
    const prepared = takeStep('prepare', { ...whole, keyring: { authority, serving } });
    assert.deepEqual([prepared.authority, prepared.serving], [authority, serving]);
    assert.ok(prepared.next);
    const fresh = takeStep('start over', { ...whole, keyring: { authority: lost } });
    assert.notEqual(fresh.authority?.cert, authority.cert);
    for (const keyring of [signed, changed, prepared, fresh]) {
      assert.deepEqual(readKeyring(printKeyring(keyring), { now: NOW, trusted: [] }), { keyring, problems: [] });
    }
  });
});
