/** Finds the grants of an SCC in the SCC itself and in roles and bindings. */
import { GRANT_EXPIRY_ANNOTATION, TEMPORARY_GRANT_PREFIX, TEMPORARY_GRANTS_ANNOTATION } from '../api/names.ts';
import type { Store } from '../cluster/store.ts';
import { defined } from '../kube/defined.ts';
import { objectName } from '../kube/resources.ts';
import type { SecurityContextConstraints } from '../kube/scc.ts';
import { quote, sortedSet } from '../kube/text.ts';
import { type ClusterRoleBinding, type RoleBinding, stringsIn } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import { KUBE_SYSTEM } from '../kube/well-known.ts';
import { findGrants, type ObjectName, type RbacObjects, type SubjectName, USE_SCC } from '../policy/rbac/index.ts';
import {
  changeTimes,
  findTemporaryGrant,
  parseTemporaryGrants,
  type TemporaryGrant,
  useRoleScc,
} from '../policy/scc/index.ts';

/** Returns the time when the leader deletes a binding, or `undefined` if the binding has no valid expiry time. */
export function grantEnd({ metadata, roleRef }: RoleBinding | ClusterRoleBinding): string | undefined {
  const end = metadata?.annotations?.[GRANT_EXPIRY_ANNOTATION];
  // The leader may only delete bindings with these prefixes. Other bindings are not attempted, because administrators
  // treat denied requests as an attack.
  const isTemporary =
    metadata?.name?.startsWith(TEMPORARY_GRANT_PREFIX) === true && useRoleScc(roleRef.name) !== undefined;
  return isTemporary && !Number.isNaN(Date.parse(end ?? '')) ? end : undefined;
}

/** A grant of an SCC to a subject. */
export interface SccGrant {
  readonly subject: SubjectName;
  /** Namespace of the grant. Absent for a cluster-wide grant. */
  readonly namespace?: string;
  readonly through: GrantSource;
  /** Time when the binding is deleted. */
  readonly expiresAt?: string;
  /** The temporary grant of the SCC that existed when this permanent grant was created or changed. */
  readonly during?: TemporaryGrant;
}

/** The source of a grant, which is a list in the SCC, a binding and its role, or the group that has all permissions. */
export type GrantSource =
  | { readonly field: 'users' | 'groups' }
  | { readonly binding: ObjectName; readonly role: ObjectName }
  | { readonly group: 'system:masters' };

/** Returns the named SCC. If it does not exist, throws a UserError with a list of the existing SCCs. */
export function findScc(store: Store, name: string): SecurityContextConstraints {
  const scc = store.get('SecurityContextConstraints', name);
  if (scc) return scc;
  const names = sortedSet(store.list('SecurityContextConstraints').map(objectName));
  throw new UserError(`SCC ${quote(name)} not found; existing SCCs: ${names.length === 0 ? 'none' : names.join(', ')}`);
}

/** Returns the current temporary grants in a namespace. For `kube-system`, also returns cluster-wide grants. */
export function currentTemporaryGrants(store: Store, namespace: string): readonly TemporaryGrant[] {
  const bindings: readonly (RoleBinding | ClusterRoleBinding)[] = [
    ...store.list('RoleBinding', namespace),
    ...(namespace === KUBE_SYSTEM ? store.list('ClusterRoleBinding') : []),
  ];
  return bindings.flatMap((binding) => {
    const until = grantEnd(binding);
    const from = binding.metadata?.creationTimestamp;
    return until === undefined || from == null ? [] : [{ scc: useRoleScc(binding.roleRef.name) ?? '', from, until }];
  });
}

/** Returns the recorded and the current temporary grants that apply in a namespace. */
function temporaryGrants(store: Store, namespace: string | undefined): readonly TemporaryGrant[] {
  return [...new Set([namespace ?? KUBE_SYSTEM, KUBE_SYSTEM])].flatMap((name) => [
    ...parseTemporaryGrants(store.get('Namespace', name)?.metadata?.annotations?.[TEMPORARY_GRANTS_ANNOTATION]),
    ...currentTemporaryGrants(store, name),
  ]);
}

/** Returns all grants of an SCC, starting with those in the SCC itself. */
export function sccGrants(store: Store, scc: SecurityContextConstraints): readonly SccGrant[] {
  const temporary = new Map<string | undefined, readonly TemporaryGrant[]>();
  const named = (kind: string, names: unknown, through: GrantSource): readonly SccGrant[] =>
    stringsIn(names).map((name) => ({ subject: { kind, name }, through }));
  return [
    ...named('User', scc.users, { field: 'users' }),
    ...named('Group', scc.groups, { field: 'groups' }),
    ...named('Group', ['system:masters'], { group: 'system:masters' }),
    ...findGrants(storedRbacObjects(store), { ...USE_SCC, name: objectName(scc) }).map(
      ({ subject, role, binding }): SccGrant => {
        const { kind, name, namespace } = binding;
        const object = store.get(kind as 'RoleBinding', name, namespace);
        const expiresAt = object && grantEnd(object);
        const periods = temporary.get(namespace) ?? temporaryGrants(store, namespace);
        temporary.set(namespace, periods);
        const roleObject = role.namespace === undefined ? undefined : store.get('Role', role.name, role.namespace);
        const times = [...changeTimes(object, 'subjects'), ...changeTimes(roleObject, 'rules')];
        const during = expiresAt === undefined ? findTemporaryGrant(periods, objectName(scc), times) : undefined;
        return {
          subject,
          ...defined({ namespace }),
          through: { binding, role },
          ...defined({ expiresAt, during }),
        };
      },
    ),
  ];
}

export function storedRbacObjects(store: Store): RbacObjects {
  return {
    roles: store.list('Role'),
    clusterRoles: store.list('ClusterRole'),
    roleBindings: store.list('RoleBinding'),
    clusterRoleBindings: store.list('ClusterRoleBinding'),
  };
}

/** Formats the source of a grant, such as `RoleBinding a, ClusterRole b` or `users of the SCC`. */
export function printGrantSource(through: GrantSource): string {
  if ('field' in through) return `${through.field} of the SCC`;
  if ('group' in through) return 'all permissions';
  const { binding, role } = through;
  return `${binding.kind} ${binding.name}, ${role.kind} ${role.name}`;
}
