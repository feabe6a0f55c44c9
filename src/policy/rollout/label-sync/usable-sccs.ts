import type { SecurityContextConstraints } from '../../../kube/scc.ts';
import { serviceAccountSubject } from '../../scc/access.ts';
import { prepareScc } from '../../scc/prepare.ts';
import type { CanUse, Subject } from '../../scc/types.ts';

/** Tells whether the service account of that name may use an SCC in the namespace. */
export type MayUse = (scc: SecurityContextConstraints) => boolean;

/**
 * Whether a service account may use SCCs in its namespace: by the users and groups of the SCC, else by roles. Who has
 * created a pod plays no part.
 */
export function mayUseAs(serviceAccount: string, namespace: string, canUse: CanUse): MayUse {
  const subject = serviceAccountSubject(namespace, serviceAccount, 'accurate');
  const granted = canUse.namesFor?.(subject, namespace);
  return (scc) => {
    const { name, users, groups } = prepareScc(scc);
    if (isNamed(subject, users, groups)) return true;
    return granted === undefined ? canUse(subject, name, namespace) : granted === 'any' || granted.has(name);
  };
}

function isNamed({ username, groups: own }: Subject, users: readonly string[], groups: readonly string[]): boolean {
  return users.includes(username) || (groups.length > 0 && own.some((group) => groups.includes(group)));
}
