import { LIMITS } from '../../kube/limits.ts';
import { isObject, type JsonObject, objectMember } from '../../kube/types.ts';
import {
  type Action,
  type Authorizer,
  type RbacKind,
  type RbacObjects,
  readRules,
  type VerifiedRule,
  ruleAllows,
  ruleCovers,
  type User,
} from './rules.ts';

/** A set of object names, or `any` for all objects. */
type Names = ReadonlySet<string> | 'any';

/** An authorizer whose RBAC objects can be added and removed. */
export interface Rbac {
  put(kind: RbacKind, object: unknown): void;
  /** Removes an object, which must be identical (`===`) to the object that was added. */
  remove(kind: RbacKind, object: unknown): void;
  readonly allows: Authorizer;
  /**
   * Returns the names of the objects in the namespace on which the user may perform the action. Ignores the name and
   * the namespace in the action. Callers must pass the identical action object in all calls, because it is the cache
   * key.
   */
  namesFor(user: User, action: Action, namespace: string): Names;
}

/** A reference to a role. The namespace is empty for a ClusterRole. */
interface RoleRef {
  readonly namespace: string;
  readonly name: string;
}

/** The bindings of a subject in a scope. */
interface Bindings {
  /** The roles to which the bindings refer. The roles might not exist. */
  readonly roles: Map<unknown, RoleRef>;
  /** The cached names for which the bindings grant an action. They are valid until a role or binding changes. */
  names?: { readonly action: Action; readonly isCurrent: () => boolean; readonly names: Names };
}

/** The rules by role and the bindings by subject, either in one namespace or cluster-wide. */
interface Scope {
  /** Increases with every change. */
  revision: number;
  readonly roles: Map<string, readonly VerifiedRule[]>;
  readonly users: Map<string, Bindings>;
  readonly groups: Map<string, Bindings>;
}

const CLUSTER = '';

/**
 * Creates an authorizer without roles and bindings. The cost of a query depends only on the user's bindings. The names
 * for an action are computed only once for each subject, until a role or binding in the namespace or a cluster-wide one
 * changes. The cost of a change depends only on the changed object, because bindings refer to roles instead of copying
 * their rules.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/rbac/validation/rule.go
 */
export function createRbac(): Rbac {
  const scopes = new Map<string, Scope>();
  let clusterRevision = 0;
  const update = (kind: RbacKind, object: unknown, isPut: boolean): void => {
    const namespace = grantNamespace(kind, object);
    if (namespace === undefined || !isObject(object)) return;
    const scope = scopes.get(namespace) ?? { revision: 0, roles: new Map(), users: new Map(), groups: new Map() };
    scope.revision++;
    if (namespace === CLUSTER) clusterRevision++;
    if (kind === 'RoleBinding' || kind === 'ClusterRoleBinding') updateBinding(scope, object, namespace, isPut);
    else updateRole(scope, object, isPut);
    if (scope.roles.size + scope.users.size + scope.groups.size > 0) scopes.set(namespace, scope);
    else scopes.delete(namespace);
  };
  const someBoundRule = (bindings: Bindings | undefined, test: (rule: VerifiedRule) => boolean): boolean => {
    if (!bindings) return false;
    for (const { namespace, name } of bindings.roles.values()) {
      if (scopes.get(namespace)?.roles.get(name)?.some(test)) return true;
    }
    return false;
  };
  const someRuleIn = (
    namespace: string,
    { username, groups }: User,
    test: (rule: VerifiedRule) => boolean,
  ): boolean => {
    const scope = scopes.get(namespace);
    if (!scope) return false;
    if (someBoundRule(scope.users.get(username ?? ''), test)) return true;
    return scope.groups.size > 0 && (groups?.some((group) => someBoundRule(scope.groups.get(group), test)) ?? false);
  };
  /**
   * Returns true if the predicate is true for a rule that applies to the user cluster-wide or in the action's
   * namespace.
   */
  const someRule = (
    user: User,
    { nonResourceURL, namespace }: Action,
    test: (rule: VerifiedRule) => boolean,
  ): boolean =>
    someRuleIn(CLUSTER, user, test) ||
    // Non-resource URLs have no namespace.
    (nonResourceURL == null && Boolean(namespace) && someRuleIn(namespace ?? CLUSTER, user, test));

  const computeNames = (bindings: Bindings, scope: Scope, action: Action): Names => {
    const known = bindings.names;
    if (known?.action === action && known.isCurrent()) return known.names;
    const found = new Set<string>();
    const isAny = someBoundRule(bindings, (rule) => {
      if (!ruleCovers(rule, action)) return false;
      for (const name of rule.resourceNames) found.add(name);
      return rule.resourceNames.length === 0;
    });
    const names = isAny ? 'any' : found;
    const [revision, rolesRevision] = [scope.revision, clusterRevision];
    const isCurrent = (): boolean => scope.revision === revision && clusterRevision === rolesRevision;
    bindings.names = { action, isCurrent, names };
    return names;
  };

  return {
    put: (kind, object) => update(kind, object, true),
    remove: (kind, object) => update(kind, object, false),
    allows: (user, action) => someRule(user, action, (rule) => ruleAllows(rule, action)),
    namesFor({ username = '', groups = [] }, action, namespace) {
      const names = new Set<string>();
      for (const key of namespace === CLUSTER ? [CLUSTER] : [CLUSTER, namespace]) {
        const scope = scopes.get(key);
        if (!scope) continue;
        for (const bindings of [scope.users.get(username), ...groups.map((group) => scope.groups.get(group))]) {
          const granted = bindings ? computeNames(bindings, scope, action) : NO_NAMES;
          if (granted === 'any') return 'any';
          for (const name of granted) names.add(name);
        }
      }
      return names;
    },
  };
}

const NO_NAMES: Names = new Set();

function updateRole({ roles }: Scope, role: JsonObject, isPut: boolean): void {
  const { name } = objectMember(role, 'metadata');
  if (!isName(name)) return;
  if (isPut) roles.set(name, readRules(role['rules']));
  else roles.delete(name);
}

function updateBinding(scope: Scope, binding: JsonObject, namespace: string, isPut: boolean): void {
  const ref = readRoleRef(binding['roleRef'], namespace);
  if (ref === undefined || !Array.isArray(binding['subjects'])) return;
  for (const subject of binding['subjects']) {
    const indexed = readSubject(subject, namespace);
    if (!indexed) continue;
    const subjects = scope[indexed.list];
    const bindings: Bindings = subjects.get(indexed.name) ?? { roles: new Map<unknown, RoleRef>() };
    if (isPut) bindings.roles.set(binding, ref);
    else bindings.roles.delete(binding);
    if (bindings.roles.size > 0) subjects.set(indexed.name, bindings);
    else subjects.delete(indexed.name);
  }
}

/** Maximum length of a username or group. */
const MAX_SUBJECT = LIMITS.nameCharacters;

/** Returns at most `max` distinct subjects of a binding that can match a user. */
export function selectSubjects(
  kind: 'RoleBinding' | 'ClusterRoleBinding',
  binding: JsonObject,
  max: number,
): { readonly subjects: readonly JsonObject[]; readonly isCut: boolean } {
  const namespace = grantNamespace(kind, binding);
  const selected = new Map<string, JsonObject>();
  let isCut = false;
  for (const subject of Array.isArray(binding['subjects']) ? binding['subjects'] : []) {
    const indexed = namespace === undefined ? undefined : readSubject(subject, namespace);
    if (indexed === undefined || !isObject(subject)) continue;
    const key = `${indexed.list} ${indexed.name}`;
    if (indexed.name.length > MAX_SUBJECT || (selected.size >= max && !selected.has(key))) isCut = true;
    else if (!selected.has(key)) selected.set(key, pickSubject(subject));
  }
  return { subjects: [...selected.values()], isCut };
}

function pickSubject({ apiGroup, kind, name, namespace }: JsonObject): JsonObject {
  const scope = kind === 'ServiceAccount' ? { namespace } : { apiGroup };
  return { kind, name, ...(Object.values(scope)[0] == null ? {} : scope) };
}

/** Reads a binding's reference to a role. A Role is in the binding's namespace. Returns `undefined` if malformed. */
export function readRoleRef(ref: unknown, namespace: string): RoleRef | undefined {
  if (!isObject(ref) || !isName(ref['name'])) return undefined;
  if (ref['kind'] === 'ClusterRole') return { namespace: CLUSTER, name: ref['name'] };
  return ref['kind'] === 'Role' && namespace !== CLUSTER ? { namespace, name: ref['name'] } : undefined;
}

/** Returns a subject's index entry, or `undefined` if malformed. A service account is indexed by its username. */
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

/**
 * Returns the namespace of a role or binding, which is empty for a cluster-scoped object. Returns `undefined` if a
 * namespaced object lacks its namespace.
 */
export function grantNamespace(kind: RbacKind, object: unknown): string | undefined {
  if (kind === 'ClusterRole' || kind === 'ClusterRoleBinding') return CLUSTER;
  const { namespace } = objectMember(object, 'metadata');
  return isName(namespace) ? namespace : undefined;
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/**
 * Creates an authorizer that makes the same decisions as the API server's RBAC authorizer. It does not observe later
 * changes to the objects.
 * @example
 * const allows = createAuthorizer({
 *   clusterRoles: [{ metadata: { name: 'view' }, rules: [{ verbs: ['get'], apiGroups: [''], resources: ['pods'] }] }],
 *   clusterRoleBindings: [
 *     { subjects: [{ kind: 'Group', name: 'admins' }], roleRef: { kind: 'ClusterRole', name: 'view' } },
 *   ],
 * });
 * allows({ username: 'alice', groups: ['admins'] }, { verb: 'get', resource: 'pods', namespace: 'shop' }); // true
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
