import { isObject } from '../../kube/types.ts';
import {
  readRules,
  type Rule,
  type RbacKind,
  type User,
  ruleAllows,
  ruleCovers,
  type Action,
  type Authorizer,
  type RbacObjects,
} from './rules.ts';

/** An index of roles and bindings by subject. */
interface GrantIndex {
  put(kind: RbacKind, object: unknown): void;
  /** Removes an object. It must be the object that was added. */
  remove(kind: RbacKind, object: unknown): void;
  /** True if a rule of the user, in the cluster or in the namespace, passes the test. An empty namespace is none. */
  someRule(user: User, namespace: string, test: (rule: Rule) => boolean): boolean;
}

/** A role. It may not exist, if a binding refers to it. */
interface Role {
  rules: readonly Rule[];
  exists: boolean;
  /** The number of bindings to subjects. */
  granted: number;
}

/** The roles of a subject, each with the number of its bindings. */
type Grants = Map<Role, number>;

interface Scope {
  readonly roles: Map<string, Role>;
  readonly users: Map<string, Grants>;
  readonly groups: Map<string, Grants>;
}

const CLUSTER = '';

/**
 * Creates an empty index. The cost of a query depends only on the bindings of the user. The cost of a change depends only
 * on the object, because bindings refer to roles and do not copy their rules.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/rbac/validation/rule.go
 */
function createGrantIndex(): GrantIndex {
  const scopes = new Map<string, Scope>();
  const scopeOf = (namespace: string): Scope => {
    const scope = scopes.get(namespace) ?? { roles: new Map(), users: new Map(), groups: new Map() };
    scopes.set(namespace, scope);
    return scope;
  };
  const setRole = (namespace: string, object: unknown, rules: readonly Rule[] | undefined): void => {
    const { name } = metadataOf(object);
    if (!isName(name)) return;
    const { roles } = scopeOf(namespace);
    const role = roleOf(roles, name);
    role.rules = rules ?? [];
    role.exists = rules !== undefined;
    removeUnused(roles, name, role);
  };
  const indexBinding = (namespace: string, binding: unknown, change: 1 | -1): void => {
    if (!isObject(binding) || !Array.isArray(binding['subjects'])) return;
    const ref = readRoleRef(binding['roleRef'], namespace);
    if (ref === undefined) return;
    const { roles } = scopeOf(ref.namespace);
    const role = roleOf(roles, ref.name);
    const scope = scopeOf(namespace);
    for (const subject of binding['subjects']) {
      const indexed = readSubject(subject, namespace);
      if (indexed) grant(scope[indexed.list], indexed.name, role, change);
    }
    removeUnused(roles, ref.name, role);
  };
  const file = (kind: RbacKind, object: unknown, change: 1 | -1): void => {
    const namespace = grantNamespace(kind, object);
    if (namespace === undefined) return;
    if (kind === 'RoleBinding' || kind === 'ClusterRoleBinding') indexBinding(namespace, object, change);
    else setRole(namespace, object, change > 0 && isObject(object) ? readRules(object['rules']) : undefined);
    const scope = scopeOf(namespace);
    if (scope.roles.size + scope.users.size + scope.groups.size === 0) scopes.delete(namespace);
  };

  return {
    put: (kind, object) => file(kind, object, 1),
    remove: (kind, object) => file(kind, object, -1),
    someRule: (user, namespace, test) =>
      someRuleIn(scopes.get(CLUSTER), user, test) ||
      (namespace !== CLUSTER && someRuleIn(scopes.get(namespace), user, test)),
  };
}

function someRuleIn(scope: Scope | undefined, user: User, test: (rule: Rule) => boolean): boolean {
  if (!scope) return false;
  if (someRuleOf(scope.users.get(user.username ?? ''), test)) return true;
  if (scope.groups.size === 0 || !user.groups) return false;
  return user.groups.some((group) => someRuleOf(scope.groups.get(group), test));
}

function someRuleOf(grants: Grants | undefined, test: (rule: Rule) => boolean): boolean {
  if (!grants) return false;
  for (const role of grants.keys()) if (role.rules.some(test)) return true;
  return false;
}

function grant(subjects: Map<string, Grants>, name: string, role: Role, change: 1 | -1): void {
  const grants = subjects.get(name) ?? new Map<Role, number>();
  const times = (grants.get(role) ?? 0) + change;
  if (times > 0) grants.set(role, times);
  else grants.delete(role);
  if (grants.size > 0) subjects.set(name, grants);
  else subjects.delete(name);
  role.granted += change;
}

function roleOf(roles: Map<string, Role>, name: string): Role {
  const role = roles.get(name) ?? { rules: [], exists: false, granted: 0 };
  roles.set(name, role);
  return role;
}

/** Removes a role that does not exist and has no binding. */
function removeUnused(roles: Map<string, Role>, name: string, { exists, granted }: Role): void {
  if (!exists && granted <= 0) roles.delete(name);
}

interface Place {
  readonly namespace: string;
  readonly name: string;
}

/** Reads the role of a binding. A Role has the namespace of the binding. */
export function readRoleRef(ref: unknown, namespace: string): Place | undefined {
  if (!isObject(ref) || !isName(ref['name'])) return undefined;
  if (ref['kind'] === 'ClusterRole') return { namespace: CLUSTER, name: ref['name'] };
  return ref['kind'] === 'Role' && namespace !== CLUSTER ? { namespace, name: ref['name'] } : undefined;
}

interface IndexedSubject {
  readonly list: 'users' | 'groups';
  readonly name: string;
}

/** Returns the key of a subject in the index. The key of a service account is its user name. */
export function readSubject(subject: unknown, bindingNamespace: string): IndexedSubject | undefined {
  if (!isObject(subject) || typeof subject['name'] !== 'string') return undefined;
  const { kind, name } = subject;
  if (kind === 'User') return { list: 'users', name };
  if (kind === 'Group') return { list: 'groups', name };
  if (kind !== 'ServiceAccount') return undefined;
  const own = subject['namespace'];
  const namespace = own == null || own === '' ? bindingNamespace : own;
  return isName(namespace) ? { list: 'users', name: `system:serviceaccount:${namespace}:${name}` } : undefined;
}

export function grantNamespace(kind: RbacKind, object: unknown): string | undefined {
  if (kind === 'ClusterRole' || kind === 'ClusterRoleBinding') return CLUSTER;
  const { namespace } = metadataOf(object);
  return isName(namespace) ? namespace : undefined;
}

function metadataOf(object: unknown): { readonly name?: unknown; readonly namespace?: unknown } {
  const metadata = isObject(object) ? object['metadata'] : undefined;
  return isObject(metadata) ? metadata : {};
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** The names of objects, or `any`. */
export type Names = ReadonlySet<string> | 'any';

/** An authorizer whose objects can be added and removed. */
export interface Rbac extends Pick<GrantIndex, 'put' | 'remove'> {
  readonly allows: Authorizer;
  /** The names of the objects for which the action is allowed, regardless of its name. */
  namesFor(user: User, action: Action): Names;
}

/** Creates an authorizer without objects. */
export function createRbac(): Rbac {
  const { put, remove, someRule } = createGrantIndex();
  return {
    put,
    remove,
    allows: (user, action) => someRule(user, actionNamespace(action), (rule) => ruleAllows(rule, action)),
    namesFor(user, action) {
      const names = new Set<string>();
      const isAny = someRule(user, actionNamespace(action), (rule) => {
        if (!ruleCovers(rule, action)) return false;
        for (const name of rule.resourceNames) names.add(name);
        return rule.resourceNames.length === 0;
      });
      return isAny ? 'any' : names;
    },
  };
}

/**
 * Creates an authorizer that decides as the RBAC authorizer of the API server. It does not observe changes of the objects.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/rbac/
 */
export function createAuthorizer(objects: Partial<RbacObjects>): Authorizer {
  const { put, allows } = createRbac();
  const putAll = (kind: RbacKind, all: readonly unknown[] | undefined): void =>
    all?.forEach((object) => put(kind, object));
  putAll('ClusterRole', objects.clusterRoles);
  putAll('Role', objects.roles);
  putAll('ClusterRoleBinding', objects.clusterRoleBindings);
  putAll('RoleBinding', objects.roleBindings);
  return allows;
}

/** Paths of the API server have no namespace. */
function actionNamespace({ nonResourceURL, namespace }: Action): string {
  return nonResourceURL == null ? (namespace ?? '') : '';
}
