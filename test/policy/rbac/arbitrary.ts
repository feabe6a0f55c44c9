/** Generates RBAC objects and requests with few distinct names. */
import fc from 'fast-check';
import type {
  Action,
  PolicyRule,
  RbacObjects,
  RoleBindingLike,
  RoleLike,
  Subject,
  User,
} from '../../../src/policy/rbac/library.ts';

const NAMES = ['a', 'b', '*', '__proto__'];
const NAMESPACES = ['a', 'b'];
const name = fc.constantFrom(...NAMES);
const names = fc.array(name, { maxLength: 3 });
/** Asterisks are frequent, so many requests are allowed. */
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
  rules: fc.option(fc.array(rule, { minLength: 1, maxLength: 3 }), { nil: null }),
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
  subjects: fc.option(fc.array(subject, { maxLength: 3 }), { nil: null }),
  roleRef: fc.record({ kind: fc.constantFrom('Role', 'ClusterRole'), name }),
});
/** Generates stored objects, whose names are unique in a namespace or in the cluster. */
export const objects: fc.Arbitrary<RbacObjects> = fc.record({
  roles: fc.uniqueArray(role, { selector: (one) => `${one.metadata?.namespace}/${one.metadata?.name}` }),
  clusterRoles: fc.uniqueArray(role, { selector: (one) => one.metadata?.name }),
  roleBindings: fc.array(binding, { minLength: 2, maxLength: 8 }),
  clusterRoleBindings: fc.array(binding, { minLength: 1, maxLength: 4 }),
});
export const user: fc.Arbitrary<User> = fc.record({
  username: fc.constantFrom(...NAMES, 'system:serviceaccount:a:a', 'system:serviceaccount:b:b'),
  groups: names,
});
export const action: fc.Arbitrary<Action> = fc.oneof(
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
