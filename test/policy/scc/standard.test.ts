import assert from 'node:assert/strict';
import { describe, suite, test } from 'node:test';
import { objectName } from '../../../src/kube/resources.ts';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { ClusterRole, ClusterRoleBinding } from '../../../src/kube/types.ts';
import { createAuthorizer } from '../../../src/policy/rbac/index.ts';
import { defaultScc } from '../../../src/policy/scc/object-defaults.ts';
import { validateSccObject } from '../../../src/policy/scc/object-validation.ts';
import {
  type Grant,
  grantObjects,
  planRbacObject,
  planStandardScc,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
  type StandardScc,
} from '../../../src/policy/scc/standard.ts';

for (const { scc } of STANDARD_SCCS) {
  test(`${scc.metadata?.name ?? ''} is valid and has all defaults`, () => {
    assert.deepEqual(validateSccObject(scc), []);
    assert.deepEqual(defaultScc(scc), scc);
  });
}

test('authenticated users may use only restricted-v2 and restricted-v3', () => {
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

test('each standard SCC has a ClusterRole, and hostmount has an additional one', () => {
  assert.deepEqual(
    STANDARD_CLUSTER_ROLES.map(({ metadata }) => metadata?.name),
    [...STANDARD_SCCS.map(({ scc }) => scc.metadata?.name), 'hostmount'].map(
      (name) => `system:openshift:scc:${name ?? ''}`,
    ),
  );
});

test('standard SCCs of the first generation are only created', () => {
  assert.deepEqual(
    STANDARD_SCCS.filter(({ upkeep }) => upkeep === 'create').map(({ scc }) => scc.metadata?.name),
    [
      ...['anyuid', 'hostaccess', 'hostmount-anyuid', 'hostmount-anyuid-v2', 'hostnetwork', 'nonroot', 'privileged'],
      'restricted',
    ],
  );
});

function getStandard(name: string): StandardScc {
  const found = STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === name);
  assert.ok(found);
  return found;
}

suite('planStandardScc creates, updates or keeps a standard SCC:', () => {
  const v2 = getStandard('restricted-v2').scc;
  const metadata = { ...v2.metadata, resourceVersion: '7', labels: { team: 'red' }, annotations: { note: 'ours' } };
  const cases: readonly (readonly [
    name: string,
    existing: SecurityContextConstraints | undefined,
    fields: readonly string[] | undefined,
  ])[] = [
    ['missing', undefined, []],
    ['unchanged', v2, undefined],
    ['with other metadata', { ...v2, metadata }, undefined],
    [
      'with absent fields set to empty values',
      { ...v2, priority: null, users: null, allowedFlexVolumes: [] },
      undefined,
    ],
    ['with additional users', { ...v2, users: ['alice'] }, ['users']],
    ['for a group', { ...v2, groups: ['system:authenticated'] }, ['groups']],
    ['with another priority', { ...v2, priority: 5 }, ['priority']],
    [
      'with more permissions',
      { ...v2, allowHostNetwork: true, runAsUser: { type: 'RunAsAny' } },
      ['allowHostNetwork', 'runAsUser'],
    ],
    ['with allowed sysctls', { ...v2, allowedUnsafeSysctls: ['*'] }, ['allowedUnsafeSysctls']],
    ['with volumes in another order', { ...v2, volumes: v2.volumes?.toReversed() ?? [] }, undefined],
    [
      'with fields of wrong types',
      { ...v2, allowHostPID: 'no' } as unknown as SecurityContextConstraints,
      ['allowHostPID'],
    ],
  ];
  for (const [name, existing, fields] of cases) {
    test(name, () => {
      const planned = planStandardScc(getStandard('restricted-v2'), existing, 'portcullis');
      assert.deepEqual(planned?.fields, fields);
      assert.equal(planned?.verb, fields && (existing ? 'update' : 'create'));
    });
  }

  test('an update of a standard SCC keeps its metadata', () => {
    const planned = planStandardScc(getStandard('restricted-v2'), { ...v2, metadata, users: ['alice'] }, 'portcullis');
    assert.deepEqual(planned?.object, { ...v2, metadata });
  });

  for (const name of ['anyuid', 'restricted', 'privileged', 'nested-container']) {
    test(`${name} is only created`, () => {
      const standard = getStandard(name);
      const edited = { ...standard.scc, users: ['alice'], allowHostPID: true };
      assert.deepEqual(planStandardScc(standard, undefined, 'portcullis')?.object, standard.scc);
      assert.equal(planStandardScc(standard, edited, 'portcullis'), undefined);
    });
  }

  const infra: readonly (readonly [scc: string, account: string])[] = [
    ['privileged', 'system:serviceaccount:openshift-infra:build-controller'],
    ['hostmount-anyuid', 'system:serviceaccount:openshift-infra:pv-recycler-controller'],
  ];
  for (const [name, account] of infra) {
    test(`${name} lists the account of OpenShift only in OpenShift compatibility mode, and keeps other changes`, () => {
      const standard = getStandard(name);
      const edited = { ...standard.scc, users: ['alice'], priority: 5 };
      const withAccount = { ...edited, users: ['alice', account] };
      assert.equal(planStandardScc(standard, undefined, 'portcullis')?.object.users?.includes(account), false);
      assert.equal(planStandardScc(standard, undefined, 'openshift')?.object.users?.includes(account), true);
      assert.deepEqual(planStandardScc(standard, withAccount, 'portcullis'), {
        ...{ verb: 'update', object: edited, fields: ['users'] },
      });
      assert.deepEqual(planStandardScc(standard, edited, 'openshift'), {
        ...{ verb: 'update', object: withAccount, fields: ['users'] },
      });
      assert.equal(planStandardScc(standard, edited, 'portcullis'), undefined);
      assert.equal(planStandardScc(standard, withAccount, 'openshift'), undefined);
    });
  }

  test('no standard SCC lists a service account of a namespace that a user might create', () => {
    for (const { scc, grantedTo } of STANDARD_SCCS) {
      for (const name of [...(scc.users ?? []), ...(scc.groups ?? []), ...grantedTo]) {
        assert.doesNotMatch(name, /^system:serviceaccounts?:/, objectName(scc));
        assert.match(name, /^system:/);
      }
    }
  });
});

test('changed rules of a standard role are reverted, but other changes are kept', () => {
  const [role] = STANDARD_CLUSTER_ROLES;
  assert.ok(role);
  const metadata = { ...role.metadata, resourceVersion: '7', labels: { team: 'red' } };
  const widened: ClusterRole = { ...role, metadata, rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }] };
  const aggregated: ClusterRole = { ...role, metadata, aggregationRule: { clusterRoleSelectors: [{}] } };
  assert.deepEqual(planRbacObject(role, undefined), { verb: 'create', object: role, fields: [] });
  assert.equal(planRbacObject(role, { ...role, metadata }), undefined);
  assert.deepEqual(planRbacObject(role, widened), {
    verb: 'update',
    object: { ...role, metadata },
    fields: ['rules'],
  });
  assert.deepEqual(planRbacObject(role, aggregated)?.fields, ['aggregationRule']);
});

test('changed subjects and roles of a standard binding are reverted, but other changes are kept', () => {
  const [binding] = STANDARD_CLUSTER_ROLE_BINDINGS;
  assert.ok(binding);
  const metadata = { ...binding.metadata, resourceVersion: '7' };
  const emptied: ClusterRoleBinding = { ...binding, metadata, subjects: [] };
  const other: ClusterRoleBinding = { ...binding, metadata, roleRef: { ...binding.roleRef, name: 'cluster-admin' } };
  assert.deepEqual(planRbacObject(binding, undefined), { verb: 'create', object: binding, fields: [] });
  assert.equal(planRbacObject(binding, { ...binding, metadata }), undefined);
  assert.deepEqual(planRbacObject(binding, emptied), {
    verb: 'update',
    object: { ...binding, metadata },
    fields: ['subjects'],
  });
  assert.deepEqual(planRbacObject(binding, other), { verb: 'replace', object: binding, fields: ['roleRef'] });
});

const grant = (namespace: string, serviceAccount: string, scc: string): Grant => ({ namespace, serviceAccount, scc });

/** Returns the kind, namespace and name of each object. */
function named(grants: readonly Grant[], roles: readonly string[]): readonly string[] {
  return grantObjects(grants, { hasRole: (scc) => roles.includes(scc) }).map(
    ({ kind, metadata }) => `${kind ?? ''} ${metadata?.namespace ?? '-'} ${metadata?.name ?? ''}`,
  );
}

describe('the bindings that grant the use of SCCs', () => {
  test('are an empty list if there are no grants', () => assert.deepEqual(named([], []), []));

  test('contain one binding for each account and SCC, sorted by name', () => {
    const grants = [
      grant('shop', 'web', 'b'),
      grant('shop', 'web', 'a'),
      grant('lab', 'web', 'b'),
      grant('shop', 'web', 'b'),
      grant('shop', 'db', 'b'),
    ];
    assert.deepEqual(named(grants, ['a', 'b']), [
      'RoleBinding lab portcullis:scc:b:web',
      'RoleBinding shop portcullis:scc:b:db',
      'RoleBinding shop portcullis:scc:a:web',
      'RoleBinding shop portcullis:scc:b:web',
    ]);
  });

  test('have unambiguous names even if the names of accounts and SCCs contain hyphens', () => {
    const grants = [grant('shop', 'c', 'a-b'), grant('shop', 'b-c', 'a')];
    assert.equal(new Set(named(grants, ['a', 'a-b'])).size, 2);
  });

  test('include a missing ClusterRole', () => {
    assert.deepEqual(grantObjects([grant('shop', 'web', 'custom')], { hasRole: () => false }), [
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRole',
        metadata: { name: 'system:openshift:scc:custom' },
        rules: [
          {
            apiGroups: ['security.openshift.io'],
            resources: ['securitycontextconstraints'],
            resourceNames: ['custom'],
            verbs: ['use'],
          },
        ],
      },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: 'portcullis:scc:custom:web', namespace: 'shop' },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:openshift:scc:custom' },
        subjects: [{ kind: 'ServiceAccount', name: 'web', namespace: 'shop' }],
      },
    ]);
  });
});
