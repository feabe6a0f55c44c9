import { createGrantIndex, type GrantIndex } from './grant-index.ts';
import { ruleAllows, ruleCovers } from './rules.ts';
import type { Action, Authorizer, RbacKind, RbacObjects, User } from './types.ts';

/** The names of objects: these, or any. */
export type Names = ReadonlySet<string> | 'any';

/** An authorizer that follows the objects as they change. */
export interface Rbac extends Pick<GrantIndex, 'put' | 'remove'> {
  readonly allows: Authorizer;
  /** For which objects the user may do it, whatever name the action gives. */
  namesFor(user: User, action: Action): Names;
}

/** Makes an authorizer that knows no roles yet. */
export function createRbac(): Rbac {
  const { put, remove, someRule } = createGrantIndex();
  return {
    put,
    remove,
    allows: (user, action) => someRule(user, placeOf(action), (rule) => ruleAllows(rule, action)),
    namesFor(user, action) {
      const names = new Set<string>();
      const isAny = someRule(user, placeOf(action), (rule) => {
        if (!ruleCovers(rule, action)) return false;
        for (const name of rule.resourceNames) names.add(name);
        return rule.resourceNames.length === 0;
      });
      return isAny ? 'any' : names;
    },
  };
}

/**
 * Makes the function that answers whether a user may do something, as the RBAC authorizer of the API server does. It
 * knows the objects as they are now: when they change, make a new one.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/rbac/
 */
export function createAuthorizer(objects: Partial<RbacObjects>): Authorizer {
  const { put, allows } = createRbac();
  const putAll = (kind: RbacKind, all: readonly unknown[] | undefined): void =>
    all?.forEach((object) => put(kind, object));
  putAll('ClusterRole', objects.clusterRoles);
  putAll('Role', objects.roles);
  putAll('ClusterRoleBinding', objects.clusterRoleBindings);
  putAll('RoleBinding', objects.roleBindings);
  return allows;
}

/** A path of the server belongs to no namespace: only what is granted in the whole cluster counts. */
function placeOf({ nonResourceURL, namespace }: Action): string {
  return nonResourceURL == null ? (namespace ?? '') : '';
}
