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
  { name: 'a certificate from the CA' },
  { name: 'a certificate from one of several CAs', authorities: other.cert + authority.cert },
  { name: 'a caBundle with an unreadable block next to the CA', authorities: `nonsense\n${authority.cert}` },
  { name: 'a certificate from another CA with the same name', authorities: other.cert, expected: UNSIGNED },
  { name: 'a caBundle without a certificate', authorities: 'nonsense', expected: 'caBundle contains no certificate' },
  { name: 'a missing certificate', chain: '', expected: 'there is no serving certificate' },
  { name: 'a connection to an IP address of the certificate', host: '127.0.0.1' },
  { name: 'a connection to another IP address', host: '::1', expected: 'the serving certificate is not valid for ::1' },
  {
    name: 'a connection to another DNS name',
    host: 'x.svc',
    expected: 'the serving certificate is not valid for x.svc',
  },
  { name: 'a connection to a name that a wildcard matches', host: 'a.wild.example' },
  {
    name: 'a connection to the common name, which is not a DNS name of the certificate',
    host: 'portcullis',
    expected: 'the serving certificate is not valid for portcullis',
  },
  {
    name: 'an expired certificate',
    now: later(8),
    expected: 'the serving certificate expired at 2026-01-08T00:00:00Z',
  },
  {
    name: 'a certificate that is not yet valid',
    now: later(-1),
    expected: 'the serving certificate is not valid before 2025-12-31T23:00:00Z',
  },
  {
    name: 'an expired CA',
    chain: createServing(authority, NAMES, { now: later(20), days: 30 }).cert,
    now: later(40),
    expected: UNSIGNED,
  },
  { name: 'a chain with an intermediate', chain: leaf.cert + intermediate.cert, authorities: root.cert },
  { name: 'a missing intermediate', chain: leaf.cert, authorities: root.cert, expected: UNSIGNED },
  { name: 'a trusted intermediate', chain: leaf.cert, authorities: intermediate.cert },
  { name: 'a trusted certificate that is not a CA', chain: leaf.cert, authorities: leaf.cert },
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

suite('trustProblem returns the reason why clients reject the certificate:', () => {
  for (const { name, expected, ...given } of cases) {
    test(`${name}: ${expected ?? 'the certificate is trusted'}`, () => {
      const trust = { chain: serving.cert, authorities: authority.cert, host: HOST, now: NOW, ...given };
      assert.equal(trustProblem(trust), expected);
    });
  }
});
