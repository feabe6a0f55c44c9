import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { compileVariables } from '../../../src/dev-cluster/cel.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION, generateGuardPolicy } from '../../../src/policy/psa/index.ts';
import type { CelVariable } from '../../../src/policy/pss/index.ts';
import { readFixture } from '../../support/fixtures.ts';

const podSecurity = createPodSecurity({
  ...DEFAULT_CONFIGURATION,
  defaults: { ...DEFAULT_CONFIGURATION.defaults, enforce: 'baseline' },
  exemptions: { ...DEFAULT_CONFIGURATION.exemptions, namespaces: ['exempt'] },
});
const scc = { mode: 'enforce', exemptNamespaces: ['exempt', 'exempt-scc'] } as const;
const SETTINGS = { guard: { labels: 'enforce' }, podSecurity, scc } as const;

interface Case {
  readonly name: string;
  readonly before?: JsonObject;
  readonly after: JsonObject;
  readonly finding?: string;
}

suite('the guard of namespace labels', () => {
  const find = compileVariables(generateGuardPolicy(SETTINGS, 'guard')[0]?.spec['variables'] as readonly CelVariable[]);
  for (const { name, before, after, finding } of readFixture<readonly Case[]>('psa/guard.yaml')) {
    test(name, () => {
      const oldObject = before === undefined ? null : { metadata: before };
      const input = { object: { metadata: { name: 'shop', ...after } }, oldObject };
      assert.equal(find(input)('variables.findings.join(", ")'), finding ?? '');
    });
  }

  test('treats an invalid level or version like reviews', () => {
    const labels = (level: string, version: string): JsonObject => ({
      metadata: {
        name: 'shop',
        labels: { 'pod-security.kubernetes.io/enforce': level, 'pod-security.kubernetes.io/enforce-version': version },
      },
    });
    const findings = (from: JsonObject, to: JsonObject) =>
      find({ oldObject: from, object: to })('variables.findings.join(", ")');
    assert.equal(findings(labels('', 'v1.x'), labels('restricted', 'latest')), '');
    assert.equal(findings(labels('', 'v1.x'), labels('Baseline', 'v1.99999999999999999999')), '');
    assert.equal(
      findings(labels('Baseline', 'v1.x'), labels('baseline', 'v1.37')),
      'lowers the enforced level from restricted to baseline, selects v1.37, which is older than latest',
    );
  });

  test('is off by default, only warns in warn mode, and ignores SCC labels while SCCs are off', () => {
    assert.deepEqual(generateGuardPolicy({ ...SETTINGS, guard: { labels: 'off' } }, 'guard'), []);
    const [policy, binding] = generateGuardPolicy(
      { ...SETTINGS, guard: { labels: 'warn' }, scc: { ...scc, mode: 'off' } },
      'guard',
    );
    assert.deepEqual(binding?.spec['validationActions'], ['Warn', 'Audit']);
    const text = JSON.stringify(policy);
    assert.doesNotMatch(text, /run-level|sa\.scc\.|disable-securitycontextconstraints|exempt-scc/);
  });
});
