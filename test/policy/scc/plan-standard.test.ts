import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { ClusterRole, ClusterRoleBinding } from '../../../src/kube/types.ts';
import {
  planClusterRole,
  planClusterRoleBinding,
  planStandardScc,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
  type StandardScc,
} from '../../../src/policy/scc/standard.ts';

function standardOf(name: string): StandardScc {
  const found = STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === name);
  assert.ok(found);
  return found;
}

suite('a standard SCC', () => {
  const v2 = standardOf('restricted-v2').scc;
  const metadata = { ...v2.metadata, resourceVersion: '7', labels: { team: 'red' }, annotations: { note: 'ours' } };
  const cases: readonly (readonly [
    name: string,
    existing: SecurityContextConstraints | undefined,
    fields: readonly string[] | undefined,
  ])[] = [
    ['missing', undefined, []],
    ['as it should be', v2, undefined],
    ['with metadata of others', { ...v2, metadata }, undefined],
    ['without what is absent anyway', { ...v2, priority: null, users: null, allowedFlexVolumes: [] }, undefined],
    ['with more users', { ...v2, users: ['alice'] }, ['users']],
    ['for a group', { ...v2, groups: ['system:authenticated'] }, ['groups']],
    ['with a priority', { ...v2, priority: 5 }, ['priority']],
    ['laxer', { ...v2, allowHostNetwork: true, runAsUser: { type: 'RunAsAny' } }, ['allowHostNetwork', 'runAsUser']],
    ['with sysctls', { ...v2, allowedUnsafeSysctls: ['*'] }, ['allowedUnsafeSysctls']],
    ['with an order of its own', { ...v2, volumes: v2.volumes?.toReversed() ?? [] }, undefined],
    ['of wrong types', { ...v2, allowHostPID: 'no' } as unknown as SecurityContextConstraints, ['allowHostPID']],
  ];
  for (const [name, existing, fields] of cases) {
    test(name, () => {
      const planned = planStandardScc(standardOf('restricted-v2'), existing);
      assert.deepEqual(planned?.fields, fields);
      assert.equal(planned?.verb, fields && (existing ? 'update' : 'create'));
    });
  }

  test('keeps the metadata that it has', () => {
    const planned = planStandardScc(standardOf('restricted-v2'), { ...v2, metadata, users: ['alice'] });
    assert.deepEqual(planned?.object, { ...v2, metadata });
  });

  for (const name of ['anyuid', 'restricted', 'privileged', 'nested-container']) {
    test(`${name} is only created`, () => {
      const standard = standardOf(name);
      assert.deepEqual(planStandardScc(standard, undefined)?.object, standard.scc);
      assert.equal(planStandardScc(standard, { ...standard.scc, users: ['alice'], allowHostPID: true }), undefined);
    });
  }
});

test('a standard role', () => {
  const [role] = STANDARD_CLUSTER_ROLES;
  assert.ok(role);
  const metadata = { ...role.metadata, resourceVersion: '7', labels: { team: 'red' } };
  const widened: ClusterRole = { ...role, metadata, rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }] };
  const aggregated: ClusterRole = { ...role, metadata, aggregationRule: { clusterRoleSelectors: [{}] } };
  assert.deepEqual(planClusterRole(role, undefined), { verb: 'create', object: role, fields: [] });
  assert.equal(planClusterRole(role, { ...role, metadata }), undefined);
  assert.deepEqual(planClusterRole(role, widened), {
    verb: 'update',
    object: { ...role, metadata },
    fields: ['rules'],
  });
  assert.deepEqual(planClusterRole(role, aggregated)?.fields, ['aggregationRule']);
});

test('a standard binding', () => {
  const [binding] = STANDARD_CLUSTER_ROLE_BINDINGS;
  assert.ok(binding);
  const metadata = { ...binding.metadata, resourceVersion: '7' };
  const emptied: ClusterRoleBinding = { ...binding, metadata, subjects: [] };
  const other: ClusterRoleBinding = { ...binding, metadata, roleRef: { ...binding.roleRef, name: 'cluster-admin' } };
  assert.deepEqual(planClusterRoleBinding(binding, undefined), { verb: 'create', object: binding, fields: [] });
  assert.equal(planClusterRoleBinding(binding, { ...binding, metadata }), undefined);
  assert.deepEqual(planClusterRoleBinding(binding, emptied), {
    verb: 'update',
    object: { ...binding, metadata },
    fields: ['subjects'],
  });
  assert.deepEqual(planClusterRoleBinding(binding, other), { verb: 'replace', object: binding, fields: ['roleRef'] });
});
