import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  createAuthorizer,
  type Action,
  type PolicyRule,
  type RbacObjects,
  type Subject,
  type RoleBindingLike,
  type RoleLike,
  type User,
} from '../../../src/policy/rbac/index.ts';
import { findMissingRules } from '../../../src/policy/rbac/rules.ts';

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

const NAMES = ['a', 'b', '*', '__proto__'];
const NAMESPACES = ['a', 'b'];
const name = fc.constantFrom(...NAMES);
const names = fc.array(name, { maxLength: 3 });
/** Asterisks are frequent, so that many requests are allowed. */
const patterns = fc.oneof({ weight: 1, arbitrary: fc.constant(['*']) }, { weight: 1, arbitrary: names });

const rule: fc.Arbitrary<PolicyRule> = fc.record({
  verbs: patterns,
  apiGroups: patterns,
  resources: fc.array(fc.constantFrom('a', '*', 'a/b', '*/b', '__proto__'), { maxLength: 3 }),
  resourceNames: fc.oneof(fc.constant([]), names),
  nonResourceURLs: fc.array(fc.constantFrom('/a', '/a/*', '/a**', '*'), { maxLength: 2 }),
});
const role: fc.Arbitrary<RoleLike> = fc.record({
  metadata: fc.record({ name, namespace: fc.constantFrom(...NAMESPACES) }),
  rules: fc.array(rule, { minLength: 1, maxLength: 3 }),
});
const subject: fc.Arbitrary<Subject> = fc.record(
  {
    kind: fc.constantFrom('User', 'Group', 'ServiceAccount', 'Other'),
    name: fc.constantFrom(...NAMES, 'system:serviceaccount:a:a'),
    namespace: fc.constantFrom('', ...NAMESPACES),
  },
  { requiredKeys: ['kind', 'name'] },
);
const binding: fc.Arbitrary<RoleBindingLike> = fc.record({
  metadata: fc.record({ name, namespace: fc.constantFrom(...NAMESPACES) }),
  subjects: fc.array(subject, { maxLength: 3 }),
  roleRef: fc.record({ kind: fc.constantFrom('Role', 'ClusterRole'), name }),
});
/** Stored objects: names are unique in a namespace, or in the cluster. */
const objects: fc.Arbitrary<RbacObjects> = fc.record({
  roles: fc.uniqueArray(role, { selector: (one) => `${one.metadata?.namespace}/${one.metadata?.name}` }),
  clusterRoles: fc.uniqueArray(role, { selector: (one) => one.metadata?.name }),
  roleBindings: fc.array(binding, { minLength: 2, maxLength: 8 }),
  clusterRoleBindings: fc.array(binding, { minLength: 1, maxLength: 4 }),
});
const user: fc.Arbitrary<User> = fc.record({
  username: fc.constantFrom(...NAMES, 'system:serviceaccount:a:a', 'system:serviceaccount:b:b'),
  groups: names,
});
const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record(
    {
      verb: name,
      apiGroup: name,
      resource: name,
      subresource: name,
      name,
      namespace: fc.constantFrom('', ...NAMESPACES),
    },
    { requiredKeys: ['verb', 'resource', 'apiGroup'] },
  ),
  fc.record({ verb: name, nonResourceURL: fc.constantFrom('/a', '/a/b', '/b') }),
);

test('the index answers as a walk over all bindings', () => {
  let allowed = 0;
  fc.assert(
    fc.property(objects, fc.array(fc.tuple(user, action), { minLength: 20, maxLength: 20 }), (given, requests) => {
      const authorize = createAuthorizer(given);
      for (const [who, what] of requests) {
        const expected = scan(given, who, what);
        assert.equal(authorize(who, what), expected);
        if (expected) allowed++;
      }
    }),
    { numRuns: 500 },
  );
  assert.ok(allowed > 100, `only ${allowed} requests were allowed`);
});

test('a field of a wrong type never grants more', () => {
  const field = fc.constantFrom('verbs', 'apiGroups', 'resources', 'resourceNames', 'nonResourceURLs');
  const wrong = fc.constantFrom<unknown>('*', 1, true, {}, { 0: '*' }, [1], [null], [['*']], ['*', 1]);
  fc.assert(
    fc.property(
      objects,
      field,
      wrong,
      fc.array(fc.tuple(user, action), { minLength: 20 }),
      (given, key, value, asked) => {
        const spoil = (role: RoleLike): RoleLike => ({
          ...role,
          rules: role.rules?.map((one) => ({ ...one, [key]: value })) ?? [],
        });
        const spoilt = { ...given, roles: given.roles.map(spoil), clusterRoles: given.clusterRoles.map(spoil) };
        const [before, after] = [createAuthorizer(given), createAuthorizer(spoilt)];
        for (const [who, what] of asked) assert.ok(before(who, what) || !after(who, what));
      },
    ),
  );
});

test('any JSON is read without an exception', () => {
  const list = fc.array(fc.jsonValue() as fc.Arbitrary<never>);
  const lists = fc.record({ roles: list, clusterRoles: list, roleBindings: list, clusterRoleBindings: list });
  fc.assert(
    fc.property(lists, user, action, (given, who, what) => {
      assert.equal(createAuthorizer(given)(who, what), false);
    }),
  );
});

/** The definition: any binding that applies, of any role that has any rule that fits. */
function scan(given: RbacObjects, who: User, what: Action): boolean {
  const scope = what.nonResourceURL === undefined ? (what.namespace ?? '') : '';
  const bindings = [
    ...given.clusterRoleBindings.map((one) => ({ one, namespace: '' })),
    ...given.roleBindings
      .filter((one) => scope !== '' && one.metadata?.namespace === scope)
      .map((one) => ({ one, namespace: scope })),
  ];
  return bindings.some(({ one, namespace }) => {
    if (!one.subjects?.some((each) => isMeant(each, who, namespace))) return false;
    const { kind, name: roleName } = one.roleRef;
    const roles =
      kind === 'ClusterRole'
        ? given.clusterRoles.filter((each) => each.metadata?.name === roleName)
        : given.roles.filter((each) => each.metadata?.name === roleName && each.metadata.namespace === namespace);
    return roles.some((each) => each.rules?.some((rules) => fits(rules, what)));
  });
}

function isMeant(each: Subject, who: User, bindingNamespace: string): boolean {
  if (each.kind === 'User') return each.name === who.username;
  if (each.kind === 'Group') return who.groups?.includes(each.name) ?? false;
  const namespace = each.namespace === undefined || each.namespace === '' ? bindingNamespace : each.namespace;
  return (
    each.kind === 'ServiceAccount' &&
    namespace !== '' &&
    who.username === `system:serviceaccount:${namespace}:${each.name}`
  );
}

function fits(rules: PolicyRule, what: Action): boolean {
  const has = (list: readonly string[] | undefined, value: string): boolean =>
    list?.some((each) => each === '*' || each === value) ?? false;
  if (!has(rules.verbs, what.verb)) return false;
  const url = what.nonResourceURL;
  if (url !== undefined) {
    return rules.nonResourceURLs?.some((each) => each === url || startsWithPattern(url, each)) ?? false;
  }
  const { resource = '', subresource, name: asked = '' } = what;
  const wanted = subresource === undefined ? [resource] : [`${resource}/${subresource}`, `*/${subresource}`];
  return (
    has(rules.apiGroups, what.apiGroup ?? '') &&
    wanted.some((each) => has(rules.resources, each)) &&
    (rules.resourceNames?.length === 0 || (rules.resourceNames?.includes(asked) ?? true))
  );
}

function startsWithPattern(url: string, pattern: string): boolean {
  return pattern.endsWith('*') && url.startsWith(pattern.replace(/\*+$/, ''));
}

const EVERYTHING = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] };
const PODS = { verbs: ['get', 'list'], apiGroups: [''], resources: ['pods'] };

interface Case {
  readonly name: string;
  readonly held?: readonly object[];
  readonly wanted: readonly object[];
  readonly missing: readonly string[];
}

const CASES: readonly Case[] = [
  { name: 'nothing is wanted', wanted: [], missing: [] },
  { name: 'what is held', held: [PODS], wanted: [PODS], missing: [] },
  {
    name: 'what is held by two rules',
    held: [
      { ...PODS, verbs: ['get'] },
      { ...PODS, verbs: ['list'] },
    ],
    wanted: [PODS],
    missing: [],
  },
  { name: 'nothing is held', wanted: [PODS], missing: ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'] },
  {
    name: 'a part is held',
    held: [{ ...PODS, verbs: ['get'] }],
    wanted: [{ ...PODS, resources: ['pods', 'secrets'] }],
    missing: [
      '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
      '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
    ],
  },
  {
    name: 'verbs of several rules are told together, in their order',
    wanted: [
      { ...PODS, verbs: ['watch'] },
      { ...PODS, apiGroups: ['apps'] },
      { ...PODS, verbs: ['get', 'watch'] },
    ],
    missing: [
      '{APIGroups:[""], Resources:["pods"], Verbs:["watch" "get" "watch"]}',
      '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}',
    ],
  },
  {
    name: 'each name stands for itself',
    held: [{ ...PODS, resourceNames: ['a'] }],
    wanted: [{ ...PODS, verbs: ['get'], resourceNames: ['a', 'b', 'c'] }],
    missing: [
      '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}',
      '{APIGroups:[""], Resources:["pods"], ResourceNames:["c"], Verbs:["get"]}',
    ],
  },
  {
    name: 'some names are not all',
    held: [{ ...PODS, resourceNames: ['a'] }],
    wanted: [{ ...PODS, verbs: ['get'] }],
    missing: ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
  },
  { name: 'all names are some', held: [PODS], wanted: [{ ...PODS, resourceNames: ['a'] }], missing: [] },
  { name: 'everything that is a resource', held: [EVERYTHING], wanted: [PODS, EVERYTHING], missing: [] },
  {
    name: 'an asterisk needs an asterisk',
    held: [PODS],
    wanted: [EVERYTHING],
    missing: ['{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'],
  },
  {
    name: 'subresources',
    held: [{ ...PODS, resources: ['pods', '*/scale'] }],
    wanted: [{ ...PODS, verbs: ['get'], resources: ['pods/scale', 'deployments/scale', 'pods/exec'] }],
    missing: ['{APIGroups:[""], Resources:["pods/exec"], Verbs:["get"]}'],
  },
  {
    name: 'paths, which everything does not include',
    held: [EVERYTHING, { verbs: ['get'], nonResourceURLs: ['/healthz', '/logs/**'] }],
    wanted: [{ verbs: ['get'], nonResourceURLs: ['/healthz', '/logs/a', '/metrics', '/logs'] }],
    missing: ['{NonResourceURLs:["/logs"], Verbs:["get"]}', '{NonResourceURLs:["/metrics"], Verbs:["get"]}'],
  },
  {
    name: 'odd texts are quoted',
    wanted: [{ verbs: ['"'], apiGroups: ['\n'], resources: ['é'] }],
    missing: ['{APIGroups:["\\n"], Resources:["é"], Verbs:["\\""]}'],
  },
  {
    name: 'what is malformed is not held',
    held: [{ ...EVERYTHING, resourceNames: 'a' }],
    wanted: [{ ...PODS, verbs: ['get'] }],
    missing: ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
  },
];

for (const { name, held = [], wanted, missing } of CASES) {
  test(name, () => assert.deepEqual(findMissingRules(held, wanted), missing));
}

test('a rule of a million rights is refused in a moment', { timeout: 5_000 }, () => {
  const many = Array.from({ length: 1000 }, (_, index) => `r${index}`);
  const rule = { verbs: many, apiGroups: many, resources: many };
  assert.ok(findMissingRules([PODS], [rule]).length > 0);
  assert.ok(findMissingRules([{ ...rule, verbs: ['get'] }], [rule]).length > 0);
  assert.deepEqual(findMissingRules([rule], [rule]), []);
});
