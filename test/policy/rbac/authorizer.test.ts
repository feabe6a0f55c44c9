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
} from '../../../src/policy/rbac/library.ts';
import { action, objects, user } from './arbitrary.ts';

const NONE: RbacObjects = { roles: [], clusterRoles: [], roleBindings: [], clusterRoleBindings: [] };
const ALICE = { username: 'alice', groups: ['dev', 'system:authenticated'] };

const APP = { username: 'system:serviceaccount:shop:app', groups: ['system:serviceaccounts'] };
const PODS: PolicyRule = { verbs: ['get'], apiGroups: [''], resources: ['pods'] };
const GET_POD: Action = { verb: 'get', resource: 'pods', namespace: 'shop', name: 'a' };

/** Returns a ClusterRole with one rule, bound to alice in the whole cluster. */
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

/** Requests that were recorded with an API server cover all other parts of rules and bindings. */
suite('bindings grant their role to their subjects:', () => {
  const all: PolicyRule = { verbs: ['get'], apiGroups: ['*'], resources: ['*'] };
  const roles = [{ metadata: { name: 'r', namespace: 'shop' }, rules: [all] }];
  const clusterRoles = [{ metadata: { name: 'r' }, rules: [all] }];
  const alice: Subject = { kind: 'User', name: 'alice' };
  const app: Subject = { kind: 'ServiceAccount', name: 'app' };
  const cases: readonly (readonly [
    name: string,
    kind: 'roleBindings' | 'clusterRoleBindings',
    binding: ReturnType<typeof bind>,
    expected: boolean,
    user?: User,
  ])[] = [
    ['a service account without a namespace', 'roleBindings', bind(app), true, APP],
    ['a service account without a namespace', 'clusterRoleBindings', bind(app), false, APP],
    ['a Role', 'clusterRoleBindings', bind(alice, 'Role'), false],
  ];
  for (const [name, kind, binding, expected, user = ALICE] of cases) {
    test(`${kind}: ${name}`, () => {
      const objects = {
        ...NONE,
        roles,
        clusterRoles,
        [kind]: [{ metadata: { name: 'b', namespace: 'shop' }, ...binding }],
      };
      assert.equal(createAuthorizer(objects)(user, GET_POD), expected);
    });
  }
});

suite('malformed RBAC objects grant nothing:', () => {
  const binding = bind({ kind: 'User', name: 'alice' });
  const cases: readonly (readonly [name: string, objects: { readonly role?: unknown; readonly binding?: unknown }])[] =
    [
      ['names are not a list', { role: { rules: [{ ...PODS, resourceNames: 'a' }] } }],
      ['names are not strings', { role: { rules: [{ ...PODS, resourceNames: [1] }] } }],
      ['verbs are not a list', { role: { rules: [{ ...PODS, verbs: 'get' }] } }],
      ['rules are not objects', { role: { rules: [null, 'get', []] } }],
      ['subjects are not objects', { binding: { ...binding, subjects: [null, 'alice', { kind: 'User' }] } }],
      ['a binding has no roleRef', { binding: { ...binding, roleRef: null } }],
    ];
  for (const [name, { role = { rules: [PODS] }, binding: bound = binding }] of cases) {
    test(name, () => {
      const named = role === null ? null : { metadata: { name: 'r' }, ...(role as object) };
      const objects = { ...NONE, clusterRoles: [named], clusterRoleBindings: [bound] } as unknown as RbacObjects;
      assert.equal(createAuthorizer(objects)(ALICE, GET_POD), false);
    });
  }

  test('but the valid rules of their roles still apply', () => {
    const invalid = { ...PODS, resourceNames: 'a' } as unknown as PolicyRule;
    const objects = grantToAlice(invalid);
    const [role] = objects.clusterRoles;
    const authorize = createAuthorizer({ ...objects, clusterRoles: [{ ...role, rules: [invalid, PODS] }] });
    assert.equal(authorize(ALICE, GET_POD), true);
  });
});

test('RBAC names that are names of built-in properties have no special meaning', () => {
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const objects = grantToAlice({ verbs: [name], apiGroups: [name], resources: [name] });
    const action = { verb: name, apiGroup: name, resource: name, namespace: name };
    assert.equal(createAuthorizer(objects)(ALICE, action), true);
    assert.equal(createAuthorizer(objects)({ username: name, groups: [name] }, action), false);
    assert.equal(createAuthorizer(NONE)({ username: name, groups: [name] }, action), false);
  }
});

test('absent lists in RBAC objects are treated as empty', () => {
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
      const isNamed = (who: User, what: Action): boolean => {
        const names = namesFor(who, what, what.namespace ?? '');
        return names === 'any' || names.has(what.name ?? '');
      };
      const authorize = createAuthorizer(given);
      for (const [who, what] of asked) {
        const expected = authorize(who, what);
        assert.equal(allows(who, what), expected);
        if (what.nonResourceURL === undefined) assert.equal(isNamed(who, what), expected);
      }
      for (const one of given.roles) remove('Role', one);
      for (const one of given.clusterRoles) remove('ClusterRole', one);
      for (const [who, what] of asked) {
        assert.equal(allows(who, what), false);
        if (what.nonResourceURL === undefined) assert.equal(isNamed(who, what), false);
      }
      for (const one of given.clusterRoles) put('ClusterRole', one);
      for (const one of given.roles) put('Role', one);
      for (const [who, what] of asked)
        if (what.nonResourceURL === undefined) assert.equal(isNamed(who, what), authorize(who, what));
    }),
  );
});

test('a field of the wrong type in an RBAC object never grants additional permissions', () => {
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

test('the authorizer accepts any JSON value as an RBAC object without an error', () => {
  const list = fc.array(fc.jsonValue() as fc.Arbitrary<never>);
  const lists = fc.record({ roles: list, clusterRoles: list, roleBindings: list, clusterRoleBindings: list });
  fc.assert(
    fc.property(lists, user, action, (given, who, what) => {
      assert.equal(createAuthorizer(given)(who, what), false);
    }),
  );
});
