import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatFieldErrors } from '../../../src/kube/field-error.ts';
import { completeDefaults, DEFAULT_CONFIGURATION } from '../../../src/policy/psa/configuration.ts';
import {
  resolvePolicies,
  setsMode,
  areEquivalent,
  isFullyPrivileged,
  MODES,
  printPolicy,
} from '../../../src/policy/psa/policy.ts';
import { namespaceWith, type Labels } from '../../support/pod-security.ts';

interface Case {
  readonly name: string;
  readonly defaults?: Partial<typeof DEFAULT_CONFIGURATION.defaults>;
  readonly labels: Labels;
  /** enforce, audit, warn */
  readonly expected: readonly [string, string, string];
  readonly errors?: string;
}

const at = (label: string) => `metadata.labels[pod-security.kubernetes.io/${label}]: Invalid value:`;

const CASES: readonly Case[] = [
  { name: 'no labels', labels: {}, expected: ['privileged:latest', 'privileged:latest', 'privileged:latest'] },
  {
    name: 'no labels, other defaults: enforce by default raises nothing',
    defaults: { enforce: 'baseline', 'enforce-version': 'v1.30' },
    labels: {},
    expected: ['baseline:v1.30', 'privileged:latest', 'privileged:latest'],
  },
  {
    name: 'enforce alone raises warn, not audit',
    labels: { enforce: 'restricted', 'enforce-version': 'v1.25' },
    expected: ['restricted:v1.25', 'privileged:latest', 'restricted:v1.25'],
  },
  {
    name: 'warn is raised and keeps its version',
    labels: { enforce: 'restricted', 'enforce-version': 'v1.25', 'warn-version': 'v1.26' },
    expected: ['restricted:v1.25', 'privileged:latest', 'restricted:v1.26'],
  },
  {
    name: 'warn is raised and its version is wrong',
    labels: { enforce: 'baseline', 'enforce-version': 'v1.24', 'warn-version': 'zz' },
    expected: ['baseline:v1.24', 'privileged:latest', 'baseline:latest'],
    errors: `${at('warn-version')} "zz": must be "latest" or "v1.x"`,
  },
  {
    name: 'a warn label of its own is not raised',
    labels: { enforce: 'restricted', warn: 'privileged' },
    expected: ['restricted:latest', 'privileged:latest', 'privileged:latest'],
  },
  {
    name: 'a stricter default of warn stays',
    defaults: { warn: 'restricted', 'warn-version': 'v1.20' },
    labels: { enforce: 'baseline' },
    expected: ['baseline:latest', 'privileged:latest', 'restricted:v1.20'],
  },
  {
    name: 'a version alone keeps the default level',
    defaults: { enforce: 'baseline' },
    labels: { 'enforce-version': 'v1.30' },
    expected: ['baseline:v1.30', 'privileged:latest', 'privileged:latest'],
  },
  {
    name: 'a wrong enforce is restricted, and raises nothing',
    labels: { enforce: 'bogus', 'enforce-version': 'v1.20' },
    expected: ['restricted:v1.20', 'privileged:latest', 'privileged:latest'],
    errors: `${at('enforce')} "bogus": must be one of privileged, baseline, restricted`,
  },
  {
    name: 'a wrong warn counts as a label, and is privileged',
    labels: { enforce: 'restricted', warn: 'Baseline' },
    expected: ['restricted:latest', 'privileged:latest', 'privileged:latest'],
    errors: `${at('warn')} "Baseline": must be one of privileged, baseline, restricted`,
  },
  {
    name: 'the empty text is neither a level nor a version',
    labels: { audit: '', 'audit-version': '' },
    expected: ['privileged:latest', 'privileged:latest', 'privileged:latest'],
    errors: `[${at('audit')} "": must be one of privileged, baseline, restricted, ${at('audit-version')} "": must be "latest" or "v1.x"]`,
  },
  {
    name: 'all six wrong: order of the errors',
    labels: {
      'warn-version': '6',
      warn: '5',
      'audit-version': '4',
      audit: '3',
      'enforce-version': '2',
      enforce: '1\n',
    },
    expected: ['restricted:latest', 'privileged:latest', 'privileged:latest'],
    errors:
      `[${at('enforce')} "1\\n": must be one of privileged, baseline, restricted, ` +
      `${at('enforce-version')} "2": must be "latest" or "v1.x", ` +
      `${at('audit')} "3": must be one of privileged, baseline, restricted, ` +
      `${at('audit-version')} "4": must be "latest" or "v1.x", ` +
      `${at('warn')} "5": must be one of privileged, baseline, restricted, ` +
      `${at('warn-version')} "6": must be "latest" or "v1.x"]`,
  },
  {
    name: 'a version of the future is accepted',
    labels: { enforce: 'baseline', 'enforce-version': 'v1.999' },
    expected: ['baseline:v1.999', 'privileged:latest', 'baseline:v1.999'],
  },
];

for (const { name, defaults, labels, expected, errors = '' } of CASES) {
  test(name, () => {
    const { policies } = completeDefaults({ ...DEFAULT_CONFIGURATION.defaults, ...defaults });
    const resolved = resolvePolicies(namespaceWith(labels).metadata?.labels, policies);
    assert.deepEqual(
      MODES.map((mode) => printPolicy(resolved[mode])),
      expected,
    );
    assert.equal(resolved.errors.length === 0 ? '' : formatFieldErrors(resolved.errors), errors);
  });
}

const { policies: privileged } = completeDefaults(DEFAULT_CONFIGURATION.defaults);

test('labels that no API server lets through are errors too', () => {
  const labels = { 'pod-security.kubernetes.io/enforce': 7, 'pod-security.kubernetes.io/audit-version': null };
  assert.equal(
    formatFieldErrors(resolvePolicies(labels, privileged).errors),
    `[${at('enforce')} 7: must be one of privileged, baseline, restricted, ${at('audit-version')} "": must be "latest" or "v1.x"]`,
  );
  assert.deepEqual(resolvePolicies(null, privileged).errors, []);
});

test('equal policies are one object', () => {
  const { metadata } = namespaceWith({ enforce: 'baseline', audit: 'baseline' });
  const { enforce, audit, warn } = resolvePolicies(metadata?.labels, privileged);
  assert.equal(audit, enforce);
  assert.equal(warn, enforce);
});

test('which modes a namespace sets', () => {
  const labels = namespaceWith({ enforce: 'x', 'warn-version': '' }).metadata?.labels;
  assert.deepEqual(
    MODES.filter((mode) => setsMode(labels, mode)),
    ['enforce', 'warn'],
  );
  assert.equal(setsMode(undefined, 'enforce'), false);
});

test('equivalence does not look at the versions of privileged policies', () => {
  const of = (labels: Labels) => resolvePolicies(namespaceWith(labels).metadata?.labels, privileged);
  assert.ok(areEquivalent(of({ 'enforce-version': 'v1.20' }), privileged));
  assert.ok(isFullyPrivileged(of({ 'warn-version': 'v1.20' })));
  assert.ok(!areEquivalent(of({ audit: 'baseline' }), of({ audit: 'baseline', 'audit-version': 'v1.20' })));
  assert.ok(!isFullyPrivileged(of({ audit: 'baseline' })));
});
