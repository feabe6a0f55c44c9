/** Sends access reviews to the API server. */
import { LIMITS } from '../kube/limits.ts';
import { ApiError } from '../kube/status.ts';
import { type AccessReviewStatus, isObject, type UserInfo } from '../kube/types.ts';
import { type Action, USE_SCC } from '../policy/rbac/index.ts';
import { type AccessQuestion, accessQuestionKey } from '../policy/scc/index.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createCache, digest } from './cache.ts';
import { createTokenBucket, systemClock, type TokenBucket, withTimeout } from './clock.ts';
import type { Cluster } from './cluster.ts';
import type { ApiRequest, Connection } from './connection.ts';

/**
 * Returns the identity that the API server assigns to the connection's credentials, or `undefined` if the API server
 * does not serve SelfSubjectReviews.
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

/** Creates a SubjectAccessReview for a user. Rejects with the errors of `Connection.request`. */
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

/** Returns the key of a question. The key is short, although users may have many groups with long names. */
export const accessReviewKey = (question: AccessQuestion): string => digest(accessQuestionKey(question));

/** Reason for a denial if permissions were not reviewed. */
export const ACCESS_REVIEWS_LIMITED = `a client may cause at most ${LIMITS.accessReviewsPerSecond} SubjectAccessReviews per second; try again`;

/** Counts a SubjectAccessReview against the limit of a client address. Returns false if the limit is exhausted. */
export type TakeAccessReview = (address: string | undefined) => boolean;

/**
 * Creates the limit for SubjectAccessReviews. Each address has a separate limit, so clients do not affect each other.
 */
export function createAccessReviewLimit(now: () => number): TakeAccessReview {
  const rate = { perSecond: LIMITS.accessReviewsPerSecond, burst: LIMITS.accessReviewBurst };
  const ttlMs = (rate.burst / rate.perSecond) * 1000;
  const buckets = createCache<TokenBucket>({ limit: 'accessReviewBucketsBytes', ttlMs, now });
  return (address = '') => {
    const bucket = buckets.get(address) ?? createTokenBucket(rate, { ...systemClock, now });
    buckets.set(address, bucket);
    const isTaken = bucket.tryTake();
    if (!isTaken) countExceeded('accessReviewsPerSecond');
    return isTaken;
  };
}

/** Reviews one access request within a time limit in milliseconds, on behalf of a client. */
export type ReviewAccess = (
  question: AccessQuestion,
  client: { readonly timeoutMs: number; readonly address: string | undefined },
) => Promise<boolean | 'limited'>;

interface AccessReviewsDeps {
  readonly cluster: Pick<Cluster, 'reviewAccess'>;
  readonly takeAccessReview: TakeAccessReview;
  readonly logger: Logger;
  readonly metrics: Metrics['scc'];
  /** Returns a monotonic time in milliseconds. */
  now(): number;
}

/** Cache time, which is the default in Kubernetes components for both authorized and unauthorized requests. */
const TTL_MS = 10_000;

/**
 * Creates the SubjectAccessReview client. Results are cached, and identical concurrent reviews are sent only once. An
 * error denies access and is not cached.
 */
export function createAccessReviews({
  cluster,
  takeAccessReview,
  logger,
  metrics,
  now,
}: AccessReviewsDeps): ReviewAccess {
  const cache = createCache<boolean>({ limit: 'accessReviewResultsBytes', ttlMs: TTL_MS, now });
  const pending = new Map<string, Promise<boolean>>();
  const log = logger.child({ logger: 'access' });

  const send = async (question: AccessQuestion, key: string): Promise<boolean> => {
    try {
      const { subject, sccName: name, namespaceName: namespace } = question;
      const { allowed } = await cluster.reviewAccess(subject, { ...USE_SCC, name, namespace });
      metrics.accessReviews.cell({ result: allowed ? 'allowed' : 'denied' }).count++;
      cache.set(key, allowed);
      return allowed;
    } finally {
      pending.delete(key);
    }
  };

  return async (question, { timeoutMs, address }) => {
    const key = accessReviewKey(question);
    const cached = cache.get(key);
    if (cached !== undefined) return cached;
    let answer = pending.get(key);
    if (!answer && !takeAccessReview(address)) return 'limited';
    if (!answer) pending.set(key, (answer = send(question, key)));
    try {
      return await withTimeout(systemClock, timeoutMs, () => answer);
    } catch (err) {
      metrics.accessReviews.cell({ result: 'error' }).count++;
      const { subject, sccName: scc, namespaceName: namespace } = question;
      log.warn({ err, user: subject.username, scc, namespace }, 'access review failed, denying access');
      return false;
    }
  };
}
