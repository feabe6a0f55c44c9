/**
 * Role-based access control: may a user do this, by the roles and bindings that are stored.
 *
 * The folder reads rules as they are stored: roles are aggregated elsewhere, and `system:masters` has no special
 * standing here. It never throws for malformed objects; what cannot be understood grants nothing.
 */

/** One rule of a role. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  /** Empty or absent: objects of any name. */
  readonly resourceNames?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
}

/** A Role or a ClusterRole. */
export interface RoleLike {
  readonly metadata?: { readonly name?: string; readonly namespace?: string };
  readonly rules?: readonly PolicyRule[] | null;
}

/** Who is granted a role: a `User`, a `Group` or a `ServiceAccount`. */
export interface Subject {
  readonly kind: string;
  readonly name: string;
  /** Of a service account; absent in a RoleBinding: the namespace of the binding. */
  readonly namespace?: string;
}

/** A RoleBinding or a ClusterRoleBinding. */
export interface RoleBindingLike {
  readonly metadata?: { readonly name?: string; readonly namespace?: string };
  readonly subjects?: readonly Subject[] | null;
  readonly roleRef: { readonly kind: string; readonly name: string };
}

/** The kinds of objects that grant access. */
export const RBAC_KINDS = ['Role', 'ClusterRole', 'RoleBinding', 'ClusterRoleBinding'] as const;
export type RbacKind = (typeof RBAC_KINDS)[number];

/** All that grants access in a cluster. */
export interface RbacObjects {
  readonly roles: readonly RoleLike[];
  readonly clusterRoles: readonly RoleLike[];
  readonly roleBindings: readonly RoleBindingLike[];
  readonly clusterRoleBindings: readonly RoleBindingLike[];
}

/** Who asks, as the API server authenticated it. */
export interface User {
  readonly username?: string;
  readonly groups?: readonly string[];
}

/** What a user wants to do: with a resource, or, if `nonResourceURL` is set, with a path of the server. */
export interface Action {
  readonly verb: string;
  /** `''` or absent: the core group. */
  readonly apiGroup?: string;
  /** The lower-case plural. */
  readonly resource?: string;
  readonly subresource?: string;
  readonly name?: string;
  /** `''` or absent: the whole cluster. */
  readonly namespace?: string;
  readonly nonResourceURL?: string;
}

/** True if the user may do it. */
export type Authorizer = (user: User, action: Action) => boolean;
