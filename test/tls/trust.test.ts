import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';
import {
  alternativeNames,
  authorityExtensions,
  issueCertificate,
  leafExtensions,
  type Extension,
} from '../../src/tls/certificate.ts';
import type { KeyPair } from '../../src/tls/key-pair.ts';
import { createAuthority, createServing } from '../../src/tls/self-signed.ts';
import { trustProblem } from '../../src/tls/trust.ts';

const NOW = new Date('2026-01-01T00:00:00Z');
const DAY_MS = 24 * 60 * 60 * 1000;
const HOST = 'portcullis.portcullis.svc';
const NAMES = { dnsNames: [HOST, '*.wild.example'], ipAddresses: ['127.0.0.1'] };
const later = (days: number): Date => new Date(NOW.getTime() + days * DAY_MS);

const authority = createAuthority({ now: NOW, days: 30 });
const other = createAuthority({ now: NOW, days: 30 });
const serving = createServing(authority, NAMES, { now: NOW, days: 7 });

/** A certificate of an issuer that is not one of ours. */
function issue(name: string, extensions: readonly Extension[], issuer?: KeyPair & { readonly name: string }) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const cert = issueCertificate({
    subject: { commonName: name },
    issuer: { commonName: issuer?.name ?? name },
    subjectKey: publicKey,
    issuerKey: issuer ? createPrivateKey(issuer.key) : privateKey,
    notBefore: NOW,
    notAfter: later(10),
    extensions,
  });
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  assert.ok(createPublicKey(key));
  return { name, cert, key };
}
const root = issue('root', authorityExtensions());
const intermediate = issue('intermediate', authorityExtensions(), root);
const leaf = issue('leaf', [...leafExtensions('serverAuth'), alternativeNames([HOST], [])], intermediate);
const forClients = issue('leaf', [...leafExtensions('clientAuth'), alternativeNames([HOST], [])], root);
const ofLeaf = issue('other leaf', [...leafExtensions('serverAuth'), alternativeNames([HOST], [])], leaf);

const UNSIGNED = 'the serving certificate is not signed by a valid authority in caBundle';
const cases: readonly {
  readonly name: string;
  readonly chain?: string;
  readonly authorities?: string;
  readonly host?: string;
  readonly now?: Date;
  readonly expected?: string;
}[] = [
  { name: 'signed by the authority' },
  { name: 'by one of several', authorities: other.cert + authority.cert },
  { name: 'beside what cannot be read', authorities: `nonsense\n${authority.cert}` },
  { name: 'another authority of the same name', authorities: other.cert, expected: UNSIGNED },
  { name: 'no authority', authorities: 'nonsense', expected: 'caBundle holds no certificate' },
  { name: 'no certificate', chain: '', expected: 'there is no serving certificate' },
  { name: 'an address', host: '127.0.0.1' },
  { name: 'another address', host: '::1', expected: 'the serving certificate is not for ::1' },
  { name: 'another name', host: 'x.svc', expected: 'the serving certificate is not for x.svc' },
  { name: 'an asterisk', host: 'a.wild.example' },
  { name: 'the common name', host: 'portcullis', expected: 'the serving certificate is not for portcullis' },
  { name: 'expired', now: later(8), expected: 'the serving certificate has expired at 2026-01-08T00:00:00Z' },
  { name: 'too early', now: later(-1), expected: 'the serving certificate is not valid before 2025-12-31T23:00:00Z' },
  {
    name: 'an authority that has expired',
    chain: createServing(authority, NAMES, { now: later(20), days: 30 }).cert,
    now: later(40),
    expected: UNSIGNED,
  },
  { name: 'a chain over an intermediate', chain: leaf.cert + intermediate.cert, authorities: root.cert },
  { name: 'the intermediate is missing', chain: leaf.cert, authorities: root.cert, expected: UNSIGNED },
  { name: 'the intermediate is trusted itself', chain: leaf.cert, authorities: intermediate.cert },
  { name: 'the certificate is trusted itself', chain: leaf.cert, authorities: leaf.cert },
  {
    name: 'an issuer that is no authority',
    chain: ofLeaf.cert + leaf.cert,
    authorities: leaf.cert,
    expected: UNSIGNED,
  },
  {
    name: 'one for clients',
    chain: forClients.cert,
    authorities: root.cert,
    expected: 'the serving certificate is not one for servers',
  },
  {
    name: 'a chain of a chain that goes round',
    chain: leaf.cert + intermediate.cert.repeat(40),
    authorities: other.cert,
    expected: UNSIGNED,
  },
];

suite('whether a client that trusts authorities talks to a server', () => {
  for (const { name, expected, ...given } of cases) {
    test(name, () => {
      const trust = { chain: serving.cert, authorities: authority.cert, host: HOST, now: NOW, ...given };
      assert.equal(trustProblem(trust), expected);
    });
  }
});
