/** Public API of the package export `./rbac`. */
export { createAuthorizer } from './authorizer.ts';
export type { Action, Authorizer, PolicyRule, RbacObjects, RoleBindingLike, RoleLike, Subject, User } from './rules.ts';
