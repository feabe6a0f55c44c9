import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { createRbac } from '../../../src/policy/rbac/authorizer.ts';
import {
  type Action,
  createAuthorizer,
  type PolicyRule,
  type RbacObjects,
  type RoleLike,
  type Subject,
  type User,
} from '../../../src/policy/rbac/index.ts';
import { action, objects, user } from './arbitrary.ts';

const NONE: RbacObjects = { roles: [], clusterRoles: [], roleBindings: [], clusterRoleBindings: [] };
const ALICE = { username: 'alice', groups: ['dev', 'system:authenticated'] };
const APP = { username: 'system:serviceaccount:shop:app', groups: ['system:serviceaccounts'] };
const PODS: PolicyRule = { verbs: ['get'], apiGroups: [''], resources: ['pods'] };
const GET_POD: Action = { verb: 'get', resource: 'pods', namespace: 'shop', name: 'a' };

/** A ClusterRole with one rule, bound to alice in the whole cluster. */
function grantToAlice(rule: PolicyRule): RbacObjects {
  return {
    ...NONE,
    clusterRoles: [{ metadata: { name: 'r' }, rules: [rule] }],
    clusterRoleBindings: [{ metadata: { name: 'b' }, ...bind({ kind: 'User', name: 'alice' }) }],
  };
}

function bind(subject: Subject, kind = 'ClusterRole', name = 'r') {
  return { subjects: [subject], roleRef: { kind, name } };
}

suite('resource rules', () => {
  const cases: readonly (readonly [
    name: string,
    rule: Partial<PolicyRule>,
    action: Partial<Action>,
    expected: boolean,
  ])[] = [
    ['the same verb, group and resource', {}, {}, true],
    ['no name and namespace', {}, { name: '', namespace: '' }, true],
    ['another verb', {}, { verb: 'list' }, false],
    ['another resource', {}, { resource: 'secrets' }, false],
    ['another group', {}, { apiGroup: 'apps' }, false],
    ['all verbs', { verbs: ['*'] }, {}, true],
    ['all groups', { apiGroups: ['*'] }, { apiGroup: 'metrics.k8s.io' }, true],
    ['no group', { apiGroups: [] }, {}, false],
    ['a resource, not its subresources', {}, { subresource: 'log' }, false],
    ['a subresource', { resources: ['pods/log'] }, { subresource: 'log' }, true],
    ['a subresource, not its resource', { resources: ['pods/log'] }, {}, false],
    ['all resources include subresources', { resources: ['*'] }, { subresource: 'exec' }, true],
    ['a subresource of all resources', { resources: ['*/scale'] }, { subresource: 'scale' }, true],
    ['another subresource of all resources', { resources: ['*/scale'] }, { subresource: 'autoscale' }, false],
    ['all subresources of a resource are not a pattern', { resources: ['pods/*'] }, { subresource: 'log' }, false],
    ['a listed name', { resourceNames: ['b', 'a'] }, {}, true],
    ['a name that is not listed', { resourceNames: ['b'] }, {}, false],
    ['names, and a request without a name', { resourceNames: ['b'] }, { name: '' }, false],
    ['an asterisk is not a pattern of names', { resourceNames: ['*'] }, {}, false],
    ['a rule of paths', { apiGroups: [], resources: [], nonResourceURLs: ['*'], verbs: ['*'] }, {}, false],
  ];
  for (const [name, rule, action, expected] of cases) {
    test(name, () => {
      assert.equal(createAuthorizer(grantToAlice({ ...PODS, ...rule }))(ALICE, { ...GET_POD, ...action }), expected);
    });
  }
});

suite('non-resource rules', () => {
  const cases: readonly (readonly [pattern: string, path: string, expected: boolean])[] = [
    ['/healthz', '/healthz', true],
    ['/healthz', '/healthz/etcd', false],
    ['/healthz/*', '/healthz/etcd', true],
    ['/a/*/c', '/a/b/c', false],
  ];
  for (const [pattern, nonResourceURL, expected] of cases) {
    test(`${pattern} and ${nonResourceURL}`, () => {
      const authorize = createAuthorizer(grantToAlice({ verbs: ['get'], nonResourceURLs: [pattern] }));
      assert.equal(authorize(ALICE, { verb: 'get', nonResourceURL }), expected);
    });
  }

  test('a rule for all resources does not grant paths', () => {
    const authorize = createAuthorizer(grantToAlice({ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }));
    assert.equal(authorize(ALICE, { verb: 'get', nonResourceURL: '/metrics' }), false);
  });
  test('a RoleBinding does not grant paths', () => {
    const authorize = createAuthorizer({
      ...NONE,
      clusterRoles: [{ metadata: { name: 'r' }, rules: [{ verbs: ['*'], nonResourceURLs: ['*'] }] }],
      roleBindings: [{ metadata: { name: 'b', namespace: 'shop' }, ...bind({ kind: 'User', name: 'alice' }) }],
    });
    assert.equal(authorize(ALICE, { verb: 'get', nonResourceURL: '/metrics', namespace: 'shop' }), false);
  });
});

suite('bindings', () => {
  const all: PolicyRule = { verbs: ['get'], apiGroups: ['*'], resources: ['*'] };
  const roles = { roles: [{ metadata: { name: 'r', namespace: 'shop' }, rules: [all] }] };
  const clusterRoles = [{ metadata: { name: 'r' }, rules: [all] }];
  const isAllowed = (objects: Partial<RbacObjects>, user: User, namespace: string): boolean =>
    createAuthorizer({ ...NONE, ...roles, clusterRoles, ...objects })(user, {
      verb: 'get',
      resource: 'pods',
      namespace,
    });
  const alice: Subject = { kind: 'User', name: 'alice' };
  const app: Subject = { kind: 'ServiceAccount', name: 'app' };

  const inNamespace: readonly (readonly [
    name: string,
    binding: ReturnType<typeof bind>,
    expected: boolean,
    user?: User,
    namespace?: string,
  ])[] = [
    ['the user', bind(alice), true],
    ['another user', bind({ kind: 'User', name: 'bob' }), false],
    ['a group', bind({ kind: 'Group', name: 'dev' }), true],
    ['a group with the name of the user', bind({ kind: 'Group', name: 'alice' }), false],
    ['an unknown kind', bind({ kind: 'Robot', name: 'alice' }), false],
    ['an asterisk', bind({ kind: 'User', name: '*' }), false],
    ['another namespace', bind(alice), false, ALICE, 'other'],
    ['a request for the whole cluster', bind(alice), false, ALICE, ''],
    ['a service account', bind({ ...app, namespace: 'shop' }), true, APP],
    ['a service account without a namespace', bind(app), true, APP],
    ['a service account in another namespace', bind({ ...app, namespace: 'other' }), false, APP],
    ['a Role', bind(alice, 'Role'), true],
    ['a missing Role', bind(alice, 'Role', 'missing'), false],
    ['system:masters has no special permissions', bind(alice), false, { username: 'x', groups: ['system:masters'] }],
  ];
  for (const [name, binding, expected, user = ALICE, namespace = 'shop'] of inNamespace) {
    test(`RoleBinding: ${name}`, () => {
      const roleBindings = [{ metadata: { name: 'b', namespace: 'shop' }, ...binding }];
      assert.equal(isAllowed({ roleBindings }, user, namespace), expected);
    });
  }

  const inCluster: readonly (readonly [
    name: string,
    binding: ReturnType<typeof bind>,
    expected: boolean,
    user?: User,
  ])[] = [
    ['any namespace', bind(alice), true],
    ['a service account without a namespace', bind(app), false, APP],
    ['a service account identified by its username', bind({ kind: 'User', name: APP.username }), true, APP],
    ['a Role', bind(alice, 'Role'), false],
  ];
  for (const [name, binding, expected, user = ALICE] of inCluster) {
    test(`ClusterRoleBinding: ${name}`, () => {
      const clusterRoleBindings = [{ metadata: { name: 'b' }, ...binding }];
      assert.equal(isAllowed({ clusterRoleBindings }, user, 'other'), expected);
    });
  }
});

suite('malformed objects grant nothing', () => {
  const binding = bind({ kind: 'User', name: 'alice' });
  const cases: readonly (readonly [name: string, objects: { readonly role?: unknown; readonly binding?: unknown }])[] =
    [
      ['names are not a list', { role: { rules: [{ ...PODS, resourceNames: 'a' }] } }],
      ['names are not strings', { role: { rules: [{ ...PODS, resourceNames: [1] }] } }],
      ['verbs are not a list', { role: { rules: [{ ...PODS, verbs: 'get' }] } }],
      ['rules are not a list', { role: { rules: PODS } }],
      ['rules are not objects', { role: { rules: [null, 'get', []] } }],
      ['a role without a name', { role: { metadata: null, rules: [PODS] } }],
      ['a role is null', { role: null }],
      ['subjects are not a list', { binding: { ...binding, subjects: { kind: 'User', name: 'alice' } } }],
      ['subjects are not objects', { binding: { ...binding, subjects: [null, 'alice', { kind: 'User' }] } }],
      ['no reference', { binding: { ...binding, roleRef: null } }],
      ['a reference without a name', { binding: { ...binding, roleRef: { kind: 'ClusterRole' } } }],
      ['a binding is null', { binding: null }],
    ];
  for (const [name, { role = { rules: [PODS] }, binding: bound = binding }] of cases) {
    test(name, () => {
      const named = role === null ? null : { metadata: { name: 'r' }, ...(role as object) };
      const objects = { ...NONE, clusterRoles: [named], clusterRoleBindings: [bound] } as unknown as RbacObjects;
      assert.equal(createAuthorizer(objects)(ALICE, GET_POD), false);
    });
  }

  test('the valid rules of the role still apply', () => {
    const invalid = { ...PODS, resourceNames: 'a' } as unknown as PolicyRule;
    const objects = grantToAlice(invalid);
    const [role] = objects.clusterRoles;
    const authorize = createAuthorizer({ ...objects, clusterRoles: [{ ...role, rules: [invalid, PODS] }] });
    assert.equal(authorize(ALICE, GET_POD), true);
  });
});

test('names of built-in properties have no special meaning', () => {
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const objects = grantToAlice({ verbs: [name], apiGroups: [name], resources: [name] });
    const action = { verb: name, apiGroup: name, resource: name, namespace: name };
    assert.equal(createAuthorizer(objects)(ALICE, action), true);
    assert.equal(createAuthorizer(objects)({ username: name, groups: [name] }, action), false);
    assert.equal(createAuthorizer(NONE)({ username: name, groups: [name] }, action), false);
  }
});

test('absent lists are treated as empty', () => {
  assert.equal(createAuthorizer({})(ALICE, GET_POD), false);
  const { clusterRoles, clusterRoleBindings } = grantToAlice(PODS);
  assert.equal(createAuthorizer({ clusterRoles, clusterRoleBindings })(ALICE, GET_POD), true);
});

test('removed bindings and roles grant nothing, and namesFor agrees with allows', () => {
  const requests = fc.array(fc.tuple(user, action), { minLength: 20, maxLength: 20 });
  fc.assert(
    fc.property(objects, objects, requests, (given, removed, asked) => {
      const { put, remove, allows, namesFor } = createRbac();
      for (const one of given.roles) put('Role', one);
      for (const one of given.clusterRoles) put('ClusterRole', one);
      for (const one of [...given.roleBindings, ...removed.roleBindings]) put('RoleBinding', one);
      for (const one of given.clusterRoleBindings) put('ClusterRoleBinding', one);
      for (const one of removed.roleBindings) remove('RoleBinding', one);
      const authorize = createAuthorizer(given);
      for (const [who, what] of asked) {
        const expected = authorize(who, what);
        assert.equal(allows(who, what), expected);
        const names = what.nonResourceURL === undefined ? namesFor(who, what) : undefined;
        if (names) assert.equal(names === 'any' || names.has(what.name ?? ''), expected);
      }
      for (const one of given.roles) remove('Role', one);
      for (const one of given.clusterRoles) remove('ClusterRole', one);
      for (const [who, what] of asked) assert.equal(allows(who, what), false);
    }),
  );
});

test('a field that has the wrong type never grants additional permissions', () => {
  const field = fc.constantFrom('verbs', 'apiGroups', 'resources', 'resourceNames', 'nonResourceURLs');
  const wrong = fc.constantFrom<unknown>('*', 1, true, {}, { 0: '*' }, [1], [null], [['*']], ['*', 1]);
  fc.assert(
    fc.property(
      objects,
      field,
      wrong,
      fc.array(fc.tuple(user, action), { minLength: 20 }),
      (given, key, value, asked) => {
        const invalidate = (role: RoleLike): RoleLike => ({
          ...role,
          rules: role.rules?.map((one) => ({ ...one, [key]: value })) ?? [],
        });
        const invalid = {
          ...given,
          roles: given.roles.map(invalidate),
          clusterRoles: given.clusterRoles.map(invalidate),
        };
        const [before, after] = [createAuthorizer(given), createAuthorizer(invalid)];
        for (const [who, what] of asked) assert.ok(before(who, what) || !after(who, what));
      },
    ),
  );
});

test('any JSON value is accepted', () => {
  const list = fc.array(fc.jsonValue() as fc.Arbitrary<never>);
  const lists = fc.record({ roles: list, clusterRoles: list, roleBindings: list, clusterRoleBindings: list });
  fc.assert(
    fc.property(lists, user, action, (given, who, what) => {
      assert.equal(createAuthorizer(given)(who, what), false);
    }),
  );
});
