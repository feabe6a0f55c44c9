import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { accessFromStore, canUseScc } from '../../src/cluster/access.ts';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import type { Kinds } from '../../src/kube/types.ts';
import { createAuthorizer } from '../../src/policy/rbac/index.ts';
import { RBAC_KINDS, type RbacKind } from '../../src/policy/rbac/rules.ts';
import type { Subject } from '../../src/policy/scc/access.ts';

const GROUP = 'security.openshift.io';
const RESOURCE = 'securitycontextconstraints';

interface RuleOptions {
  readonly names?: readonly string[];
  readonly verb?: string;
  readonly group?: string;
}

function role(name: string, { names = ['anyuid'], verb = 'use', group = GROUP }: RuleOptions = {}, namespace?: string) {
  const rules = [{ verbs: [verb], apiGroups: [group], resources: [RESOURCE], resourceNames: names }];
  return { metadata: namespace === undefined ? { name } : { name, namespace }, rules };
}

function binding(name: string, roleName: string, subjects: readonly object[], namespace?: string) {
  const kind = roleName.startsWith('own-') ? 'Role' : 'ClusterRole';
  return {
    metadata: namespace === undefined ? { name } : { name, namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: roleName },
    subjects,
  };
}

const put = <K extends RbacKind>(store: WritableStore, kind: K, object: unknown): void =>
  store.put(kind, object as Kinds[K]);

const ALICE: Subject = { username: 'alice', groups: ['system:authenticated', 'ops'] };
const USER = { kind: 'User', name: 'alice' };

suite('permissions to use SCCs', () => {
  const cases: readonly {
    readonly name: string;
    readonly fill: (store: WritableStore) => void;
    readonly subject?: Subject;
    readonly namespace?: string;
    readonly expected: boolean;
  }[] = [
    { name: 'nobody without a grant', fill: () => undefined, expected: false },
    {
      name: 'a role without a binding',
      fill: (store) => put(store, 'ClusterRole', role('use')),
      expected: false,
    },
    {
      name: 'a binding without its role',
      fill: (store) => put(store, 'ClusterRoleBinding', binding('b', 'use', [USER])),
      expected: false,
    },
    {
      name: 'another SCC',
      fill(store) {
        put(store, 'ClusterRole', role('use', { names: ['privileged'] }));
        put(store, 'ClusterRoleBinding', binding('b', 'use', [USER]));
      },
      expected: false,
    },
    {
      name: 'another verb',
      fill(store) {
        put(store, 'ClusterRole', role('use', { verb: 'get' }));
        put(store, 'ClusterRoleBinding', binding('b', 'use', [USER]));
      },
      expected: false,
    },
    {
      name: 'the same resource of another group',
      fill(store) {
        put(store, 'ClusterRole', role('use', { group: '' }));
        put(store, 'ClusterRoleBinding', binding('b', 'use', [USER]));
      },
      expected: false,
    },
    {
      name: 'a binding in another namespace',
      fill(store) {
        put(store, 'ClusterRole', role('use'));
        put(store, 'RoleBinding', binding('b', 'use', [USER], 'other'));
      },
      expected: false,
    },
    {
      name: 'a Role of another namespace',
      fill(store) {
        put(store, 'Role', role('own-use', {}, 'other'));
        put(store, 'RoleBinding', binding('b', 'own-use', [USER], 'shop'));
      },
      expected: false,
    },
    {
      name: 'a ClusterRoleBinding',
      fill(store) {
        put(store, 'ClusterRole', role('use'));
        put(store, 'ClusterRoleBinding', binding('b', 'use', [USER]));
      },
      expected: true,
    },
    {
      name: 'a binding created before its role',
      fill(store) {
        put(store, 'ClusterRoleBinding', binding('b', 'use', [USER]));
        put(store, 'ClusterRole', role('use'));
      },
      expected: true,
    },
    {
      name: 'a RoleBinding in the namespace',
      fill(store) {
        put(store, 'Role', role('own-use', {}, 'shop'));
        put(store, 'RoleBinding', binding('b', 'own-use', [{ kind: 'Group', name: 'ops' }], 'shop'));
      },
      expected: true,
    },
    {
      name: 'a role for SCCs of any name',
      fill(store) {
        put(store, 'ClusterRole', role('use', { names: [] }));
        put(store, 'ClusterRoleBinding', binding('b', 'use', [USER]));
      },
      expected: true,
    },
    {
      name: 'a service account without a namespace in the binding',
      fill(store) {
        put(store, 'ClusterRole', role('use'));
        put(store, 'RoleBinding', binding('b', 'use', [{ kind: 'ServiceAccount', name: 'web' }], 'shop'));
      },
      subject: { username: 'system:serviceaccount:shop:web', groups: [] },
      expected: true,
    },
    {
      name: 'system:masters without roles',
      fill: () => undefined,
      subject: { username: 'root', groups: ['system:masters'] },
      expected: true,
    },
    {
      name: 'names of Object.prototype',
      fill(store) {
        put(store, 'ClusterRole', role('constructor'));
        put(store, 'RoleBinding', binding('b', 'constructor', [{ kind: 'User', name: '__proto__' }], 'shop'));
      },
      subject: { username: '__proto__', groups: ['toString'] },
      expected: true,
    },
  ];
  for (const { name, fill, subject = ALICE, namespace = 'shop', expected } of cases) {
    test(name, () => {
      const before = createStore();
      fill(before);
      assert.equal(canUseScc(before)(subject, 'anyuid', namespace), expected, 'filled before');
      const after = createStore();
      const canUse = canUseScc(after);
      assert.equal(canUse(subject, 'anyuid', namespace), subject.groups.includes('system:masters'));
      fill(after);
      assert.equal(canUse(subject, 'anyuid', namespace), expected, 'filled after the same subject was asked about');
      const names = canUse.namesFor?.(subject, namespace) ?? new Set();
      assert.equal(names === 'any' || names.has('anyuid'), expected, 'among all that the subject may use');
    });
  }

  test('one predicate per store', () => {
    const store = createStore();
    assert.equal(canUseScc(store), canUseScc(store));
  });

  test('a subject in two namespaces', () => {
    const store = createStore();
    put(store, 'ClusterRole', role('use'));
    put(store, 'RoleBinding', binding('b', 'use', [USER], 'shop'));
    const canUse = canUseScc(store);
    assert.deepEqual(
      ['shop', 'other', 'shop'].map((namespace) => canUse(ALICE, 'anyuid', namespace)),
      [true, false, true],
    );
  });
});

suite('changes', () => {
  const filled = (): WritableStore => {
    const store = createStore();
    put(store, 'ClusterRole', role('use'));
    put(store, 'ClusterRoleBinding', binding('a', 'use', [USER, USER]));
    put(store, 'RoleBinding', binding('b', 'use', [USER], 'shop'));
    return store;
  };
  const cases: readonly {
    readonly name: string;
    readonly change: (store: WritableStore) => void;
    readonly expected: readonly [inShop: boolean, elsewhere: boolean];
  }[] = [
    { name: 'nothing', change: () => undefined, expected: [true, true] },
    {
      name: 'a deleted binding',
      change: (store) => store.remove('ClusterRoleBinding', 'a'),
      expected: [true, false],
    },
    {
      name: 'all bindings deleted',
      change(store) {
        store.remove('ClusterRoleBinding', 'a');
        store.remove('RoleBinding', 'b', 'shop');
      },
      expected: [false, false],
    },
    {
      name: 'a subject removed from a binding',
      change: (store) => put(store, 'ClusterRoleBinding', binding('a', 'use', [{ kind: 'User', name: 'bob' }])),
      expected: [true, false],
    },
    {
      name: 'changed rules of the role',
      change: (store) => put(store, 'ClusterRole', role('use', { names: ['privileged'] })),
      expected: [false, false],
    },
    {
      name: 'a deleted role',
      change: (store) => store.remove('ClusterRole', 'use'),
      expected: [false, false],
    },
    {
      name: 'a role that is created again',
      change(store) {
        store.remove('ClusterRole', 'use');
        put(store, 'ClusterRole', role('use'));
      },
      expected: [true, true],
    },
  ];
  for (const { name, change, expected } of cases) {
    test(name, () => {
      const store = filled();
      const canUse = canUseScc(store);
      assert.ok(canUse(ALICE, 'anyuid', 'shop'));
      change(store);
      assert.deepEqual(
        ['shop', 'other'].map((namespace) => canUse(ALICE, 'anyuid', namespace)),
        expected,
      );
    });
  }
});

test('after any changes the results equal those of a new authorizer', () => {
  const names = fc.constantFrom('a', 'b');
  const namespaces = fc.constantFrom('shop', 'other');
  const subjects = fc.array(
    fc.oneof(
      fc.record({ kind: fc.constantFrom('User', 'Group', 'Unknown'), name: names }),
      fc.record({ kind: fc.constant('ServiceAccount'), name: names, namespace: fc.option(namespaces, { nil: '' }) }),
      fc.constant(null),
    ),
    { maxLength: 3 },
  );
  const rules = fc.array(
    fc.record({
      verbs: fc.constantFrom(['use'], ['*'], ['get']),
      apiGroups: fc.constantFrom([GROUP], ['*']),
      resources: fc.constantFrom([RESOURCE], ['pods']),
      resourceNames: fc.constantFrom([], ['anyuid'], ['privileged', 'anyuid'], 'broken'),
    }),
    { maxLength: 2 },
  );
  const step = fc.record({
    kind: fc.constantFrom(...RBAC_KINDS),
    remove: fc.boolean(),
    name: names,
    namespace: namespaces,
    ref: fc.constantFrom('a', 'b', 'own-a', 'own-b'),
    subjects,
    rules,
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), fc.nat(20), (steps, followFrom) => {
      const store = createStore();
      let access = undefined;
      for (const [index, { kind, remove, name, namespace, ref, subjects: bound, rules: granted }] of steps.entries()) {
        if (index === followFrom) access = accessFromStore(store);
        const place = kind.startsWith('Cluster') ? undefined : namespace;
        const ownName = kind === 'Role' ? `own-${name}` : name;
        if (remove) store.remove(kind, ownName, place);
        else if (kind.endsWith('Binding')) put(store, kind, binding(name, ref, bound as object[], place));
        else put(store, kind, { ...role(ownName, {}, place), rules: granted });
      }
      access ??= accessFromStore(store);
      const expected = createAuthorizer({
        roles: store.list('Role'),
        clusterRoles: store.list('ClusterRole'),
        roleBindings: store.list('RoleBinding'),
        clusterRoleBindings: store.list('ClusterRoleBinding'),
      });
      const canUse = canUseScc(store);
      for (const user of [
        { username: 'a', groups: ['b'] },
        { username: 'system:serviceaccount:shop:a', groups: [] },
      ]) {
        for (const namespace of ['', 'shop', 'other']) {
          const action = { verb: 'use', apiGroup: GROUP, resource: RESOURCE, name: 'anyuid', namespace };
          assert.equal(access(user, action), expected(user, action));
          assert.equal(canUse(user, 'anyuid', namespace), expected(user, action));
        }
      }
    }),
  );
});

test('the cost of a change does not depend on the number of bindings', () => {
  const store = createStore();
  put(store, 'ClusterRole', role('use'));
  for (let index = 0; index < 50_000; index++) {
    const namespace = `ns-${index % 10_000}`;
    put(store, 'RoleBinding', binding(`b-${index}`, 'use', [{ kind: 'ServiceAccount', name: 'web' }], namespace));
  }
  const canUse = canUseScc(store);
  const startMs = performance.now();
  const changes = 1000;
  for (let index = 0; index < changes; index++) {
    put(store, 'RoleBinding', binding(`b-${index}`, 'use', index % 2 === 0 ? [USER] : [], `ns-${index}`));
    assert.equal(canUse({ username: 'alice', groups: [] }, 'anyuid', `ns-${index}`), index % 2 === 0);
  }
  // A rebuild takes far longer than a millisecond.
  assert.ok(performance.now() - startMs < changes);
});
