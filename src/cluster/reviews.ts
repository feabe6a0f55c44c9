import { ApiError } from '../kube/status.ts';
import { isObject, type UserInfo } from '../kube/types.ts';
import type { AccessAttributes } from './port.ts';
import type { Connection } from './connect.ts';

/** Who the server takes us for; `undefined` if it does not tell. */
export async function reviewSelf(connection: Connection, signal?: AbortSignal): Promise<UserInfo | undefined> {
  try {
    const { status } = await create(connection, 'authentication.k8s.io', 'SelfSubjectReview', {}, signal);
    const user = isObject(status) ? status['userInfo'] : undefined;
    return isObject(user) ? user : undefined;
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** Asks the server whether a user may do something. Rejects as `request` does. */
export async function reviewAccess(
  connection: Connection,
  { username, uid, groups, extra }: UserInfo,
  { nonResourceURL, verb, apiGroup, ...resource }: AccessAttributes,
  signal?: AbortSignal,
): Promise<boolean> {
  const spec = {
    user: username,
    uid,
    groups,
    extra,
    ...(nonResourceURL === undefined
      ? { resourceAttributes: { verb, group: apiGroup ?? '', ...resource } }
      : { nonResourceAttributes: { verb, path: nonResourceURL } }),
  };
  const { status } = await create(connection, 'authorization.k8s.io', 'SubjectAccessReview', { spec }, signal);
  return isObject(status) && status['allowed'] === true;
}

async function create(
  connection: Connection,
  group: string,
  kind: string,
  content: Readonly<Record<string, unknown>>,
  signal: AbortSignal | undefined,
): ReturnType<Connection['request']> {
  const apiVersion = `${group}/v1`;
  return await connection.request({
    method: 'POST',
    path: `/apis/${apiVersion}/${kind.toLowerCase()}s`,
    body: { apiVersion, kind, ...content },
    ...(signal ? { signal } : {}),
  });
}
