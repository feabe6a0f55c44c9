import { isObject } from '../../kube/types.ts';
import {
  readRules,
  ruleAllows,
  ruleCovers,
  type Action,
  type Authorizer,
  type RbacKind,
  type RbacObjects,
  type Rule,
  type User,
} from './rules.ts';

/** The names of objects, or `any`. */
export type Names = ReadonlySet<string> | 'any';

/** An authorizer whose objects can be added and removed. */
export interface Rbac {
  put(kind: RbacKind, object: unknown): void;
  /** Removes an object. It must be the object that was added. */
  remove(kind: RbacKind, object: unknown): void;
  readonly allows: Authorizer;
  /** The names of the objects for which the action is allowed, regardless of its name. */
  namesFor(user: User, action: Action): Names;
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

/** The roles and bindings of a namespace, or those of the cluster. */
interface Scope {
  readonly roles: Map<string, Role>;
  readonly users: Map<string, Grants>;
  readonly groups: Map<string, Grants>;
}

const CLUSTER = '';

/**
 * Creates an authorizer without objects. The cost of a query depends only on the bindings of the user. The cost of a
 * change depends only on the object, because bindings refer to roles and do not copy their rules.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/rbac/validation/rule.go
 */
export function createRbac(): Rbac {
  const scopes = new Map<string, Scope>();
  const getScope = (namespace: string): Scope =>
    getOrCreate(scopes, namespace, () => ({ roles: new Map(), users: new Map(), groups: new Map() }));
  const setRole = (namespace: string, object: unknown, rules: readonly Rule[] | undefined): void => {
    const { name } = getMetadata(object);
    if (!isName(name)) return;
    const { roles } = getScope(namespace);
    const role = getRole(roles, name);
    role.rules = rules ?? [];
    role.exists = rules !== undefined;
    removeUnused(roles, name, role);
  };
  const indexBinding = (namespace: string, binding: unknown, change: 1 | -1): void => {
    if (!isObject(binding) || !Array.isArray(binding['subjects'])) return;
    const ref = readRoleRef(binding['roleRef'], namespace);
    if (ref === undefined) return;
    const { roles } = getScope(ref.namespace);
    const role = getRole(roles, ref.name);
    const scope = getScope(namespace);
    for (const subject of binding['subjects']) {
      const indexed = readSubject(subject, namespace);
      if (indexed) changeGrant(scope[indexed.list], indexed.name, role, change);
    }
    removeUnused(roles, ref.name, role);
  };
  const index = (kind: RbacKind, object: unknown, change: 1 | -1): void => {
    const namespace = grantNamespace(kind, object);
    if (namespace === undefined) return;
    if (kind === 'RoleBinding' || kind === 'ClusterRoleBinding') indexBinding(namespace, object, change);
    else setRole(namespace, object, change > 0 && isObject(object) ? readRules(object['rules']) : undefined);
    const scope = getScope(namespace);
    if (scope.roles.size + scope.users.size + scope.groups.size === 0) scopes.delete(namespace);
  };
  /** True if a rule of the user, in the cluster or in the namespace of the action, passes the test. */
  const someRule = (user: User, { nonResourceURL, namespace }: Action, test: (rule: Rule) => boolean): boolean =>
    someRuleIn(scopes.get(CLUSTER), user, test) ||
    // Paths of the API server have no namespace.
    (nonResourceURL == null && Boolean(namespace) && someRuleIn(scopes.get(namespace ?? CLUSTER), user, test));

  return {
    put: (kind, object) => index(kind, object, 1),
    remove: (kind, object) => index(kind, object, -1),
    allows: (user, action) => someRule(user, action, (rule) => ruleAllows(rule, action)),
    namesFor(user, action) {
      const names = new Set<string>();
      const isAny = someRule(user, action, (rule) => {
        if (!ruleCovers(rule, action)) return false;
        for (const name of rule.resourceNames) names.add(name);
        return rule.resourceNames.length === 0;
      });
      return isAny ? 'any' : names;
    },
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

function changeGrant(subjects: Map<string, Grants>, name: string, role: Role, change: 1 | -1): void {
  const grants = getOrCreate(subjects, name, () => new Map<Role, number>());
  const times = (grants.get(role) ?? 0) + change;
  if (times > 0) grants.set(role, times);
  else grants.delete(role);
  if (grants.size === 0) subjects.delete(name);
  role.granted += change;
}

function getRole(roles: Map<string, Role>, name: string): Role {
  return getOrCreate(roles, name, () => ({ rules: [], exists: false, granted: 0 }));
}

function getOrCreate<T>(map: Map<string, T>, key: string, create: () => T): T {
  const value = map.get(key) ?? create();
  map.set(key, value);
  return value;
}

/** Removes a role that does not exist and has no binding. */
function removeUnused(roles: Map<string, Role>, name: string, { exists, granted }: Role): void {
  if (!exists && granted <= 0) roles.delete(name);
}

/** Reads the role of a binding. A Role has the namespace of the binding. */
export function readRoleRef(
  ref: unknown,
  namespace: string,
): { readonly namespace: string; readonly name: string } | undefined {
  if (!isObject(ref) || !isName(ref['name'])) return undefined;
  if (ref['kind'] === 'ClusterRole') return { namespace: CLUSTER, name: ref['name'] };
  return ref['kind'] === 'Role' && namespace !== CLUSTER ? { namespace, name: ref['name'] } : undefined;
}

/** Returns the key of a subject in the index. The key of a service account is its user name. */
export function readSubject(
  subject: unknown,
  bindingNamespace: string,
): { readonly list: 'users' | 'groups'; readonly name: string } | undefined {
  if (!isObject(subject) || typeof subject['name'] !== 'string') return undefined;
  const { kind, name } = subject;
  if (kind === 'User') return { list: 'users', name };
  if (kind === 'Group') return { list: 'groups', name };
  const own = subject['namespace'];
  const namespace = own == null || own === '' ? bindingNamespace : own;
  if (kind !== 'ServiceAccount' || !isName(namespace)) return undefined;
  return { list: 'users', name: `system:serviceaccount:${namespace}:${name}` };
}

/** Returns the namespace of a role or binding: empty for the cluster, `undefined` if it is missing. */
export function grantNamespace(kind: RbacKind, object: unknown): string | undefined {
  if (kind === 'ClusterRole' || kind === 'ClusterRoleBinding') return CLUSTER;
  const { namespace } = getMetadata(object);
  return isName(namespace) ? namespace : undefined;
}

function getMetadata(object: unknown): { readonly name?: unknown; readonly namespace?: unknown } {
  const metadata = isObject(object) ? object['metadata'] : undefined;
  return isObject(metadata) ? metadata : {};
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/**
 * Creates an authorizer that decides as the RBAC authorizer of the API server. It does not observe changes of the objects.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/rbac/
 */
export function createAuthorizer(objects: Partial<RbacObjects>): Authorizer {
  const { put, allows } = createRbac();
  for (const role of objects.clusterRoles ?? []) put('ClusterRole', role);
  for (const role of objects.roles ?? []) put('Role', role);
  for (const binding of objects.clusterRoleBindings ?? []) put('ClusterRoleBinding', binding);
  for (const binding of objects.roleBindings ?? []) put('RoleBinding', binding);
  return allows;
}
