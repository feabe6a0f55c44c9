import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dnsLabelErrors, dnsSubdomainErrors } from '../../src/kube/names.ts';

const LABEL =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const CASES: readonly { name: string; label: readonly string[]; subdomain: readonly string[] }[] = [
  { name: 'kube-system', label: [], subdomain: [] },
  { name: '0', label: [], subdomain: [] },
  { name: 'a'.repeat(63), label: [], subdomain: [] },
  { name: 'a'.repeat(64), label: ['must be no more than 63 bytes'], subdomain: [] },
  {
    name: 'a'.repeat(254),
    label: ['must be no more than 63 bytes'],
    subdomain: ['must be no more than 253 bytes'],
  },
  { name: 'a.b', label: ['must not contain dots'], subdomain: [] },
  { name: '', label: [LABEL], subdomain: [SUBDOMAIN] },
  { name: '-a', label: [LABEL], subdomain: [SUBDOMAIN] },
  { name: 'A', label: [LABEL], subdomain: [SUBDOMAIN] },
  { name: 'kube-*', label: [LABEL], subdomain: [SUBDOMAIN] },
  { name: 'a\n', label: [LABEL], subdomain: [SUBDOMAIN] },
  { name: 'ü'.repeat(32), label: ['must be no more than 63 bytes', LABEL], subdomain: [SUBDOMAIN] },
];

for (const { name, label, subdomain } of CASES) {
  test(`the name ${JSON.stringify(name)}`, () => {
    assert.deepEqual(dnsLabelErrors(name), label);
    assert.deepEqual(dnsSubdomainErrors(name), subdomain);
  });
}
