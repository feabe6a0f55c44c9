import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  createAuthorizer,
  type Action,
  type PolicyRule,
  type RbacObjects,
  type RoleBindingLike,
  type RoleLike,
  type Subject,
  type User,
} from '../../../src/policy/rbac/index.ts';

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
