import { compareBy } from '../../kube/text.ts';
import { isObject, objectMember } from '../../kube/types.ts';
import { grantNamespace, readRoleRef, readSubject } from './authorizer.ts';
import { type Action, type RbacObjects, readRules, ruleAllows, type Subject, type User } from './rules.ts';

export interface ObjectName {
  readonly kind: string;
  readonly name: string;
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string;
}

/** The name of a `User` or `Group`, or the name and namespace of a `ServiceAccount`. */
export type SubjectName = ObjectName;

/** A subject with the role and the binding that grant the action to it. */
export interface RbacGrant {
  readonly subject: SubjectName;
  readonly role: ObjectName;
  /** The binding. If it has no namespace, it applies to the whole cluster. */
  readonly binding: ObjectName;
}

/**
 * Returns the grants of an action in all namespaces. Cluster-wide grants come first, followed by namespaced grants
 * sorted by the namespace and name of the binding. Malformed objects grant no permissions.
 */
export function findGrants(objects: RbacObjects, action: Action): readonly RbacGrant[] {
  const granting = new Set([
    ...findGrantingRoles('ClusterRole', objects.clusterRoles, action),
    ...findGrantingRoles('Role', objects.roles, action),
  ]);
  const findBindingGrants = (kind: 'RoleBinding' | 'ClusterRoleBinding', binding: unknown): RbacGrant[] => {
    const namespace = grantNamespace(kind, binding);
    if (namespace === undefined || !isObject(binding) || !Array.isArray(binding['subjects'])) return [];
    const ref = readRoleRef(binding['roleRef'], namespace);
    if (ref === undefined || !granting.has(roleKey(ref.namespace, ref.name))) return [];
    const role = createName(ref.namespace === '' ? 'ClusterRole' : 'Role', ref.name, ref.namespace);
    const bindingName = createName(kind, getName(binding), namespace);
    return readSubjects(binding['subjects'], namespace).map((subject) => ({ subject, role, binding: bindingName }));
  };
  // Non-resource URLs have no namespace.
  const roleBindings = action.nonResourceURL == null ? objects.roleBindings : [];
  return [
    ...objects.clusterRoleBindings.flatMap((binding) => findBindingGrants('ClusterRoleBinding', binding)),
    ...roleBindings.flatMap((binding) => findBindingGrants('RoleBinding', binding)),
  ].sort(compareBy(({ binding: { namespace = '', name } }) => [namespace, name]));
}

/** Returns the grants of an action in its namespace, or only the cluster-wide grants if the action has no namespace. */
export function whoCan(objects: RbacObjects, action: Action): readonly RbacGrant[] {
  return findGrants(objects, action).filter(({ binding: { namespace } }) => {
    return namespace === undefined || namespace === (action.namespace ?? '');
  });
}

/** Formats the kind and name of a subject, such as `ServiceAccount shop/operator`. */
export function printSubject({ kind, name, namespace }: SubjectName): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
}

/** Returns true if the subject is the user or one of the user's groups. */
export function matchesUser({ kind, name, namespace }: SubjectName, { username, groups }: User): boolean {
  if (kind === 'Group') return groups?.includes(name) ?? false;
  return (kind === 'User' ? name : `system:serviceaccount:${namespace ?? ''}:${name}`) === (username ?? '');
}

/** Returns the keys of the roles that grant the action. If several roles have the same name, the last one applies. */
function findGrantingRoles(kind: 'Role' | 'ClusterRole', roles: readonly unknown[], action: Action): readonly string[] {
  const allowed = new Map<string, boolean>();
  for (const role of roles) {
    const namespace = grantNamespace(kind, role);
    if (namespace === undefined || !isObject(role)) continue;
    const isAllowed = readRules(role['rules']).some((rule) => ruleAllows(rule, action));
    allowed.set(roleKey(namespace, getName(role)), isAllowed);
  }
  return [...allowed].filter(([, isAllowed]) => isAllowed).map(([key]) => key);
}

/** Returns the distinct subjects in the order in which the binding lists them. */
function readSubjects(subjects: readonly unknown[], bindingNamespace: string): readonly SubjectName[] {
  const distinct = new Map<string, SubjectName>();
  for (const subject of subjects) {
    if (!readSubject(subject, bindingNamespace)) continue;
    const { kind, name, namespace } = subject as Subject;
    const scope = kind === 'ServiceAccount' ? { namespace: namespace || bindingNamespace } : {};
    distinct.set(JSON.stringify([kind, name, scope]), { kind, name, ...scope });
  }
  return [...distinct.values()];
}

function createName(kind: string, name: string, namespace: string): ObjectName {
  return { kind, name, ...(namespace === '' ? {} : { namespace }) };
}

function getName(object: unknown): string {
  const { name } = objectMember(object, 'metadata');
  return typeof name === 'string' ? name : '';
}

function roleKey(namespace: string, name: string): string {
  return JSON.stringify([namespace, name]);
}
