import { indexGrants } from './grants.ts';
import { ruleAllows } from './rules.ts';
import type { Authorizer, RbacObjects } from './types.ts';

/**
 * Makes the function that answers whether a user may do something, as the RBAC authorizer of the API server does. It
 * knows the objects as they are now: when they change, make a new one.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/rbac/
 */
export function createAuthorizer(objects: RbacObjects): Authorizer {
  const index = indexGrants(objects);
  return (user, action) => {
    // A path of the server belongs to no namespace: only what is granted in the whole cluster counts.
    const namespace = action.nonResourceURL == null ? (action.namespace ?? '') : '';
    for (const grants of index.grantsOf(user, namespace)) {
      for (const rules of grants) {
        for (const rule of rules) if (ruleAllows(rule, action)) return true;
      }
    }
    return false;
  };
}
