import { impersonatedUser, parseServiceAccountUsername } from '../../kube/admission.ts';
import { ApiError, badRequest } from '../../kube/status.ts';
import type { UserInfo } from '../../kube/types.ts';
import type { Access } from '../../cluster/access.ts';
import { requireAccess } from '../access.ts';

const EXTRA = 'impersonate-extra-';

/** Header names in lower case, each with its values in order. */
type Headers = Readonly<Record<string, readonly string[] | undefined>>;

/**
 * The user as whom a request is made: the one that the Impersonate headers name, if the requester may be that user, and
 * the requester without such headers. Throws ApiError 403 or 400.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
 */
export function impersonate(access: Access, requester: UserInfo, headers: Headers): UserInfo {
  const username = headers['impersonate-user']?.[0] ?? '';
  const groups = headers['impersonate-group'] ?? [];
  const uid = headers['impersonate-uid']?.[0] ?? '';
  const extra = extraOf(headers);
  if (username === '') {
    if (groups.length === 0 && uid === '' && extra.size === 0) return requester;
    throw new ApiError(badRequest(`requested [${groups.join(' ')}] without impersonating a user`));
  }
  const may = (
    resource: string,
    name: string,
    more: { subresource?: string; namespace?: string; apiGroup?: string } = {},
  ) => requireAccess(access, requester, { verb: 'impersonate', resource, name, ...more });
  const account = parseServiceAccountUsername(username);
  if (account) may('serviceaccounts', account.name, { namespace: account.namespace });
  else may('users', username);
  for (const group of groups) may('groups', group);
  const apiGroup = 'authentication.k8s.io';
  for (const [key, values] of extra)
    for (const value of values) may('userextras', value, { apiGroup, subresource: key });
  if (uid !== '') may('uids', uid, { apiGroup });
  return {
    ...impersonatedUser(username, groups),
    ...(uid === '' ? {} : { uid }),
    ...(extra.size === 0 ? {} : { extra: Object.fromEntries(extra) }),
  };
}

/** Collects repeated headers, which Node keeps apart in `rawHeaders` only. */
export function headersOf(raw: readonly string[]): Headers {
  const headers: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    (headers[name] ??= []).push(raw[index + 1] ?? '');
  }
  return headers;
}

function extraOf(headers: Headers): ReadonlyMap<string, readonly string[]> {
  const names = Object.keys(headers).filter((name) => name.startsWith(EXTRA));
  return new Map(names.map((name) => [unescape(name.slice(EXTRA.length)), headers[name] ?? []]));
}

function unescape(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}
