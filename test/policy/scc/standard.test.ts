import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAuthorizer } from '../../../src/policy/rbac/index.ts';
import { defaultScc, validateSccObject } from '../../../src/policy/scc/objects.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../../src/policy/scc/standard.ts';

for (const { scc } of STANDARD_SCCS) {
  test(`${scc.metadata?.name ?? ''} is valid and lacks no default`, () => {
    assert.deepEqual(validateSccObject(scc), []);
    assert.deepEqual(defaultScc(scc), scc);
  });
}

test('everybody may use restricted-v2 and restricted-v3, nobody more', () => {
  const authorize = createAuthorizer({
    roles: [],
    roleBindings: [],
    clusterRoles: STANDARD_CLUSTER_ROLES,
    clusterRoleBindings: STANDARD_CLUSTER_ROLE_BINDINGS,
  });
  const user = { username: 'alice', groups: ['system:authenticated'] };
  const resource = { apiGroup: 'security.openshift.io', resource: 'securitycontextconstraints' };
  const usable = STANDARD_SCCS.map(({ scc }) => scc.metadata?.name ?? '').filter((name) =>
    authorize(user, { verb: 'use', ...resource, name, namespace: 'demo' }),
  );
  assert.deepEqual(usable, ['restricted-v2', 'restricted-v3']);
});

test('each has a role, and so has one that never was', () => {
  assert.deepEqual(
    STANDARD_CLUSTER_ROLES.map(({ metadata }) => metadata?.name),
    [...STANDARD_SCCS.map(({ scc }) => scc.metadata?.name), 'hostmount'].map(
      (name) => `system:openshift:scc:${name ?? ''}`,
    ),
  );
});

test('those of the first generation are created once', () => {
  assert.deepEqual(
    STANDARD_SCCS.filter(({ upkeep }) => upkeep === 'create').map(({ scc }) => scc.metadata?.name),
    [
      ...['anyuid', 'hostaccess', 'hostmount-anyuid', 'hostmount-anyuid-v2', 'hostnetwork', 'nonroot', 'privileged'],
      'restricted',
    ],
  );
});
