/**
 * Retains grants and exceptions that were removed or changed recently. A pod is evaluated a few seconds after its
 * admission, and the grant or exception that admitted the pod may have been removed in the meantime.
 */
import type { Store } from '../cluster/store.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { CLOCK_SKEW_MS, type ExceptionSettings, findExceptionProblem } from '../policy/psa/index.ts';
import { type ExceptionIndex, indexExceptions } from '../policy/pss/index.ts';
import { createAuthorizer, RBAC_KINDS, type RbacKind, USE_SCC } from '../policy/rbac/index.ts';
import { createMayUse, prepareScc, type SccAccess } from '../policy/scc/index.ts';
import { readException } from '../views/exceptions.ts';

const KINDS: readonly Kind[] = [...RBAC_KINDS, 'SecurityContextConstraints', 'PodSecurityException'];

/** Time for which objects are retained, which is longer than the delays of watches and of the second evaluation. */
const RETAINED_MS = 30_000;
/**
 * Limits on the number and size of retained objects. If an object is not retained, a pod may be reported although it
 * was reviewed.
 */
const MAX_OBJECTS = 200;
const MAX_BYTES = 16_384;

interface Retained {
  readonly kind: Kind;
  readonly object: Kinds[Kind];
  readonly removedMs: number;
}

export interface RemovedGrants {
  /** Checks whether a removed role or binding, or an earlier version of the SCC, granted the use of the SCC. */
  readonly access: SccAccess;
  /** Returns the current exceptions together with those that were removed or have expired recently. */
  exceptions(current: ExceptionIndex, settings: ExceptionSettings, namespace: string): ExceptionIndex;
}

/**
 * Records removed grants in the store from now on. Every replica calls this at startup, because the leader also
 * evaluates pods that were admitted before it became the leader.
 */
export function followRemovedGrants(store: Store, date: () => Date): RemovedGrants {
  let retained: Retained[] = [];
  // The clock may be set back after a removal.
  const recent = (): Retained[] =>
    retained.filter(({ removedMs }) => Math.abs(date().getTime() - removedMs) <= RETAINED_MS);
  store.subscribe(({ kind, before }) => {
    if (before === undefined || !KINDS.includes(kind) || JSON.stringify(before).length > MAX_BYTES) return;
    retained = [...recent(), { kind, object: before, removedMs: date().getTime() }].slice(-MAX_OBJECTS);
  });
  const canUse: SccAccess['canUse'] = (subject, name, namespace) => {
    const removed = recent();
    const of = <K extends RbacKind>(kind: K) =>
      removed.flatMap((removal) => (removal.kind === kind ? [removal.object as Kinds[K]] : []));
    const bindings = { roleBindings: of('RoleBinding'), clusterRoleBindings: of('ClusterRoleBinding') };
    const action = { ...USE_SCC, name, namespace };
    const roles = { roles: of('Role'), clusterRoles: of('ClusterRole') };
    const current = { roles: store.list('Role', namespace), clusterRoles: referencedRoles(bindings, store) };
    const stored = {
      roleBindings: store.list('RoleBinding', namespace),
      clusterRoleBindings: store.list('ClusterRoleBinding'),
    };
    return (
      createAuthorizer({ ...bindings, ...current })(subject, action) ||
      createAuthorizer({ ...bindings, ...roles })(subject, action) ||
      (roles.roles.length + roles.clusterRoles.length > 0 &&
        createAuthorizer({ ...roles, ...stored })(subject, action)) ||
      removed.some(({ kind, object }) => {
        const isScc = kind === 'SecurityContextConstraints' && object.metadata?.name === name;
        return isScc && createMayUse(NO_ROLES, namespace)(subject, prepareScc(object));
      })
    );
  };
  return {
    access: { canUse, namesFor: () => 'any' },
    exceptions(current, settings, namespace) {
      const nowMs = date().getTime() - CLOCK_SKEW_MS;
      const rules = recent().flatMap(({ kind, object }) => {
        const exception = kind === 'PodSecurityException' ? readException(object as Kinds[typeof kind]) : undefined;
        const applied =
          exception?.namespace === namespace && findExceptionProblem(exception, settings, nowMs) === undefined;
        return applied ? [exception.rule] : [];
      });
      return rules.length === 0 ? current : indexExceptions([...current.rules, ...rules]);
    },
  };
}

/** Access without roles, so only the users and groups that an SCC lists may use that SCC. */
const NO_ROLES: SccAccess = { canUse: () => false };

/** Returns the ClusterRoles to which bindings refer. */
function referencedRoles(
  { roleBindings, clusterRoleBindings }: { readonly [name: string]: readonly Kinds['RoleBinding'][] },
  store: Store,
): readonly Kinds['ClusterRole'][] {
  const names = [...(roleBindings ?? []), ...(clusterRoleBindings ?? [])].map(({ roleRef }) => roleRef.name);
  return [...new Set(names)].flatMap((name) => store.get('ClusterRole', name) ?? []);
}
