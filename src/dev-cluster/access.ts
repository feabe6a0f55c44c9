import { impersonatedUser, parseServiceAccountUsername } from '../kube/admission.ts';
import { ApiError, badRequest, createStatus, forbidden } from '../kube/status.ts';
import { quote } from '../kube/text.ts';
import type { UserInfo } from '../kube/types.ts';
import type { Action } from '../policy/rbac/index.ts';
import type { Access } from '../views/access.ts';

/** Checks that RBAC allows the action. Throws ApiError 403 otherwise. */
export function requireAccess(access: Access, user: UserInfo, action: Action): void {
  if (access(user, action)) return;
  const { verb, apiGroup = '', resource = '', name = '', nonResourceURL } = action;
  const cause = escapeHtml(`User ${quote(user.username ?? '')} cannot ${verb} ${formatTarget(action)}`);
  if (nonResourceURL !== undefined) throw new ApiError(createStatus(403, 'Forbidden', `forbidden: ${cause}`, {}));
  throw new ApiError(forbidden({ group: apiGroup, resource }, name, cause));
}

function formatTarget({ apiGroup = '', resource = '', subresource = '', namespace = '', nonResourceURL }: Action) {
  if (nonResourceURL !== undefined) return `path ${quote(nonResourceURL)}`;
  const target = subresource === '' ? resource : `${resource}/${subresource}`;
  const scope = namespace === '' ? 'at the cluster scope' : `in the namespace ${quote(namespace)}`;
  return `resource ${quote(target)} in API group ${quote(apiGroup)} ${scope}`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const EXTRA_HEADER = 'impersonate-extra-';

/**
 * Returns the user in the Impersonate headers, or the requester if there are none. Throws ApiError 403 if the requester
 * may not impersonate that user.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
 */
export function impersonate(access: Access, requester: UserInfo, rawHeaders: readonly string[]): UserInfo {
  const headers = Map.groupBy(headerPairs(rawHeaders), ([name]) => name);
  const values = (name: string): string[] => (headers.get(name) ?? []).map(([, value]) => value);
  const [username = ''] = values('impersonate-user');
  const [uid = ''] = values('impersonate-uid');
  const groups = values('impersonate-group');
  const extra = [...headers.keys()]
    .filter((name) => name.startsWith(EXTRA_HEADER))
    .map((name) => [decodeURIComponent(name.slice(EXTRA_HEADER.length)), values(name)] as const);
  if (username === '') {
    if (groups.length === 0 && uid === '' && extra.length === 0) return requester;
    throw new ApiError(badRequest(`requested [${groups.join(' ')}] without impersonating a user`));
  }
  const require = (action: Omit<Action, 'verb'>): void =>
    requireAccess(access, requester, { verb: 'impersonate', ...action });
  const account = parseServiceAccountUsername(username);
  if (account) require({ resource: 'serviceaccounts', ...account });
  else require({ resource: 'users', name: username });
  for (const name of groups) require({ resource: 'groups', name });
  const apiGroup = 'authentication.k8s.io';
  for (const [subresource, names] of extra) {
    for (const name of names) require({ apiGroup, resource: 'userextras', subresource, name });
  }
  if (uid !== '') require({ apiGroup, resource: 'uids', name: uid });
  return {
    ...impersonatedUser(username, groups),
    ...(uid === '' ? {} : { uid }),
    ...(extra.length === 0 ? {} : { extra: Object.fromEntries(extra) }),
  };
}

/** Returns the header pairs. Node merges repeated headers, except in `rawHeaders`, where names and values alternate. */
function headerPairs(raw: readonly string[]): [name: string, value: string][] {
  return raw.flatMap((name, index) => (index % 2 === 0 ? [[name.toLowerCase(), raw[index + 1] ?? '']] : []));
}
