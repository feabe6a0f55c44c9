/** Who may use an SCC, and why: what the SCC says itself, and what roles and bindings add. */
import type { Store } from '../cluster/store.ts';
import { UserError } from '../config/files.ts';
import { sortedSet, quote } from '../kube/text.ts';
import type { SecurityContextConstraints } from '../kube/scc.ts';
import { RESOURCES } from '../kube/resources.ts';
import { grantsAnywhere, isMeant, type ObjectName, type SubjectName } from '../policy/rbac/who-can.ts';
import type { User } from '../policy/rbac/rules.ts';

/**
 * The SCC of that name.
 * @throws {UserError} that names the SCCs that there are
 */
export function findScc(store: Store, name: string): SecurityContextConstraints {
  const scc = store.get('SecurityContextConstraints', name);
  if (scc) return scc;
  const names = sortedSet(store.list('SecurityContextConstraints').map(({ metadata }) => metadata?.name ?? ''));
  throw new UserError(`there is no SCC ${quote(name)}; there are ${names.length === 0 ? 'none' : names.join(', ')}`);
}

/** That somebody may use an SCC. */
export interface SccGrant {
  readonly subject: SubjectName;
  /** The only namespace in which it counts; absent: in all. */
  readonly namespace?: string;
  readonly through: Through;
}

/** A list in the SCC, a binding to a role, or the group that may do everything. */
export type Through =
  | { readonly field: 'users' | 'groups' }
  | { readonly binding: ObjectName; readonly role: ObjectName }
  | { readonly group: 'system:masters' };

/** Everybody who may use the SCC anywhere: first what the SCC says. */
export function sccGrants(store: Store, scc: SecurityContextConstraints): readonly SccGrant[] {
  const { group: apiGroup, resource } = RESOURCES.SecurityContextConstraints;
  const objects = {
    roles: store.list('Role'),
    clusterRoles: store.list('ClusterRole'),
    roleBindings: store.list('RoleBinding'),
    clusterRoleBindings: store.list('ClusterRoleBinding'),
  };
  const action = { verb: 'use', apiGroup, resource, name: scc.metadata?.name ?? '' };
  const byRbac = grantsAnywhere(objects, action).map(({ subject, role, binding }): SccGrant => {
    const { namespace } = binding;
    return { subject, ...(namespace === undefined ? {} : { namespace }), through: { binding, role } };
  });
  return [
    ...textsOf(scc.users).map((name): SccGrant => ({ subject: { kind: 'User', name }, through: { field: 'users' } })),
    ...textsOf(scc.groups).map((name): SccGrant => ({
      subject: { kind: 'Group', name },
      through: { field: 'groups' },
    })),
    { subject: { kind: 'Group', name: 'system:masters' }, through: { group: 'system:masters' } },
    ...byRbac,
  ];
}

/** True if the grant lets the user use the SCC in the namespace. */
export function holds({ subject, namespace }: SccGrant, user: User, where: string): boolean {
  return (namespace === undefined || namespace === where) && isMeant(subject, user);
}

/** `Group system:masters`, `ServiceAccount shop/app` */
export function printSubject({ kind, name, namespace }: SubjectName): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
}

export function printThrough(through: Through): string {
  if ('field' in through) return `${through.field} of the SCC`;
  if ('group' in through) return 'may do everything';
  const { binding, role } = through;
  return `${binding.kind} ${binding.name}, ${role.kind} ${role.name}`;
}

function textsOf(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((item) => typeof item === 'string') : [];
}
