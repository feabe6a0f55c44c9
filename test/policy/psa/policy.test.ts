import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { formatFieldErrors } from '../../../src/kube/field-error.ts';
import { decodePod } from '../../../src/policy/pod/index.ts';
import { completeDefaults, DEFAULT_CONFIGURATION } from '../../../src/policy/psa/configuration.ts';
import { isSignificantUpdate } from '../../../src/policy/psa/decode.ts';
import {
  areEquivalent,
  isFullyPrivileged,
  MODES,
  printPolicy,
  resolvePolicies,
  setsMode,
} from '../../../src/policy/psa/policy.ts';
import { type Labels, namespaceWith } from '../../support/pod-security.ts';

function readCases<Case>(file: string): readonly Case[] {
  const text = readFileSync(join(import.meta.dirname, '../../fixtures/psa', file), 'utf8');
  return parse(text) as readonly Case[];
}

const at = (label: string) => `metadata.labels[pod-security.kubernetes.io/${label}]: Invalid value:`;

const { policies: privileged } = completeDefaults(DEFAULT_CONFIGURATION.defaults);

const OWN = 'portcullis.dev/enforce';

const OWN_CASES: readonly (readonly [labels: Labels, expected: string])[] = [
  [{ [OWN]: 'restricted' }, 'restricted:latest privileged:latest restricted:latest'],
  [
    { [OWN]: 'restricted', 'pod-security.kubernetes.io/enforce': 'baseline' },
    'restricted:latest privileged:latest restricted:latest',
  ],
  [
    { [OWN]: 'restricted', 'pod-security.kubernetes.io/enforce-version': 'v1.30' },
    'restricted:v1.30 privileged:latest restricted:v1.30',
  ],
  // The Portcullis label never lowers a level.
  [
    { [OWN]: 'privileged', 'pod-security.kubernetes.io/enforce': 'baseline' },
    'baseline:latest privileged:latest baseline:latest',
  ],
  [
    { [OWN]: 'baseline', 'pod-security.kubernetes.io/warn': 'restricted' },
    'baseline:latest privileged:latest restricted:latest',
  ],
];

for (const [labels, expected] of OWN_CASES) {
  test(`the stricter of the Portcullis label and the upstream label applies: ${JSON.stringify(labels)}`, () => {
    const resolved = resolvePolicies(labels, privileged);
    assert.equal(MODES.map((mode) => printPolicy(resolved[mode])).join(' '), expected);
    assert.deepEqual(resolved.errors, []);
  });
}

test('an invalid Portcullis label is an error, and restricted applies', () => {
  const { enforce, errors } = resolvePolicies({ [OWN]: 'Baseline' }, privileged);
  assert.equal(printPolicy(enforce), 'restricted:latest');
  const message = `metadata.labels[${OWN}]: Invalid value: "Baseline": must be one of privileged, baseline, restricted`;
  assert.equal(formatFieldErrors(errors), message);
});

test('labels of a type that API servers reject are errors', () => {
  const labels = { 'pod-security.kubernetes.io/enforce': 7, 'pod-security.kubernetes.io/audit-version': null };
  assert.equal(
    formatFieldErrors(resolvePolicies(labels, privileged).errors),
    `[${at('enforce')} 7: must be one of privileged, baseline, restricted, ${at('audit-version')} "": must be "latest" or "v1.x"]`,
  );
  assert.deepEqual(resolvePolicies(null, privileged).errors, []);
});

test('equal policies are the same JavaScript object', () => {
  const { metadata } = namespaceWith({ enforce: 'baseline', audit: 'baseline' });
  const { enforce, audit, warn } = resolvePolicies(metadata?.labels, privileged);
  assert.equal(audit, enforce);
  assert.equal(warn, enforce);
});

test('findSetModes returns the modes whose labels a namespace sets', () => {
  const labels = namespaceWith({ enforce: 'x', 'warn-version': '' }).metadata?.labels;
  assert.deepEqual(
    MODES.filter((mode) => setsMode(labels, mode)),
    ['enforce', 'warn'],
  );
  assert.equal(setsMode(undefined, 'enforce'), false);
});

test('policies with the privileged level are equivalent regardless of their version', () => {
  const of = (labels: Labels) => resolvePolicies(namespaceWith(labels).metadata?.labels, privileged);
  assert.ok(areEquivalent(of({ 'enforce-version': 'v1.20' }), privileged));
  assert.ok(isFullyPrivileged(of({ 'warn-version': 'v1.20' })));
  assert.ok(!areEquivalent(of({ audit: 'baseline' }), of({ audit: 'baseline', 'audit-version': 'v1.20' })));
  assert.ok(!isFullyPrivileged(of({ audit: 'baseline' })));
});

interface UpdateCase {
  readonly name: string;
  readonly old: unknown;
  readonly pod: unknown;
  readonly expected: boolean;
}

for (const { name, old, pod, expected } of readCases<UpdateCase>('significant-updates.yaml')) {
  test(`isSignificantUpdate treats an update as ${expected ? 'significant' : 'not significant'}: ${name}`, () => {
    const [after, before] = [pod, old].map((spec) => decodePod({ spec }).pod);
    assert.ok(after && before);
    assert.equal(isSignificantUpdate(after, before), expected);
  });
}
