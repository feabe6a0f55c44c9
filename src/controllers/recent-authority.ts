/**
 * Grants and exceptions that were removed or changed recently. A pod is evaluated a few seconds after its admission, and
 * the authority that admitted it may have been removed in the meantime.
 */
import { readException } from '../cluster/exceptions.ts';
import type { Store } from '../cluster/store.ts';
import type { Kinds } from '../kube/kinds.ts';
import { CLOCK_SKEW_MS, type ExceptionSettings, findExceptionProblem } from '../policy/psa/exceptions.ts';
import { type ExceptionIndex, indexExceptions } from '../policy/pss/exceptions.ts';
import { createAuthorizer } from '../policy/rbac/authorizer.ts';
import { RBAC_KINDS, type RbacKind, USE_SCC } from '../policy/rbac/rules.ts';
import type { CanUse } from '../policy/scc/access.ts';
import { type Source, watchChanges } from './controller.ts';

const KINDS = [...RBAC_KINDS, 'PodSecurityException'] as const;
type AuthorityKind = (typeof KINDS)[number];

/** Longer than the delays of watches and of the second evaluation. */
const RETAINED_MS = 30_000;
/** Limits of the retained objects. Without an object, a pod might be reported although it was reviewed. */
const MAX_OBJECTS = 200;
const MAX_BYTES = 16_384;

interface Retained {
  readonly kind: AuthorityKind;
  readonly object: Kinds[AuthorityKind];
  readonly removedMs: number;
}

export interface RecentAuthority {
  readonly sources: readonly Source[];
  /** Returns true if a removed role or binding granted the use of an SCC. */
  canUse(store: Store): CanUse;
  /** Adds the removed exceptions, and those that have just expired, to the current exceptions. */
  exceptions(current: ExceptionIndex, settings: ExceptionSettings, namespace: string): ExceptionIndex;
}

export function createRecentAuthority(date: () => Date): RecentAuthority {
  let retained: Retained[] = [];
  const retain = (kind: AuthorityKind, object: Kinds[AuthorityKind]): void => {
    if (JSON.stringify(object).length > MAX_BYTES) return;
    retained = [...recent(), { kind, object, removedMs: date().getTime() }].slice(-MAX_OBJECTS);
  };
  const recent = (): Retained[] => retained.filter(({ removedMs }) => date().getTime() - removedMs <= RETAINED_MS);
  return {
    sources: KINDS.map((kind) =>
      watchChanges(kind, (_object, _store, { before }) => {
        if (before !== undefined) retain(kind, before);
        return [];
      }),
    ),
    canUse(store) {
      const removed = recent();
      const of = <K extends RbacKind>(kind: K) =>
        removed.flatMap((one) => (one.kind === kind ? [one.object as Kinds[K]] : []));
      const bindings = { roleBindings: of('RoleBinding'), clusterRoleBindings: of('ClusterRoleBinding') };
      const mayUse = (subject: Parameters<CanUse>[0], name: string, namespace: string): boolean => {
        const action = { ...USE_SCC, name, namespace };
        const roles = { roles: of('Role'), clusterRoles: of('ClusterRole') };
        const current = { roles: store.list('Role', namespace), clusterRoles: referencedRoles(bindings, store) };
        return (
          createAuthorizer({ ...bindings, ...current })(subject, action) ||
          createAuthorizer({ ...bindings, ...roles })(subject, action) ||
          (roles.roles.length + roles.clusterRoles.length > 0 &&
            createAuthorizer({ ...roles, roleBindings: store.list('RoleBinding', namespace) })(subject, action))
        );
      };
      return Object.assign(mayUse, { namesFor: () => 'any' as const });
    },
    exceptions(current, settings, namespace) {
      const nowMs = date().getTime() - CLOCK_SKEW_MS;
      const rules = recent().flatMap(({ kind, object }) => {
        const exception = kind === 'PodSecurityException' ? readException(object) : undefined;
        const applied =
          exception?.namespace === namespace && findExceptionProblem(exception, settings, nowMs) === undefined;
        return applied ? [exception.rule] : [];
      });
      return rules.length === 0 ? current : indexExceptions([...current.rules, ...rules]);
    },
  };
}

/** Returns the ClusterRoles to which bindings refer. */
function referencedRoles(
  { roleBindings, clusterRoleBindings }: { readonly [name: string]: readonly Kinds['RoleBinding'][] },
  store: Store,
): readonly Kinds['ClusterRole'][] {
  const names = [...(roleBindings ?? []), ...(clusterRoleBindings ?? [])].map(({ roleRef }) => roleRef.name);
  return [...new Set(names)].flatMap((name) => store.get('ClusterRole', name) ?? []);
}
