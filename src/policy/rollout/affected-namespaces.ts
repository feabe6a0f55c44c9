import { deepEqual } from '../../kube/equality.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { isObject, type KubeObject } from '../../kube/types.ts';
import { grantNamespace, readRoleRef, readSubject } from '../rbac/authorizer.ts';
import { readRules, ruleAllows, type Rule, type Action, type RbacKind } from '../rbac/rules.ts';

/** A change of an object on which levels hang. */
export interface ObjectChange {
  readonly kind: 'Namespace' | 'ServiceAccount' | 'SecurityContextConstraints' | RbacKind;
  /** Absent: the object is new. */
  readonly before?: KubeObject | undefined;
  /** Absent: the object is gone. */
  readonly after?: KubeObject | undefined;
}

/** The namespaces whose level may have changed. */
export type AffectedNamespaces = ReadonlySet<string> | 'all';

/** The data that decides which grants matter. */
export interface GrantContext {
  /** The names of all SCCs. */
  readonly sccNames: readonly string[];
  /** The Role in that namespace, or the ClusterRole if the namespace is `''`; `undefined` if there is none. */
  findRole(namespace: string, name: string): KubeObject | undefined;
}

const NOWHERE: AffectedNamespaces = new Set();
/** Fields that affect neither the level of an SCC nor its grants. */
const UNJUDGED = { apiVersion: '', kind: '', metadata: {}, priority: 0 };
const USE: Action = {
  verb: 'use',
  apiGroup: RESOURCES.SecurityContextConstraints.group,
  resource: RESOURCES.SecurityContextConstraints.resource,
};

/**
 * The namespaces to reconcile after a change. A binding matters if its role permits the use of an SCC, a role if it
 * changes which ones. A binding to a missing role counts when the role is created.
 */
export function findAffectedNamespaces(
  { kind, before, after }: ObjectChange,
  context: GrantContext,
): AffectedNamespaces {
  switch (kind) {
    case 'SecurityContextConstraints':
      return isSameScc(before, after) ? NOWHERE : 'all';
    case 'Namespace':
      return new Set([(after ?? before)?.metadata?.name ?? '']);
    case 'ServiceAccount':
      return new Set([(after ?? before)?.metadata?.namespace ?? '']);
    case 'Role':
    case 'ClusterRole':
      return isSameGrant(before, after, context) ? NOWHERE : placeOf(kind, after ?? before);
    case 'RoleBinding':
    case 'ClusterRoleBinding':
      return union([before, after].map((binding) => reachOfBinding(kind, binding, context)));
  }
}

/** True if nothing differs by which it is judged or granted. */
function isSameScc(before: KubeObject | undefined, after: KubeObject | undefined): boolean {
  return before !== undefined && after !== undefined && deepEqual(judgedPart(before), judgedPart(after));
}

function judgedPart(scc: KubeObject): object {
  return { ...scc, ...UNJUDGED };
}

/** The SCCs that a role lets its subjects use. */
export function grantedSccs(role: KubeObject | undefined, sccNames: readonly string[]): readonly string[] {
  const rules: readonly Rule[] = readRules(isObject(role) ? (role as { readonly rules?: unknown }).rules : undefined);
  return sccNames.filter((name) => rules.some((rule) => ruleAllows(rule, { ...USE, name })));
}

/** The users and groups among a binding's subjects that service accounts can be, as an authorizer sees them. */
export function serviceAccountSubjects(
  kind: 'RoleBinding' | 'ClusterRoleBinding',
  binding: KubeObject,
): readonly string[] {
  const namespace = grantNamespace(kind, binding) ?? '';
  return podSubjects(binding).flatMap((subject) => {
    const filed = readSubject(subject, namespace);
    return filed !== undefined && namespacesOf(filed.name) !== NOWHERE ? [filed.name] : [];
  });
}

function isSameGrant(
  before: KubeObject | undefined,
  after: KubeObject | undefined,
  { sccNames }: GrantContext,
): boolean {
  return grantedSccs(before, sccNames).join() === grantedSccs(after, sccNames).join();
}

function reachOfBinding(
  kind: 'RoleBinding' | 'ClusterRoleBinding',
  binding: KubeObject | undefined,
  { sccNames, findRole }: GrantContext,
): AffectedNamespaces {
  if (binding === undefined) return NOWHERE;
  const namespace = grantNamespace(kind, binding) ?? '';
  const ref = readRoleRef((binding as { readonly roleRef?: unknown }).roleRef, namespace);
  if (ref === undefined || grantedSccs(findRole(ref.namespace, ref.name), sccNames).length === 0) return NOWHERE;
  const reach = union(serviceAccountSubjects(kind, binding).map(namespacesOf));
  if (kind === 'ClusterRoleBinding' || reach === NOWHERE) return reach;
  // A RoleBinding grants permissions in its own namespace only.
  return reach === 'all' || reach.has(namespace) ? new Set([namespace]) : NOWHERE;
}

/** Where the accounts are that have this name or are in this group. */
function namespacesOf(subject: string): AffectedNamespaces {
  if (subject === 'system:serviceaccounts' || subject === 'system:authenticated') return 'all';
  const [system, kind, namespace = '', name] = subject.split(':');
  const isOfAccounts =
    system === 'system' && (name === undefined ? kind === 'serviceaccounts' : kind === 'serviceaccount');
  return isOfAccounts && namespace !== '' ? new Set([namespace]) : NOWHERE;
}

function placeOf(kind: 'Role' | 'ClusterRole', object: KubeObject | undefined): AffectedNamespaces {
  return kind === 'ClusterRole' ? 'all' : new Set([grantNamespace(kind, object) ?? '']);
}

function union(reaches: readonly AffectedNamespaces[]): AffectedNamespaces {
  if (reaches.includes('all')) return 'all';
  const names = reaches.flatMap((reach) => (reach === 'all' ? [] : [...reach]));
  return names.length === 0 ? NOWHERE : new Set(names);
}

function podSubjects(binding: KubeObject): readonly unknown[] {
  const { subjects } = binding as { readonly subjects?: unknown };
  return Array.isArray(subjects) ? subjects : [];
}
