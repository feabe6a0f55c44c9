import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parsePodSecurity } from '../../../src/config/configuration.ts';
import { buildAdmissionConfiguration, observeDefaults } from '../../../src/policy/rollout/observed-config.ts';

const ADVICE = {
  'enforce-version': 'latest',
  audit: 'restricted',
  'audit-version': 'latest',
  warn: 'restricted',
  'warn-version': 'latest',
};
const RESTRICTED = observeDefaults({ want: true, enforce: 'restricted' });
const EXEMPTIONS = { usernames: ['system:serviceaccount:builds:builder'], namespaces: [], runtimeClasses: ['kata'] };

suite('the observed defaults', () => {
  const cases = [
    ['are raised', { want: true, enforce: 'restricted' }, undefined, 'restricted'],
    ['are lowered', { want: false, enforce: 'privileged' }, RESTRICTED, 'privileged'],
    ['are kept while enforcement is unknown', { want: undefined, enforce: 'privileged' }, RESTRICTED, 'restricted'],
    ['enforce nothing without previous ones', { want: undefined, enforce: 'privileged' }, undefined, 'privileged'],
  ] as const;
  for (const [name, plan, before, enforce] of cases) {
    test(name, () => assert.deepEqual(observeDefaults(plan, before), { enforce, ...ADVICE }));
  }
});

suite('the configuration for an API server', () => {
  test('is valid, and contains the exemptions', () => {
    const document = buildAdmissionConfiguration(RESTRICTED, EXEMPTIONS);
    const { defaults, exemptions } = parsePodSecurity({ file: 'config.json', text: JSON.stringify(document) });
    assert.deepEqual(defaults.enforce, { level: 'restricted', version: 'latest' });
    assert.ok(exemptions.runtimeClass('kata') && exemptions.user('system:serviceaccount:builds:builder'));
  });

  test('is invalid without defaults', () => {
    assert.throws(
      () => parsePodSecurity({ file: 'config.json', text: JSON.stringify(buildAdmissionConfiguration({})) }),
      /^UserError: configuration error: enforce: must be one of privileged, baseline, restricted/,
    );
  });
});
