import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createAuthorizer, type Action, type RbacObjects, type User } from '../../../src/policy/rbac/index.ts';
import { findGrants, userGrants, whoCan, type RbacGrant } from '../../../src/policy/rbac/who-can.ts';

const NONE: RbacObjects = { roles: [], clusterRoles: [], roleBindings: [], clusterRoleBindings: [] };
const USE: Action = { verb: 'use', apiGroup: 'g', resource: 'sccs', name: 'anyuid' };
const RULE = { verbs: ['use'], apiGroups: ['g'], resources: ['sccs'], resourceNames: ['anyuid'] };

const OBJECTS: RbacObjects = {
  roles: [
    { metadata: { name: 'use', namespace: 'shop' }, rules: [RULE] },
    { metadata: { name: 'other', namespace: 'shop' }, rules: [{ ...RULE, resourceNames: ['privileged'] }] },
  ],
  clusterRoles: [
    { metadata: { name: 'all' }, rules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }] },
    { metadata: { name: 'use' }, rules: [RULE] },
    { metadata: { name: 'paths' }, rules: [{ verbs: ['use'], nonResourceURLs: ['/a/*'] }] },
  ],
  roleBindings: [
    {
      metadata: { name: 'z', namespace: 'shop' },
      roleRef: { kind: 'Role', name: 'use' },
      subjects: [
        { kind: 'ServiceAccount', name: 'app' },
        { kind: 'ServiceAccount', name: 'app', namespace: 'shop' },
        { kind: 'ServiceAccount', name: 'app', namespace: 'bank' },
        { kind: 'User', name: 'alice' },
      ],
    },
    {
      metadata: { name: 'a', namespace: 'shop' },
      roleRef: { kind: 'ClusterRole', name: 'use' },
      subjects: [{ kind: 'Group', name: 'dev' }],
    },
    {
      metadata: { name: 'a', namespace: 'bank' },
      roleRef: { kind: 'ClusterRole', name: 'use' },
      subjects: [{ kind: 'User', name: 'bob' }],
    },
    {
      metadata: { name: 'none', namespace: 'shop' },
      roleRef: { kind: 'Role', name: 'other' },
      subjects: [{ kind: 'User', name: 'carol' }],
    },
    {
      metadata: { name: 'gone', namespace: 'shop' },
      roleRef: { kind: 'Role', name: 'gone' },
      subjects: [{ kind: 'User', name: 'carol' }],
    },
  ],
  clusterRoleBindings: [
    {
      metadata: { name: 'admins' },
      roleRef: { kind: 'ClusterRole', name: 'all' },
      subjects: [{ kind: 'Group', name: 'admins' }],
    },
    {
      metadata: { name: 'no-role-of-a-namespace' },
      roleRef: { kind: 'Role', name: 'use' },
      subjects: [{ kind: 'User', name: 'carol' }],
    },
    {
      metadata: { name: 'paths' },
      roleRef: { kind: 'ClusterRole', name: 'paths' },
      subjects: [{ kind: 'User', name: 'carol' }],
    },
  ],
};

function print({ subject, role, binding }: RbacGrant): string {
  const name = (one: RbacGrant['role']): string =>
    `${one.kind} ${one.namespace === undefined ? '' : `${one.namespace}/`}${one.name}`;
  return `${name(subject)}: ${name(binding)}, ${name(role)}`;
}

const ADMINS = 'Group admins: ClusterRoleBinding admins, ClusterRole all';
const BANK = 'User bob: RoleBinding bank/a, ClusterRole use';
const SHOP = [
  'Group dev: RoleBinding shop/a, ClusterRole use',
  'ServiceAccount shop/app: RoleBinding shop/z, Role shop/use',
  'ServiceAccount bank/app: RoleBinding shop/z, Role shop/use',
  'User alice: RoleBinding shop/z, Role shop/use',
];

describe('who can', () => {
  const cases: readonly (readonly [name: string, found: readonly RbacGrant[], expected: readonly string[]])[] = [
    ['nobody where nothing is granted', whoCan(NONE, USE), []],
    ['in the whole cluster', whoCan(OBJECTS, USE), [ADMINS]],
    ['in a namespace', whoCan(OBJECTS, { ...USE, namespace: 'shop' }), [ADMINS, ...SHOP]],
    ['in a namespace without bindings', whoCan(OBJECTS, { ...USE, namespace: 'else' }), [ADMINS]],
    ['anywhere', findGrants(OBJECTS, USE), [ADMINS, BANK, ...SHOP]],
    ['anywhere, whatever namespace is named', findGrants(OBJECTS, { ...USE, namespace: 'x' }), [ADMINS, BANK, ...SHOP]],
    [
      'a path',
      whoCan(OBJECTS, { verb: 'use', nonResourceURL: '/a/b', namespace: 'shop' }),
      ['User carol: ClusterRoleBinding paths, ClusterRole paths'],
    ],
    [
      'by a user',
      userGrants(OBJECTS, { username: 'alice', groups: ['dev'] }, { ...USE, namespace: 'shop' }),
      [SHOP[0] ?? '', SHOP[3] ?? ''],
    ],
    [
      'by a service account',
      userGrants(OBJECTS, { username: 'system:serviceaccount:bank:app' }, { ...USE, namespace: 'shop' }),
      [SHOP[2] ?? ''],
    ],
    [
      'by somebody else',
      userGrants(OBJECTS, { username: 'dev', groups: ['alice'] }, { ...USE, namespace: 'shop' }),
      [],
    ],
  ];
  for (const [name, found, expected] of cases) test(name, () => assert.deepEqual(found.map(print), expected));

  test('what is malformed grants nothing', () => {
    const broken = {
      roles: [null, { metadata: null, rules: [RULE] }],
      clusterRoles: ['x', { metadata: { name: 'use' }, rules: [{ ...RULE, verbs: 'use' }] }, { metadata: { name: 7 } }],
      roleBindings: [
        null,
        {
          metadata: { name: 'a' },
          roleRef: { kind: 'ClusterRole', name: 'use' },
          subjects: [{ kind: 'User', name: 'a' }],
        },
      ],
      clusterRoleBindings: [
        {},
        { metadata: { name: 'a' }, roleRef: null, subjects: [{ kind: 'User', name: 'a' }] },
        { metadata: { name: 'a' }, roleRef: { kind: 'ClusterRole', name: 'use' }, subjects: 'alice' },
        { metadata: { name: 'a' }, roleRef: { kind: 'ClusterRole', name: 'use' }, subjects: [null, { kind: 'User' }] },
      ],
    } as unknown as RbacObjects;
    assert.deepEqual(findGrants(broken, USE), []);
  });
});

const name = fc.constantFrom('a', 'b', 'constructor', '__proto__', 'a:b');
const namespace = fc.constantFrom('', 'a', 'b', '__proto__');
const words = fc.array(fc.constantFrom('*', 'a', 'b'), { maxLength: 2 });
const rule = fc.record(
  { verbs: words, apiGroups: words, resources: words, resourceNames: fc.array(name, { maxLength: 2 }) },
  { requiredKeys: ['verbs'] },
);
const rules = fc.option(fc.array(rule, { maxLength: 2 }));
const subject = fc.record(
  { kind: fc.constantFrom('User', 'Group', 'ServiceAccount', 'Robot'), name, namespace },
  { requiredKeys: ['kind', 'name'] },
);
const roleRef = fc.record({ kind: fc.constantFrom('Role', 'ClusterRole'), name });
const subjects = fc.option(fc.array(subject, { maxLength: 3 }));
const some = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(one, { maxLength: 4 });
const objects = fc.record({
  roles: some(fc.record({ metadata: fc.record({ name, namespace }), rules })),
  clusterRoles: some(fc.record({ metadata: fc.record({ name }), rules })),
  roleBindings: some(fc.record({ metadata: fc.record({ name, namespace }), subjects, roleRef })),
  clusterRoleBindings: some(fc.record({ metadata: fc.record({ name }), subjects, roleRef })),
}) as fc.Arbitrary<RbacObjects>;
const user: fc.Arbitrary<User> = fc.record(
  {
    username: fc.oneof(name, fc.constantFrom('system:serviceaccount:a:b', 'system:serviceaccount:a:a:b', '')),
    groups: fc.array(name, { maxLength: 2 }),
  },
  { requiredKeys: [] },
);
const action: fc.Arbitrary<Action> = fc.record(
  {
    verb: fc.constantFrom('a', 'b'),
    apiGroup: fc.constantFrom('', 'a'),
    resource: fc.constantFrom('a', 'b'),
    name,
    namespace,
  },
  { requiredKeys: ['verb'] },
);

describe('for all objects, users and actions', () => {
  test('a user has a grant where the authorizer allows', () => {
    fc.assert(
      fc.property(objects, user, action, (given, who, what) => {
        assert.equal(userGrants(given, who, what).length > 0, createAuthorizer(given)(who, what));
      }),
      { numRuns: 2000 },
    );
  });

  test('the order of roles and bindings does not matter', () => {
    fc.assert(
      fc.property(objects, action, (given, what) => {
        const unique = <T extends { metadata?: object }>(all: readonly T[]): T[] => [
          ...new Map(all.map((one) => [JSON.stringify(one.metadata), one])).values(),
        ];
        const sorted: RbacObjects = {
          roles: unique(given.roles),
          clusterRoles: unique(given.clusterRoles),
          roleBindings: unique(given.roleBindings),
          clusterRoleBindings: unique(given.clusterRoleBindings),
        };
        const turned: RbacObjects = {
          roles: sorted.roles.toReversed(),
          clusterRoles: sorted.clusterRoles.toReversed(),
          roleBindings: sorted.roleBindings.toReversed(),
          clusterRoleBindings: sorted.clusterRoleBindings.toReversed(),
        };
        assert.deepEqual(findGrants(turned, what), findGrants(sorted, what));
      }),
    );
  });
});
