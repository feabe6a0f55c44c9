import { isObject } from '../../kube/types.ts';
import { compareBytes } from '../../kube/text.ts';
import { grantNamespace, readRoleRef, readSubject } from './authorizer.ts';
import { readRules, ruleAllows, type Rule, type Action, type RbacObjects, type Subject, type User } from './rules.ts';

/** A role or a binding. */
export interface ObjectName {
  readonly kind: string;
  readonly name: string;
  /** Absent for objects without a namespace. */
  readonly namespace?: string;
}

/** A `User`, a `Group`, or a `ServiceAccount` with its namespace. */
export type SubjectName = ObjectName;

/** A subject with the role and the binding that grant it an action. */
export interface RbacGrant {
  readonly subject: SubjectName;
  readonly role: ObjectName;
  /** A binding without a namespace applies to the whole cluster. */
  readonly binding: ObjectName;
}

/**
 * Returns the grants of an action in all namespaces: cluster-wide bindings first, then those of namespaces, sorted by
 * namespace and name. Malformed objects grant nothing.
 */
export function findGrants(objects: RbacObjects, action: Action): readonly RbacGrant[] {
  const roles = new Map<string, boolean>();
  const keep = (kind: 'Role' | 'ClusterRole', role: unknown): void => {
    const name = nameIn(role);
    const namespace = grantNamespace(kind, role);
    if (name === '' || namespace === undefined) return;
    roles.set(keyOf({ namespace, name }), allows(isObject(role) ? readRules(role['rules']) : [], action));
  };
  for (const role of objects.clusterRoles) keep('ClusterRole', role);
  for (const role of objects.roles) keep('Role', role);

  const grantsBy = (kind: 'RoleBinding' | 'ClusterRoleBinding', binding: unknown): RbacGrant[] => {
    const namespace = grantNamespace(kind, binding);
    if (namespace === undefined || !isObject(binding) || !Array.isArray(binding['subjects'])) return [];
    const ref = readRoleRef(binding['roleRef'], namespace);
    if (ref === undefined || roles.get(keyOf(ref)) !== true) return [];
    const role = nameOf(ref.namespace === '' ? 'ClusterRole' : 'Role', ref);
    const by = nameOf(kind, { name: nameIn(binding), namespace });
    return subjectsOf(binding['subjects'], namespace).map((subject) => ({ subject, role, binding: by }));
  };
  const everywhere = objects.clusterRoleBindings.flatMap((binding) => grantsBy('ClusterRoleBinding', binding));
  if (action.nonResourceURL != null) return everywhere.sort(compareGrants);
  const inNamespaces = objects.roleBindings.flatMap((binding) => grantsBy('RoleBinding', binding));
  return [...everywhere, ...inNamespaces].sort(compareGrants);
}

/** The grants of an action in its namespace. Without a namespace, only cluster-wide grants apply. */
export function whoCan(objects: RbacObjects, action: Action): readonly RbacGrant[] {
  return findGrants(objects, action).filter(({ binding }) => appliesIn(binding, action.namespace ?? ''));
}

/** The grants of an action to a user. */
export function userGrants(objects: RbacObjects, user: User, action: Action): readonly RbacGrant[] {
  return whoCan(objects, action).filter(({ subject }) => matchesUser(subject, user));
}

/** True if a binding applies in the namespace. The empty namespace stands for the whole cluster. */
export function appliesIn({ namespace }: ObjectName, where: string): boolean {
  return namespace === undefined || namespace === where;
}

/** True if the user is the subject or a member of it. */
export function matchesUser({ kind, name, namespace }: SubjectName, { username, groups }: User): boolean {
  if (kind === 'Group') return groups?.includes(name) ?? false;
  return (kind === 'User' ? name : `system:serviceaccount:${namespace ?? ''}:${name}`) === (username ?? '');
}

function allows(rules: readonly Rule[], action: Action): boolean {
  return rules.some((rule) => ruleAllows(rule, action));
}

/** Distinct subjects in the order of the binding. */
function subjectsOf(subjects: readonly unknown[], bindingNamespace: string): readonly SubjectName[] {
  const found = new Map<string, SubjectName>();
  for (const subject of subjects) {
    if (!readSubject(subject, bindingNamespace)) continue;
    const { kind, name, namespace } = subject as Subject;
    const place = kind === 'ServiceAccount' ? { namespace: namespace || bindingNamespace } : {};
    found.set(JSON.stringify([kind, name, place]), { kind, name, ...place });
  }
  return [...found.values()];
}

function nameOf(kind: string, { name, namespace }: { readonly name: string; readonly namespace: string }): ObjectName {
  return { kind, name, ...(namespace === '' ? {} : { namespace }) };
}

function nameIn(object: unknown): string {
  const metadata = isObject(object) ? object['metadata'] : undefined;
  const name = isObject(metadata) ? metadata['name'] : undefined;
  return typeof name === 'string' ? name : '';
}

function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return JSON.stringify([namespace, name]);
}

function compareGrants(a: RbacGrant, b: RbacGrant): number {
  return (
    compareBytes(a.binding.namespace ?? '', b.binding.namespace ?? '') || compareBytes(a.binding.name, b.binding.name)
  );
}
