import { isObject } from '../../kube/types.ts';
import { readRules, type Rule } from './rules.ts';
import type { RbacObjects, RoleLike, User } from './types.ts';

/** The rules of the roles that a user has, one list per role. */
export type Grants = ReadonlySet<readonly Rule[]>;

/** The roles that are bound, by subject. */
export interface GrantIndex {
  /** What the user is granted in the whole cluster, then, if a namespace is named, in that namespace. */
  grantsOf(user: User, namespace: string): Iterable<Grants>;
}

interface BySubject {
  readonly users: Map<string, Set<readonly Rule[]>>;
  readonly groups: Map<string, Set<readonly Rule[]>>;
}

const CLUSTER = '';

/**
 * Files every binding under its subjects, so that the cost of an answer depends on what the user is granted and not on
 * what all others are.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/rbac/validation/rule.go
 */
export function indexGrants(objects: RbacObjects): GrantIndex {
  const roles = roleLookup(objects);
  const scopes = new Map<string, BySubject>();
  const file = (namespace: string, binding: unknown): void => {
    if (!isObject(binding)) return;
    const rules = roles(binding['roleRef'], namespace);
    if (rules === undefined || rules.length === 0 || !Array.isArray(binding['subjects'])) return;
    const scope = scopes.get(namespace) ?? { users: new Map(), groups: new Map() };
    scopes.set(namespace, scope);
    for (const subject of binding['subjects']) fileSubject(scope, subject, namespace, rules);
  };
  for (const binding of objects.clusterRoleBindings) file(CLUSTER, binding);
  for (const binding of objects.roleBindings) {
    const { namespace } = namesOf(binding);
    if (isName(namespace)) file(namespace, binding);
  }

  return {
    *grantsOf(user, namespace) {
      yield* grantsIn(scopes.get(CLUSTER), user);
      if (namespace !== CLUSTER) yield* grantsIn(scopes.get(namespace), user);
    },
  };
}

function* grantsIn(scope: BySubject | undefined, user: User): Generator<Grants> {
  if (!scope) return;
  const own = scope.users.get(user.username ?? '');
  if (own) yield own;
  for (const group of user.groups ?? []) {
    const grants = scope.groups.get(group);
    if (grants) yield grants;
  }
}

function fileSubject(scope: BySubject, subject: unknown, bindingNamespace: string, rules: readonly Rule[]): void {
  if (!isObject(subject) || typeof subject['name'] !== 'string') return;
  const { kind, name } = subject;
  if (kind === 'User') add(scope.users, name, rules);
  else if (kind === 'Group') add(scope.groups, name, rules);
  else if (kind === 'ServiceAccount') {
    const namespace =
      subject['namespace'] == null || subject['namespace'] === '' ? bindingNamespace : subject['namespace'];
    if (isName(namespace)) add(scope.users, `system:serviceaccount:${namespace}:${name}`, rules);
  }
}

function add(grants: Map<string, Set<readonly Rule[]>>, name: string, rules: readonly Rule[]): void {
  const set = grants.get(name);
  if (set) set.add(rules);
  else grants.set(name, new Set([rules]));
}

/** Finds the rules of the role that a binding refers to. A role is looked for in the namespace of the binding only. */
function roleLookup({
  roles,
  clusterRoles,
}: RbacObjects): (ref: unknown, namespace: string) => readonly Rule[] | undefined {
  const rulesOf = new Map<string, Map<string, readonly Rule[]>>();
  const keep = (namespace: string, role: RoleLike): void => {
    const { name } = namesOf(role);
    if (!isName(name)) return;
    const scope = rulesOf.get(namespace) ?? new Map<string, readonly Rule[]>();
    rulesOf.set(namespace, scope);
    scope.set(name, readRules(role.rules));
  };
  for (const role of clusterRoles) keep(CLUSTER, role);
  for (const role of roles) {
    const { namespace } = namesOf(role);
    if (isName(namespace)) keep(namespace, role);
  }

  return (ref, namespace) => {
    if (!isObject(ref) || !isName(ref['name'])) return undefined;
    if (ref['kind'] === 'ClusterRole') return rulesOf.get(CLUSTER)?.get(ref['name']);
    return ref['kind'] === 'Role' && namespace !== CLUSTER ? rulesOf.get(namespace)?.get(ref['name']) : undefined;
  };
}

function namesOf(object: unknown): { readonly name?: unknown; readonly namespace?: unknown } {
  const metadata = isObject(object) ? object['metadata'] : undefined;
  return isObject(metadata) ? metadata : {};
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
