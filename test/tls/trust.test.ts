import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import {
  authorityExtensions,
  createAuthority,
  createServing,
  type Extension,
  issue,
  leafExtensions,
  subjectAltName,
} from '../../src/tls/issue.ts';
import { trustProblem } from '../../src/tls/trust.ts';

const NOW = new Date('2026-01-01T00:00:00Z');
const DAY_MS = 24 * 60 * 60 * 1000;
const HOST = 'portcullis.portcullis.svc';
const NAMES = { dnsNames: [HOST, '*.wild.example'], ipAddresses: ['127.0.0.1'] };
const later = (days: number): Date => new Date(NOW.getTime() + days * DAY_MS);

const authority = createAuthority({ now: NOW, days: 30 });
const other = createAuthority({ now: NOW, days: 30 });
const serving = createServing(authority, NAMES, { now: NOW, days: 7 });

/** Issues a certificate from a CA that Portcullis did not create. */
function issueAs(name: string, extensions: readonly Extension[], issuer?: KeyPair & { readonly name: string }) {
  const pair = issue({
    subject: { commonName: name },
    issuer: issuer && { name: { commonName: issuer.name }, key: issuer.key },
    extensions,
    validity: { now: NOW, days: 10 },
  });
  return { name, ...pair };
}
const root = issueAs('root', authorityExtensions());
const intermediate = issueAs('intermediate', authorityExtensions(), root);
const host = subjectAltName({ dnsNames: [HOST], ipAddresses: [] });
const leaf = issueAs('leaf', [...leafExtensions('serverAuth'), host], intermediate);
const clientLeaf = issueAs('leaf', [...leafExtensions('clientAuth'), host], root);
const leafOfLeaf = issueAs('other leaf', [...leafExtensions('serverAuth'), host], leaf);

const UNSIGNED = 'the serving certificate is not signed by a valid CA in caBundle';
const cases: readonly {
  readonly name: string;
  readonly chain?: string;
  readonly authorities?: string;
  readonly host?: string;
  readonly now?: Date;
  readonly expected?: string;
}[] = [
  { name: 'signed by the CA' },
  { name: 'one of several CAs', authorities: other.cert + authority.cert },
  { name: 'an unreadable block next to the CA', authorities: `nonsense\n${authority.cert}` },
  { name: 'another CA with the same name', authorities: other.cert, expected: UNSIGNED },
  { name: 'no authority', authorities: 'nonsense', expected: 'caBundle contains no certificate' },
  { name: 'no certificate', chain: '', expected: 'there is no serving certificate' },
  { name: 'an IP address', host: '127.0.0.1' },
  { name: 'another IP address', host: '::1', expected: 'the serving certificate is not valid for ::1' },
  { name: 'another DNS name', host: 'x.svc', expected: 'the serving certificate is not valid for x.svc' },
  { name: 'a wildcard', host: 'a.wild.example' },
  { name: 'only the common name', host: 'portcullis', expected: 'the serving certificate is not valid for portcullis' },
  { name: 'expired', now: later(8), expected: 'the serving certificate expired at 2026-01-08T00:00:00Z' },
  {
    name: 'not valid yet',
    now: later(-1),
    expected: 'the serving certificate is not valid before 2025-12-31T23:00:00Z',
  },
  {
    name: 'an expired authority',
    chain: createServing(authority, NAMES, { now: later(20), days: 30 }).cert,
    now: later(40),
    expected: UNSIGNED,
  },
  { name: 'a chain with an intermediate', chain: leaf.cert + intermediate.cert, authorities: root.cert },
  { name: 'a missing intermediate', chain: leaf.cert, authorities: root.cert, expected: UNSIGNED },
  { name: 'a trusted intermediate', chain: leaf.cert, authorities: intermediate.cert },
  { name: 'a trusted leaf', chain: leaf.cert, authorities: leaf.cert },
  {
    name: 'an issuer that is not a CA',
    chain: leafOfLeaf.cert + leaf.cert,
    authorities: leaf.cert,
    expected: UNSIGNED,
  },
  {
    name: 'a client certificate',
    chain: clientLeaf.cert,
    authorities: root.cert,
    expected: 'the serving certificate does not allow server authentication',
  },
  {
    name: 'a chain with repeated intermediates',
    chain: leaf.cert + intermediate.cert.repeat(40),
    authorities: other.cert,
    expected: UNSIGNED,
  },
];

suite('trustProblem returns why clients reject a certificate:', () => {
  for (const { name, expected, ...given } of cases) {
    test(`${name}: ${expected ?? 'the certificate is trusted'}`, () => {
      const trust = { chain: serving.cert, authorities: authority.cert, host: HOST, now: NOW, ...given };
      assert.equal(trustProblem(trust), expected);
    });
  }
});
