/** Sends access reviews to the API server. */
import { ApiError } from '../kube/status.ts';
import { type AccessReviewStatus, isObject, type UserInfo } from '../kube/types.ts';
import type { Action } from '../policy/rbac/index.ts';
import type { ApiRequest, Connection } from './connection.ts';

/**
 * Returns the identity that the server assigns to the connection's credentials, or `undefined` if it does not serve
 * SelfSubjectReviews.
 */
export async function reviewSelf(connection: Connection, signal?: AbortSignal): Promise<UserInfo | undefined> {
  try {
    const status = await createReview(connection, 'authentication.k8s.io', 'SelfSubjectReview', {}, { signal });
    const user = isObject(status) ? status['userInfo'] : undefined;
    return isObject(user) ? user : undefined;
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

type ReviewOptions = Pick<ApiRequest, 'address' | 'signal'>;

/** Creates a SubjectAccessReview for a user. Rejects like `Connection.request`. */
export async function reviewAccess(
  connection: Connection,
  { username, uid, groups, extra }: UserInfo,
  { nonResourceURL, verb, apiGroup = '', ...resource }: Action,
  options: ReviewOptions = {},
): Promise<AccessReviewStatus> {
  const attributes =
    nonResourceURL === undefined
      ? { resourceAttributes: { verb, group: apiGroup, ...resource } }
      : { nonResourceAttributes: { verb, path: nonResourceURL } };
  const spec = { user: username, uid, groups, extra, ...attributes };
  const status = await createReview(connection, 'authorization.k8s.io', 'SubjectAccessReview', { spec }, options);
  return { ...(isObject(status) ? status : {}), allowed: isObject(status) && status['allowed'] === true };
}

async function createReview(
  connection: Connection,
  group: string,
  kind: string,
  content: Readonly<Record<string, unknown>>,
  options: ReviewOptions,
): Promise<unknown> {
  const apiVersion = `${group}/v1`;
  const { status } = await connection.request({
    method: 'POST',
    path: `/apis/${apiVersion}/${kind.toLowerCase()}s`,
    body: { apiVersion, kind, ...content },
    ...options,
  });
  return status;
}
