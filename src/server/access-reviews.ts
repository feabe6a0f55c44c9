/** Checks with SubjectAccessReviews whether users may use SCCs. */
import { createCache, digest } from '../cluster/cache.ts';
import { createTokenBucket, systemClock, type TokenBucket, withTimeout } from '../cluster/clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { LIMITS } from '../kube/limits.ts';
import { RESOURCES } from '../kube/resources.ts';
import {
  type AccessQuestion,
  accessQuestionKey,
  type SccAccess,
  decideWithKnownAccess,
  type SccDecision,
} from '../policy/scc/index.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { remainingMs, type WaitingRoom } from './waiting-room.ts';
import type { WebhookContext } from './webhook.ts';

/** Calls `decide` with an access check, several times if necessary. */
export type DecideWithAccess = (
  decide: (access: SccAccess) => SccDecision,
  context: WebhookContext,
) => Promise<SccDecision>;

/** Returns a short key, because users may have many and long groups. */
const getKey = (question: AccessQuestion): string => digest(accessQuestionKey(question));

/** Maximum number of concurrent SubjectAccessReviews for one request. */
const MAX_CONCURRENT = 16;

/**
 * Checks access with as few SubjectAccessReviews as the decision needs. Denies access if the SubjectAccessReview does
 * not finish in time or before the admission review is displaced from the waiting room.
 */
export function withReviewedAccess(review: ReviewAccess, waitingRoom: Pick<WaitingRoom, 'enter'>): DecideWithAccess {
  return async (decide, context) => {
    const answers = new Map<string, boolean>();
    let isLimited = false;
    const displaced = Promise.withResolvers<undefined>();
    let untilMs = context.now() + remainingMs(context);
    const signal = context.getSignal?.();
    const leftMs = (): number => (signal?.aborted ? 0 : untilMs - context.now());
    const leave = waitingRoom.enter(context, () => {
      untilMs = -Infinity;
      displaced.resolve(undefined);
    });
    try {
      do {
        const step = decideWithKnownAccess(decide, answers, getKey);
        if ('decision' in step) return isLimited ? withReason(step.decision) : step.decision;
        const open = step.questions.values();
        const reviewNext = async (): Promise<void> => {
          for (const question of open) {
            const timeoutMs = leftMs();
            if (timeoutMs <= 0) return;
            const result = await review(question, { timeoutMs, address: context.address });
            isLimited ||= result === 'limited';
            answers.set(getKey(question), result === true);
          }
        };
        const reviewed = Promise.all(Array.from({ length: MAX_CONCURRENT }, reviewNext));
        await Promise.race([reviewed, displaced.promise]);
      } while (leftMs() > 0);
      return decide({
        canUse: (subject, sccName, namespaceName) => answers.get(getKey({ subject, sccName, namespaceName })) ?? false,
      });
    } finally {
      leave();
    }
  };
}

/** The reason for a denial if permissions were not reviewed. */
export const ACCESS_REVIEWS_LIMITED = `a client may cause at most ${LIMITS.accessReviewsPerSecond} SubjectAccessReviews per second; try again`;

function withReason(decision: SccDecision): SccDecision {
  if (decision.allowed) return decision;
  const { status } = decision;
  return { ...decision, status: { ...status, message: `${status.message}: ${ACCESS_REVIEWS_LIMITED}` } };
}

/** Takes a SubjectAccessReview from the limit of a client address. Returns false if none is left. */
export type TakeAccessReview = (address: string | undefined) => boolean;

/** Creates the limit of SubjectAccessReviews, which is separate for each address, so clients do not affect each other. */
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
type ReviewAccess = (
  question: AccessQuestion,
  client: { readonly timeoutMs: number; readonly address: string | undefined },
) => Promise<boolean | 'limited'>;

interface AccessReviewsDeps {
  readonly cluster: Pick<Cluster, 'reviewAccess'>;
  readonly takeAccessReview: TakeAccessReview;
  readonly logger: Logger;
  readonly metrics: Metrics['scc'];
  /** Monotonic clock in milliseconds. */
  now(): number;
}

/** Default cache time in Kubernetes components, for both authorized and unauthorized requests. */
const TTL_MS = 10_000;

const { group: apiGroup, resource } = RESOURCES.SecurityContextConstraints;
const USE_SCC = { verb: 'use', apiGroup, resource };

/**
 * Creates the SubjectAccessReview client. Results are cached, and identical concurrent reviews are sent once. An error
 * denies access and is not cached.
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
    const key = getKey(question);
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
