import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  createAuthorizer,
  type Action,
  type PolicyRule,
  type RbacObjects,
  type Subject,
} from '../../../src/policy/rbac/index.ts';

const NONE: RbacObjects = { roles: [], clusterRoles: [], roleBindings: [], clusterRoleBindings: [] };
const ALICE = { username: 'alice', groups: ['dev', 'system:authenticated'] };
const APP = { username: 'system:serviceaccount:shop:app', groups: ['system:serviceaccounts'] };

/** A cluster role with one rule, bound to alice in the whole cluster. */
function granted(rule: PolicyRule): RbacObjects {
  return {
    ...NONE,
    clusterRoles: [{ metadata: { name: 'r' }, rules: [rule] }],
    clusterRoleBindings: [
      { metadata: { name: 'b' }, subjects: [{ kind: 'User', name: 'alice' }], roleRef: ref('ClusterRole', 'r') },
    ],
  };
}

function ref(kind: string, name: string): { kind: string; name: string } {
  return { kind, name };
}

describe('a rule', () => {
  const pods: PolicyRule = { verbs: ['get'], apiGroups: [''], resources: ['pods'] };
  const getPod: Action = { verb: 'get', resource: 'pods', namespace: 'shop', name: 'a' };
  const cases: readonly { name: string; rule: PolicyRule; action: Action; expected: boolean }[] = [
    { name: 'grants what it names', rule: pods, action: getPod, expected: true },
    { name: 'counts in the whole cluster', rule: pods, action: { verb: 'get', resource: 'pods' }, expected: true },
    { name: 'does not grant another verb', rule: pods, action: { ...getPod, verb: 'list' }, expected: false },
    {
      name: 'does not grant another resource',
      rule: pods,
      action: { ...getPod, resource: 'secrets' },
      expected: false,
    },
    { name: 'does not grant another group', rule: pods, action: { ...getPod, apiGroup: 'apps' }, expected: false },
    { name: 'grants every verb by an asterisk', rule: { ...pods, verbs: ['*'] }, action: getPod, expected: true },
    {
      name: 'grants every group by an asterisk',
      rule: { ...pods, apiGroups: ['*'] },
      action: { ...getPod, apiGroup: 'metrics.k8s.io' },
      expected: true,
    },
    { name: 'needs a group', rule: { ...pods, apiGroups: [] }, action: getPod, expected: false },
    {
      name: 'for a resource does not grant its subresources',
      rule: pods,
      action: { ...getPod, subresource: 'log' },
      expected: false,
    },
    {
      name: 'for a subresource grants it',
      rule: { ...pods, resources: ['pods/log'] },
      action: { ...getPod, subresource: 'log' },
      expected: true,
    },
    {
      name: 'for a subresource does not grant the resource',
      rule: { ...pods, resources: ['pods/log'] },
      action: getPod,
      expected: false,
    },
    {
      name: 'grants every resource and subresource by an asterisk',
      rule: { ...pods, resources: ['*'] },
      action: { ...getPod, subresource: 'exec' },
      expected: true,
    },
    {
      name: 'grants a subresource of every resource',
      rule: { ...pods, apiGroups: ['apps'], resources: ['*/scale'] },
      action: { verb: 'get', apiGroup: 'apps', resource: 'deployments', subresource: 'scale', namespace: 'shop' },
      expected: true,
    },
    {
      name: 'for one subresource of every resource does not grant another',
      rule: { ...pods, resources: ['*/scale'] },
      action: { ...getPod, subresource: 'autoscale' },
      expected: false,
    },
    {
      name: 'does not read an asterisk behind the slash',
      rule: { ...pods, resources: ['pods/*'] },
      action: { ...getPod, subresource: 'log' },
      expected: false,
    },
    {
      name: 'with names grants these',
      rule: { ...pods, resourceNames: ['b', 'a'] },
      action: getPod,
      expected: true,
    },
    {
      name: 'with names does not grant another',
      rule: { ...pods, resourceNames: ['b'] },
      action: getPod,
      expected: false,
    },
    {
      name: 'with names does not grant a request without one',
      rule: { ...pods, resourceNames: ['b'] },
      action: { verb: 'get', resource: 'pods', namespace: 'shop' },
      expected: false,
    },
    {
      name: 'does not read an asterisk among the names',
      rule: { ...pods, resourceNames: ['*'] },
      action: getPod,
      expected: false,
    },
    {
      name: 'grants a path',
      rule: { verbs: ['get'], nonResourceURLs: ['/healthz'] },
      action: { verb: 'get', nonResourceURL: '/healthz' },
      expected: true,
    },
    {
      name: 'does not grant what is below a path',
      rule: { verbs: ['get'], nonResourceURLs: ['/healthz'] },
      action: { verb: 'get', nonResourceURL: '/healthz/etcd' },
      expected: false,
    },
    {
      name: 'grants what begins as a path with an asterisk',
      rule: { verbs: ['get'], nonResourceURLs: ['/healthz/*'] },
      action: { verb: 'get', nonResourceURL: '/healthz/etcd' },
      expected: true,
    },
    {
      name: 'does not read an asterisk inside a path',
      rule: { verbs: ['get'], nonResourceURLs: ['/a/*/c'] },
      action: { verb: 'get', nonResourceURL: '/a/b/c' },
      expected: false,
    },
    {
      name: 'for every resource grants no path',
      rule: { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
      action: { verb: 'get', nonResourceURL: '/metrics' },
      expected: false,
    },
    {
      name: 'for every path grants no resource',
      rule: { verbs: ['*'], nonResourceURLs: ['*'] },
      action: getPod,
      expected: false,
    },
  ];
  for (const { name, rule, action, expected } of cases) {
    test(name, () => assert.equal(createAuthorizer(granted(rule))(ALICE, action), expected));
  }
});

describe('a binding', () => {
  const ANY: PolicyRule = { verbs: ['get'], apiGroups: ['*'], resources: ['*'] };
  const cases: readonly {
    name: string;
    kind: 'RoleBinding' | 'ClusterRoleBinding';
    subject: Subject;
    roleRef?: { kind: string; name: string };
    user?: { username: string; groups: string[] };
    namespace?: string;
    expected: boolean;
  }[] = [
    { name: 'to the user', kind: 'RoleBinding', subject: { kind: 'User', name: 'alice' }, expected: true },
    { name: 'to another user', kind: 'RoleBinding', subject: { kind: 'User', name: 'bob' }, expected: false },
    { name: 'to a group', kind: 'RoleBinding', subject: { kind: 'Group', name: 'dev' }, expected: true },
    {
      name: 'to a group of the name of the user',
      kind: 'RoleBinding',
      subject: { kind: 'Group', name: 'alice' },
      expected: false,
    },
    { name: 'to no such kind', kind: 'RoleBinding', subject: { kind: 'Robot', name: 'alice' }, expected: false },
    { name: 'to an asterisk', kind: 'RoleBinding', subject: { kind: 'User', name: '*' }, expected: false },
    {
      name: 'in another namespace',
      kind: 'RoleBinding',
      subject: { kind: 'User', name: 'alice' },
      namespace: 'other',
      expected: false,
    },
    {
      name: 'in a namespace, asked for the whole cluster',
      kind: 'RoleBinding',
      subject: { kind: 'User', name: 'alice' },
      namespace: '',
      expected: false,
    },
    {
      name: 'of the cluster',
      kind: 'ClusterRoleBinding',
      subject: { kind: 'User', name: 'alice' },
      namespace: 'other',
      expected: true,
    },
    {
      name: 'to a service account',
      kind: 'RoleBinding',
      subject: { kind: 'ServiceAccount', name: 'app', namespace: 'shop' },
      user: APP,
      expected: true,
    },
    {
      name: 'to a service account of its own namespace',
      kind: 'RoleBinding',
      subject: { kind: 'ServiceAccount', name: 'app' },
      user: APP,
      expected: true,
    },
    {
      name: 'to a service account of another namespace',
      kind: 'RoleBinding',
      subject: { kind: 'ServiceAccount', name: 'app', namespace: 'other' },
      user: APP,
      expected: false,
    },
    {
      name: 'of the cluster to a service account without a namespace',
      kind: 'ClusterRoleBinding',
      subject: { kind: 'ServiceAccount', name: 'app' },
      user: APP,
      expected: false,
    },
    {
      name: 'to a service account by its username',
      kind: 'ClusterRoleBinding',
      subject: { kind: 'User', name: APP.username },
      user: APP,
      expected: true,
    },
    {
      name: 'of a role',
      kind: 'RoleBinding',
      subject: { kind: 'User', name: 'alice' },
      roleRef: ref('Role', 'r'),
      expected: true,
    },
    {
      name: 'of a role that is missing',
      kind: 'RoleBinding',
      subject: { kind: 'User', name: 'alice' },
      roleRef: ref('Role', 'missing'),
      expected: false,
    },
    {
      name: 'of the cluster of a role',
      kind: 'ClusterRoleBinding',
      subject: { kind: 'User', name: 'alice' },
      roleRef: ref('Role', 'r'),
      expected: false,
    },
    {
      name: 'for system:masters, who have no special standing',
      kind: 'RoleBinding',
      subject: { kind: 'User', name: 'bob' },
      user: { username: 'root', groups: ['system:masters'] },
      expected: false,
    },
  ];
  for (const { name, kind, subject, roleRef, user = ALICE, namespace = 'shop', expected } of cases) {
    test(name, () => {
      const binding = { subjects: [subject], roleRef: roleRef ?? ref('ClusterRole', 'r') };
      const authorize = createAuthorizer({
        roles: [{ metadata: { name: 'r', namespace: 'shop' }, rules: [ANY] }],
        clusterRoles: [{ metadata: { name: 'r' }, rules: [ANY] }],
        roleBindings: kind === 'RoleBinding' ? [{ metadata: { name: 'b', namespace: 'shop' }, ...binding }] : [],
        clusterRoleBindings: kind === 'ClusterRoleBinding' ? [{ metadata: { name: 'b' }, ...binding }] : [],
      });
      assert.equal(authorize(user, { verb: 'get', resource: 'pods', namespace }), expected);
    });
  }

  test('in a namespace grants no path of the server', () => {
    const authorize = createAuthorizer({
      ...NONE,
      clusterRoles: [{ metadata: { name: 'r' }, rules: [{ verbs: ['*'], nonResourceURLs: ['*'] }] }],
      roleBindings: [
        {
          metadata: { name: 'b', namespace: 'shop' },
          subjects: [{ kind: 'User', name: 'alice' }],
          roleRef: ref('ClusterRole', 'r'),
        },
      ],
    });
    assert.equal(authorize(ALICE, { verb: 'get', nonResourceURL: '/metrics', namespace: 'shop' }), false);
  });
});

describe('what is malformed grants nothing', () => {
  const rule = { verbs: ['get'], apiGroups: [''], resources: ['pods'] };
  const binding = { subjects: [{ kind: 'User', name: 'alice' }], roleRef: ref('ClusterRole', 'r') };
  const cases: readonly { name: string; role?: unknown; binding?: unknown }[] = [
    { name: 'names that are no list', role: { rules: [{ ...rule, resourceNames: 'a' }] } },
    { name: 'names that are no texts', role: { rules: [{ ...rule, resourceNames: [1] }] } },
    { name: 'verbs that are no list', role: { rules: [{ ...rule, verbs: 'get' }] } },
    { name: 'rules that are no list', role: { rules: rule } },
    { name: 'a rule that is null', role: { rules: [null, 'get', []] } },
    { name: 'a role without a name', role: { metadata: null, rules: [rule] } },
    { name: 'a role that is null', role: null },
    { name: 'subjects that are no list', binding: { ...binding, subjects: { kind: 'User', name: 'alice' } } },
    { name: 'a subject that is null', binding: { ...binding, subjects: [null, 'alice', { kind: 'User' }] } },
    { name: 'no reference', binding: { ...binding, roleRef: null } },
    { name: 'a reference without a name', binding: { ...binding, roleRef: { kind: 'ClusterRole' } } },
    { name: 'a binding that is null', binding: null },
  ];
  for (const { name, role = { rules: [rule] }, binding: bound = binding } of cases) {
    test(name, () => {
      const named = role === null ? null : { metadata: { name: 'r' }, ...(role as object) };
      const authorize = createAuthorizer({
        ...NONE,
        clusterRoles: [named],
        clusterRoleBindings: [bound],
      } as unknown as RbacObjects);
      assert.equal(authorize(ALICE, { verb: 'get', resource: 'pods', name: 'a' }), false);
    });
  }

  test('the rest of a role holds', () => {
    const broken = { ...rule, resourceNames: 'a' } as unknown as PolicyRule;
    const objects = granted(broken);
    const [role] = objects.clusterRoles;
    const authorize = createAuthorizer({ ...objects, clusterRoles: [{ ...role, rules: [broken, rule] }] });
    assert.equal(authorize(ALICE, { verb: 'get', resource: 'pods' }), true);
  });
});

test('names of built-in properties are names like any other', () => {
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const objects = granted({ verbs: [name], apiGroups: [name], resources: [name] });
    const action = { verb: name, apiGroup: name, resource: name, namespace: name };
    assert.equal(createAuthorizer(objects)(ALICE, action), true);
    assert.equal(createAuthorizer(objects)({ username: name, groups: [name] }, action), false);
    assert.equal(createAuthorizer(NONE)({ username: name, groups: [name] }, action), false);
  }
});

test('lists that are missing are empty', () => {
  const action: Action = { verb: 'get', resource: 'pods' };
  assert.equal(createAuthorizer({})(ALICE, action), false);
  const { clusterRoles, clusterRoleBindings } = granted({ verbs: ['get'], apiGroups: [''], resources: ['pods'] });
  assert.equal(createAuthorizer({ clusterRoles, clusterRoleBindings })(ALICE, action), true);
});
