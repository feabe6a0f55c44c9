import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  type Action,
  createAuthorizer,
  type RbacObjects,
  type Subject,
  type User,
} from '../../../src/policy/rbac/library.ts';
import { findGrants, matchesUser, type RbacGrant, whoCan } from '../../../src/policy/rbac/who-can.ts';
import { action, objects, user } from './arbitrary.ts';

const NONE: RbacObjects = { roles: [], clusterRoles: [], roleBindings: [], clusterRoleBindings: [] };
const USE: Action = { verb: 'use', apiGroup: 'g', resource: 'sccs', name: 'anyuid' };
const RULE = { verbs: ['use'], apiGroups: ['g'], resources: ['sccs'], resourceNames: ['anyuid'] };

function bind(name: string, [kind, role]: readonly [string, string], subjects: readonly Subject[]) {
  const [namespace, bindingName = name] = name.includes('/') ? name.split('/') : [];
  const metadata = { name: bindingName, ...(namespace === undefined ? {} : { namespace }) };
  return { metadata, roleRef: { kind, name: role }, subjects };
}

const APP = { kind: 'ServiceAccount', name: 'app' };
const [ALICE, BOB, CAROL] = ['alice', 'bob', 'carol'].map((name) => ({ kind: 'User', name })) as [
  Subject,
  Subject,
  Subject,
];

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
    bind('shop/z', ['Role', 'use'], [APP, { ...APP, namespace: 'shop' }, { ...APP, namespace: 'bank' }, ALICE]),
    bind('shop/a', ['ClusterRole', 'use'], [{ kind: 'Group', name: 'dev' }]),
    bind('bank/a', ['ClusterRole', 'use'], [BOB]),
    bind('shop/none', ['Role', 'other'], [CAROL]),
    bind('shop/gone', ['Role', 'gone'], [CAROL]),
  ],
  clusterRoleBindings: [
    bind('admins', ['ClusterRole', 'all'], [{ kind: 'Group', name: 'admins' }]),
    bind('role-of-a-namespace', ['Role', 'use'], [CAROL]),
    bind('paths', ['ClusterRole', 'paths'], [CAROL]),
  ],
};

function userGrants(objects: RbacObjects, user: User, action: Action): readonly RbacGrant[] {
  return whoCan(objects, action).filter(({ subject }) => matchesUser(subject, user));
}

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

suite('grants are found', () => {
  const cases: readonly (readonly [name: string, found: readonly RbacGrant[], expected: readonly string[]])[] = [
    ['only if there are objects', whoCan(NONE, USE), []],
    ['in the whole cluster', whoCan(OBJECTS, USE), [ADMINS]],
    ['in a namespace', whoCan(OBJECTS, { ...USE, namespace: 'shop' }), [ADMINS, ...SHOP]],
    [
      'in a namespace without bindings, from only ClusterRoleBindings',
      whoCan(OBJECTS, { ...USE, namespace: 'else' }),
      [ADMINS],
    ],
    ['by findGrants in all namespaces', findGrants(OBJECTS, USE), [ADMINS, BANK, ...SHOP]],
    [
      'by findGrants regardless of the namespace of the action',
      findGrants(OBJECTS, { ...USE, namespace: 'x' }),
      [ADMINS, BANK, ...SHOP],
    ],
    [
      'for a non-resource path',
      whoCan(OBJECTS, { verb: 'use', nonResourceURL: '/a/b', namespace: 'shop' }),
      ['User carol: ClusterRoleBinding paths, ClusterRole paths'],
    ],
    [
      'for a user and the groups of the user',
      userGrants(OBJECTS, { username: 'alice', groups: ['dev'] }, { ...USE, namespace: 'shop' }),
      [SHOP[0] ?? '', SHOP[3] ?? ''],
    ],
    [
      'for a service account',
      userGrants(OBJECTS, { username: 'system:serviceaccount:bank:app' }, { ...USE, namespace: 'shop' }),
      [SHOP[2] ?? ''],
    ],
    [
      'only for the user who has them',
      userGrants(OBJECTS, { username: 'dev', groups: ['alice'] }, { ...USE, namespace: 'shop' }),
      [],
    ],
  ];
  for (const [name, found, expected] of cases) test(name, () => assert.deepEqual(found.map(print), expected));

  test('only in well-formed objects', () => {
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

suite('in arbitrary clusters,', () => {
  test('a user has a grant exactly if the authorizer allows the action', () => {
    fc.assert(
      fc.property(objects, user, action, (given, who, what) => {
        assert.equal(userGrants(given, who, what).length > 0, createAuthorizer(given)(who, what));
      }),
      { numRuns: 2000 },
    );
  });

  test('the order of roles and bindings does not affect the grants', () => {
    fc.assert(
      fc.property(objects, action, (given, what) => {
        const unique = <T extends { metadata?: { name?: string; namespace?: string } }>(
          all: readonly T[],
          isNamespaced: boolean,
        ): T[] => {
          const key = ({ metadata: { name, namespace } = {} }: T): string =>
            JSON.stringify(isNamespaced ? [name, namespace] : name);
          return [...new Map(all.map((one) => [key(one), one])).values()];
        };
        const sorted: RbacObjects = {
          roles: unique(given.roles, true),
          clusterRoles: unique(given.clusterRoles, false),
          roleBindings: unique(given.roleBindings, true),
          clusterRoleBindings: unique(given.clusterRoleBindings, false),
        };
        const reversed: RbacObjects = {
          roles: sorted.roles.toReversed(),
          clusterRoles: sorted.clusterRoles.toReversed(),
          roleBindings: sorted.roleBindings.toReversed(),
          clusterRoleBindings: sorted.clusterRoleBindings.toReversed(),
        };
        assert.deepEqual(findGrants(reversed, what), findGrants(sorted, what));
      }),
    );
  });
});
