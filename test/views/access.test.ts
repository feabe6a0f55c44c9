import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import { type RbacKind } from '../../src/policy/rbac/index.ts';
import type { AccessSubject } from '../../src/policy/scc/index.ts';
import { sccAccess } from '../../src/views/access.ts';

const GROUP = 'security.openshift.io';
const RESOURCE = 'securitycontextconstraints';

interface RuleOptions {
  readonly names?: readonly string[];
  readonly verb?: string;
  readonly group?: string;
}

type RbacObject = readonly [kind: RbacKind, object: object];

/** Returns a Role if a namespace is given, otherwise a ClusterRole. */
function role(name: string, { names = ['anyuid'], verb = 'use', group = GROUP }: RuleOptions = {}, namespace?: string) {
  const rules = [{ verbs: [verb], apiGroups: [group], resources: [RESOURCE], resourceNames: names }];
  const kind = namespace === undefined ? 'ClusterRole' : 'Role';
  return [kind, { metadata: { name, ...(namespace === undefined ? {} : { namespace }) }, rules }] as const;
}

/** Returns a RoleBinding if a namespace is given, otherwise a ClusterRoleBinding. Names of Roles begin with `own-`. */
function binding(name: string, roleName: string, subjects: readonly object[], namespace?: string) {
  const metadata = { name, ...(namespace === undefined ? {} : { namespace }) };
  const kind = roleName.startsWith('own-') ? 'Role' : 'ClusterRole';
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind, name: roleName };
  return [namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding', { metadata, roleRef, subjects }] as const;
}

function put(store: WritableStore, ...objects: readonly RbacObject[]): WritableStore {
  for (const [kind, object] of objects) store.put(kind, object);
  return store;
}

const ALICE: AccessSubject = { username: 'alice', groups: ['system:authenticated', 'ops'] };
const USER = { kind: 'User', name: 'alice' };
const BOUND = binding('b', 'use', [USER]);

suite('sccAccess grants the use of an SCC through roles and bindings:', () => {
  const ops = [{ kind: 'Group', name: 'ops' }];
  const account = [{ kind: 'ServiceAccount', name: 'web' }];
  const web: AccessSubject = { username: 'system:serviceaccount:shop:web', groups: [] };
  const proto: AccessSubject = { username: '__proto__', groups: ['toString'] };
  const cases: readonly (readonly [
    name: string,
    objects: readonly RbacObject[],
    expected: boolean,
    subject?: AccessSubject,
  ])[] = [
    ['a user without a grant', [], false],
    ['a binding without its role', [BOUND], false],
    ['another SCC', [role('use', { names: ['privileged'] }), BOUND], false],
    ['the same resource in another group', [role('use', { group: '' }), BOUND], false],
    ['a binding in another namespace', [role('use'), binding('b', 'use', [USER], 'other')], false],
    ['a Role in another namespace', [role('own-use', {}, 'other'), binding('b', 'own-use', [USER], 'shop')], false],
    ['a ClusterRoleBinding', [role('use'), BOUND], true],
    ['a binding that was created before its role', [BOUND, role('use')], true],
    ['a RoleBinding in the namespace', [role('own-use', {}, 'shop'), binding('b', 'own-use', ops, 'shop')], true],
    ['a role for SCCs of any name', [role('use', { names: [] }), BOUND], true],
    [
      'a binding that names a service account without a namespace',
      [role('use'), binding('b', 'use', account, 'shop')],
      true,
      web,
    ],
    ['a user in system:masters without roles', [], true, { username: 'root', groups: ['system:masters'] }],
    [
      'a role and a user with names of Object.prototype',
      [role('constructor'), binding('b', 'constructor', [{ kind: 'User', name: '__proto__' }], 'shop')],
      true,
      proto,
    ],
  ];
  for (const [name, objects, expected, subject = ALICE] of cases) {
    test(`${name}: ${expected ? 'granted' : 'not granted'}`, () => {
      assert.equal(sccAccess(put(createStore(), ...objects)).canUse(subject, 'anyuid', 'shop'), expected);
      const store = createStore();
      const access = sccAccess(store);
      assert.equal(access.canUse(subject, 'anyuid', 'shop'), subject.groups.includes('system:masters'));
      put(store, ...objects);
      assert.equal(access.canUse(subject, 'anyuid', 'shop'), expected, 'after changes');
      const names = access.namesFor?.(subject, 'shop') ?? new Set();
      assert.equal(names === 'any' || names.has('anyuid'), expected, 'among the names');
    });
  }

  test('a store always has the same predicate', () => {
    const store = createStore();
    assert.equal(sccAccess(store), sccAccess(store));
  });
});

suite('a change to roles and bindings takes effect:', () => {
  const cases: readonly (readonly [
    name: string,
    change: (store: WritableStore) => unknown,
    inShop: boolean,
    elsewhere: boolean,
  ])[] = [
    ['nothing', () => undefined, true, true],
    ['a ClusterRoleBinding is deleted', (store) => store.remove('ClusterRoleBinding', 'b'), true, false],
    ['a RoleBinding is deleted', (store) => store.remove('RoleBinding', 'c', 'shop'), true, true],
    ['the rules of a role are changed', (store) => put(store, role('use', { names: ['privileged'] })), false, false],
    ['a role is deleted', (store) => store.remove('ClusterRole', 'use'), false, false],
    [
      'a role is deleted and created again',
      (store) => {
        store.remove('ClusterRole', 'use');
        put(store, role('use'));
      },
      true,
      true,
    ],
  ];
  for (const [name, change, ...expected] of cases) {
    test(name, () => {
      const bindings = [binding('b', 'use', [USER, USER]), binding('c', 'use', [USER], 'shop')];
      const store = put(createStore(), role('use'), ...bindings);
      const access = sccAccess(store);
      assert.ok(access.canUse(ALICE, 'anyuid', 'shop'));
      change(store);
      assert.deepEqual(
        ['shop', 'other'].map((namespace) => access.canUse(ALICE, 'anyuid', namespace)),
        expected,
      );
    });
  }
});
