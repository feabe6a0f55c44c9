import type { Action } from '../policy/rbac/index.ts';
import { ApiError, forbidden, createStatus } from '../kube/status.ts';
import { quote } from '../kube/text.ts';
import type { UserInfo } from '../kube/types.ts';
import type { Access } from '../cluster/access.ts';

/** Throws ApiError 403, worded as the API server does, unless the user may do it. */
export function requireAccess(access: Access, user: UserInfo, action: Action): void {
  if (access(user, action)) return;
  const cause = sanitize(`User ${quote(user.username ?? '')} cannot ${action.verb} ${describe(action)}`);
  if (action.nonResourceURL !== undefined)
    throw new ApiError(createStatus(403, 'Forbidden', `forbidden: ${cause}`, {}));
  throw new ApiError(
    forbidden({ group: action.apiGroup ?? '', resource: action.resource ?? '' }, action.name ?? '', cause),
  );
}

function describe({ apiGroup = '', resource = '', subresource = '', namespace = '', nonResourceURL }: Action): string {
  if (nonResourceURL !== undefined) return `path ${quote(nonResourceURL)}`;
  const what = subresource === '' ? resource : `${resource}/${subresource}`;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace ${quote(namespace)}`;
  return `resource ${quote(what)} in API group ${quote(apiGroup)} ${where}`;
}

/** Nothing in the text may look like HTML. */
function sanitize(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
