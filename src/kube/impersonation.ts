import type { UserInfo } from './types.ts';

const SERVICE_ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;
const AUTHENTICATED = 'system:authenticated';
const UNAUTHENTICATED = 'system:unauthenticated';

/** The namespace and the name of the service account that a user is; `undefined` for anybody else. */
export function serviceAccountOf(username: string): { readonly namespace: string; readonly name: string } | undefined {
  const [, namespace, name] = SERVICE_ACCOUNT.exec(username) ?? [];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

/**
 * The user that somebody becomes who acts as that user and as a member of those groups: a service account without groups
 * has its own, and who is somebody is authenticated, unless the groups say otherwise.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
 */
export function impersonatedUser(username: string, groups: readonly string[]): UserInfo {
  const account = serviceAccountOf(username);
  const own = groups.length > 0 || account === undefined ? groups : accountGroups(account.namespace);
  const anonymous = username === 'system:anonymous';
  const stated = own.includes(UNAUTHENTICATED) || (!anonymous && own.includes(AUTHENTICATED));
  return { username, groups: stated ? own : [...own, anonymous ? UNAUTHENTICATED : AUTHENTICATED] };
}

function accountGroups(namespace: string): readonly string[] {
  return ['system:serviceaccounts', `system:serviceaccounts:${namespace}`];
}
