import { deepEqual } from '../../kube/equality.ts';
import { isObject, type KubeObject } from '../../kube/types.ts';
import {
  grantNamespace,
  type RbacKind,
  readRoleRef,
  readRules,
  readSubject,
  ruleAllows,
  USE_SCC,
} from '../rbac/index.ts';

/** Kinds of objects that affect a namespace's level. */
export type AffectingKind = 'Namespace' | 'ServiceAccount' | 'SecurityContextConstraints' | RbacKind;

export interface ObjectChange {
  readonly kind: AffectingKind;
  /** The object before the change. Absent for a new object. */
  readonly before?: KubeObject | undefined;
  /** The object after the change. Absent for a deleted object. */
  readonly after?: KubeObject | undefined;
}

/** Namespaces whose level may have changed. */
export type AffectedNamespaces = ReadonlySet<string> | 'all';

/** The cluster state that determines which grants are relevant. */
interface GrantContext {
  /** Names of all SCCs. */
  readonly sccNames: readonly string[];
  /**
   * Returns the Role in the namespace, or the ClusterRole if the namespace is empty. Returns `undefined` if the role
   * does not exist.
   */
  findRole(namespace: string, name: string): KubeObject | undefined;
}

const NONE: AffectedNamespaces = new Set();
/** Fields that affect neither the level of an SCC nor its grants. */
const IRRELEVANT_FIELDS = { apiVersion: '', kind: '', metadata: {}, priority: 0 };

/**
 * Returns the namespaces to reconcile after a change. A binding is relevant if its role permits use of an SCC. A role
 * is relevant if the set of SCCs that it permits changes. A binding whose role is missing becomes relevant when the
 * role is created.
 */
export function findAffectedNamespaces(
  { kind, before, after }: ObjectChange,
  context: GrantContext,
): AffectedNamespaces {
  const { name = '', namespace = '' } = (after ?? before)?.metadata ?? {};
  switch (kind) {
    case 'SecurityContextConstraints':
      return before && after && isSameScc(before, after) ? NONE : 'all';
    case 'Namespace':
      return new Set([name]);
    case 'ServiceAccount':
      return new Set([namespace]);
    case 'Role':
    case 'ClusterRole': {
      const [old, current] = [before, after].map((role) => grantedSccs(role, context.sccNames).join());
      if (old === current) return NONE;
      return kind === 'ClusterRole' ? 'all' : new Set([grantNamespace(kind, after ?? before) ?? '']);
    }
    case 'RoleBinding':
    case 'ClusterRoleBinding':
      return union([before, after].map((binding) => affectedByBinding(kind, binding, context)));
  }
}

function isSameScc(before: KubeObject, after: KubeObject): boolean {
  return deepEqual({ ...before, ...IRRELEVANT_FIELDS }, { ...after, ...IRRELEVANT_FIELDS });
}

/** Returns the SCCs that a role grants. */
export function grantedSccs(role: KubeObject | undefined, sccNames: readonly string[]): readonly string[] {
  const rules = readRules(isObject(role) ? (role as { readonly rules?: unknown }).rules : undefined);
  return sccNames.filter((name) => rules.some((rule) => ruleAllows(rule, { ...USE_SCC, name })));
}

/**
 * Returns the usernames and groups of a binding's subjects that can match a service account, as the authorizer reads
 * them.
 */
export function serviceAccountSubjects(
  kind: 'RoleBinding' | 'ClusterRoleBinding',
  binding: KubeObject,
): readonly string[] {
  const { subjects } = binding as { readonly subjects?: unknown };
  const namespace = grantNamespace(kind, binding) ?? '';
  return (Array.isArray(subjects) ? subjects : []).flatMap((subject: unknown) => {
    const name = readSubject(subject, namespace)?.name;
    return name !== undefined && accountNamespaces(name) !== NONE ? [name] : [];
  });
}

function affectedByBinding(
  kind: 'RoleBinding' | 'ClusterRoleBinding',
  binding: KubeObject | undefined,
  { sccNames, findRole }: GrantContext,
): AffectedNamespaces {
  if (binding === undefined) return NONE;
  const namespace = grantNamespace(kind, binding) ?? '';
  const ref = readRoleRef((binding as { readonly roleRef?: unknown }).roleRef, namespace);
  if (ref === undefined || grantedSccs(findRole(ref.namespace, ref.name), sccNames).length === 0) return NONE;
  const affected = union(serviceAccountSubjects(kind, binding).map(accountNamespaces));
  if (kind === 'ClusterRoleBinding') return affected;
  // A RoleBinding grants permissions only in its own namespace.
  return affected === 'all' || affected.has(namespace) ? new Set([namespace]) : NONE;
}

/** Returns the namespaces of the service accounts that the username or group matches. */
function accountNamespaces(subject: string): AffectedNamespaces {
  if (subject === 'system:serviceaccounts' || subject === 'system:authenticated') return 'all';
  const [system, kind, namespace = '', name] = subject.split(':');
  const isAccount = system === 'system' && kind === (name === undefined ? 'serviceaccounts' : 'serviceaccount');
  return isAccount && namespace !== '' ? new Set([namespace]) : NONE;
}

function union(sets: readonly AffectedNamespaces[]): AffectedNamespaces {
  if (sets.includes('all')) return 'all';
  return new Set(sets.flatMap((set) => (set === 'all' ? [] : [...set])));
}
