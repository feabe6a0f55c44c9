/** Tests which namespaces a change affects. The cases are in `test/fixtures/rollout/affected-namespaces.yaml`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../../src/kube/types.ts';
import { findAffectedNamespaces, type ObjectChange } from '../../../src/policy/rollout/affected-namespaces.ts';
import { readFixture } from '../../support/fixtures.ts';
import { laxScc } from '../../support/scc.ts';

const RULES = [
  {
    apiGroups: ['security.openshift.io'],
    resources: ['securitycontextconstraints'],
    verbs: ['use'],
    resourceNames: ['anyuid'],
  },
];
const ROLES: Readonly<Record<string, KubeObject>> = {
  '/use-anyuid': withRules('use-anyuid', RULES),
  'a/use-anyuid': withRules('use-anyuid', RULES),
  '/view': withRules('view', []),
};
const CONTEXT = {
  sccNames: ['anyuid', 'restricted'],
  findRole: (namespace: string, name: string) => ROLES[`${namespace}/${name}`],
};

function withRules(name: string, rules: readonly unknown[]): KubeObject & { readonly rules: readonly unknown[] } {
  return { metadata: { name }, rules };
}

interface Case {
  readonly name: string;
  readonly change: ObjectChange;
  readonly expected: 'all' | readonly string[];
}

const LAX = laxScc({});

for (const { name, change, expected } of readFixture<readonly Case[]>('rollout/affected-namespaces.yaml')) {
  test(`findAffectedNamespaces finds the namespaces whose level a change may affect: ${name}`, () => {
    const { kind, before, after } = change;
    const complete = (fields?: KubeObject) => fields && { ...LAX, ...fields };
    const isScc = kind === 'SecurityContextConstraints';
    const given = isScc ? { kind, before: complete(before), after: complete(after) } : change;
    const affected = findAffectedNamespaces(given, CONTEXT);
    assert.deepEqual(affected === 'all' ? affected : [...affected].sort(), expected);
  });
}
