import type { Cluster } from '../cluster/cluster.ts';
import { RESOURCES } from '../kube/resources.ts';
import { keyOf, type AccessQuestion } from '../policy/scc/access.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

export interface AccessReviewsDeps {
  readonly cluster: Pick<Cluster, 'reviewAccess'>;
  readonly logger: Logger;
  readonly metrics: Metrics['scc'];
  /** A monotonic clock, in milliseconds. */
  now(): number;
}

/** How long answers count: as long as Kubernetes' own components keep those that they ask API servers for. */
const TTL_MS = 10_000;
const MAX_KEPT = 10_000;

const { group: apiGroup, resource } = RESOURCES.SecurityContextConstraints;
const USE_SCC = { verb: 'use', apiGroup, resource };

interface Kept {
  readonly allowed: boolean;
  readonly untilMs: number;
}

/** Asks one question, within a time in milliseconds. */
export type AskAccess = (question: AccessQuestion, timeoutMs: number) => Promise<boolean>;

/**
 * Makes what asks the API server by SubjectAccessReviews. Answers are kept for a short while, and a question is on its way
 * only once; an error counts as a no, for this time only.
 */
export function createAccessReviews({ cluster, logger, metrics, now }: AccessReviewsDeps): AskAccess {
  const kept = new Map<string, Kept>();
  const asking = new Map<string, Promise<boolean>>();
  const log = logger.child({ logger: 'access' });

  const keep = (key: string, allowed: boolean): void => {
    kept.delete(key);
    kept.set(key, { allowed, untilMs: now() + TTL_MS });
    const [oldest] = kept.keys();
    if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
  };
  const ask = async (question: AccessQuestion, key: string): Promise<boolean> => {
    try {
      const { subject, sccName: name, namespaceName: namespace } = question;
      const allowed = await cluster.reviewAccess(subject, { ...USE_SCC, name, namespace });
      metrics.accessReviews.cell({ result: allowed ? 'allowed' : 'denied' }).count++;
      keep(key, allowed);
      return allowed;
    } finally {
      asking.delete(key);
    }
  };

  return async (question, timeoutMs) => {
    const key = keyOf(question);
    const known = kept.get(key);
    if (known && known.untilMs > now()) return known.allowed;
    let answer = asking.get(key);
    if (!answer) asking.set(key, (answer = ask(question, key)));
    try {
      return await withTimeout(answer, timeoutMs);
    } catch (err) {
      metrics.accessReviews.cell({ result: 'error' }).count++;
      const { subject, sccName: scc, namespaceName: namespace } = question;
      log.warn({ err, user: subject.username, scc, namespace }, 'access not reviewed, taken for a no');
      return false;
    }
  };
}

function withTimeout<T>(answer: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${Math.round(timeoutMs)} ms`)), timeoutMs);
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
