import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { matchesLabelSelector } from '../../src/kube/label-selector.ts';
import { dnsLabelErrors, dnsSubdomainErrors, labelKeyErrors, labelValueErrors } from '../../src/kube/names.ts';

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
  test(`dnsLabelErrors and dnsSubdomainErrors validate ${JSON.stringify(name)}`, () => {
    assert.deepEqual(dnsLabelErrors(name), label);
    assert.deepEqual(dnsSubdomainErrors(name), subdomain);
  });
}

const NAME =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

describe('the validation of a label key returns the errors of Kubernetes for', () => {
  const cases: [key: string, errors: string[]][] = [
    ['a', []],
    ['A_b.c-1', []],
    ['example.com/name', []],
    ['', ['name part must be non-empty', `name part ${NAME}`]],
    ['-a', [`name part ${NAME}`]],
    ['__proto__', [`name part ${NAME}`]],
    ['a'.repeat(64), ['name part must be no more than 63 bytes']],
    ['/a', ['prefix part must be non-empty']],
    ['Example.com/a', [`prefix part ${SUBDOMAIN_RULE}`]],
    ['a/b/c', [`a valid label key ${NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`]],
  ];
  for (const [key, errors] of cases) {
    test(JSON.stringify(key), () => assert.deepEqual(labelKeyErrors(key), errors));
  }
});

describe('the validation of a label value returns the errors of Kubernetes for', () => {
  const rule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
  const cases: [value: string, errors: string[]][] = [
    ['', []],
    ['a.b_C-1', []],
    ['a b', [rule]],
    ['a\n', [rule]],
    ['é', [rule]],
    ['a'.repeat(64), ['must be no more than 63 bytes']],
  ];
  for (const [value, errors] of cases) {
    test(JSON.stringify(value), () => assert.deepEqual(labelValueErrors(value), errors));
  }
});

describe('matchesLabelSelector', () => {
  const labels = { app: 'web', tier: 'front' };
  const expression = (key: string, operator: string, ...values: string[]): unknown => ({
    matchExpressions: [{ key, operator, values }],
  });
  const cases: [name: string, selector: unknown, matches: boolean][] = [
    ['a selector that is undefined', undefined, false],
    ['a selector that is null', null, false],
    ['an empty selector', {}, true],
    ['a label with its value', { matchLabels: { app: 'web' } }, true],
    ['a label with another value', { matchLabels: { app: 'db' } }, false],
    ['a key of Object.prototype', { matchLabels: { constructor: 'web' } }, false],
    ['In with the value', expression('app', 'In', 'db', 'web'), true],
    ['In with another value', expression('app', 'In', 'db'), false],
    ['In for an absent label', expression('zone', 'In', 'a'), false],
    ['NotIn with another value', expression('app', 'NotIn', 'db'), true],
    ['NotIn with the value', expression('app', 'NotIn', 'web'), false],
    ['NotIn for an absent label', expression('zone', 'NotIn', 'a'), true],
    ['Exists for a label', expression('app', 'Exists'), true],
    ['Exists for an absent label', expression('toString', 'Exists'), false],
    ['DoesNotExist for an absent label', expression('zone', 'DoesNotExist'), true],
    ['an unknown operator', expression('app', 'Like', 'web'), false],
    [
      'one of several requirements that does not hold',
      { matchLabels: { app: 'web' }, ...(expression('tier', 'In', 'back') as object) },
      false,
    ],
  ];
  for (const [name, selector, matches] of cases) {
    test(`returns ${matches} for ${name}`, () => assert.equal(matchesLabelSelector(selector, labels), matches));
  }
  test('returns true for missing labels only if the selector is empty', () => {
    assert.equal(matchesLabelSelector({}, undefined), true);
    assert.equal(matchesLabelSelector({ matchLabels: { a: 'b' } }, undefined), false);
  });
});
