/** Authorization webhook for the minimum kubelet version, which responds to SubjectAccessReviews. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LIMITS } from '../kube/limits.ts';
import { truncate } from '../kube/text.ts';
import type { AccessReviewStatus } from '../kube/types.ts';
import {
  type AccessRequest,
  accessReviewStatus,
  authorizeKubelet,
  type AuthorizerDecision,
  findReviewType,
  mayBeNode,
  parseAccessReview,
} from '../policy/kubelet/index.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createMinimumReader, findNodeState, type KubeletScope } from '../views/kubelet.ts';
import { type BodyReader, type ReceivedBody, withStatus } from './body.ts';
import { type Queue, TOO_BUSY } from './limits.ts';

export const AUTHORIZER_PATH = '/authorize/minimum-kubelet-version';

/**
 * Response to a node's review that exceeds the size limit. Kubelets never send such a review. The response is a denial
 * rather than an error, because API servers ignore an error unless the webhook's failure policy is `Deny`.
 */
const TOO_LARGE: AccessReviewStatus = {
  allowed: false,
  denied: true,
  reason: `the review has more than ${LIMITS.accessReviewBytes} bytes`,
};
const UNSYNCED = 'the nodes and the settings have not been read yet';
const NO_OPINION: AccessReviewStatus = { allowed: false };
const NO_BYTES = Buffer.alloc(0);

interface AuthorizerDeps {
  readonly kubelet: KubeletScope;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'webhook' | 'kubelet'>;
}

/** Limits that all routes share, which are the memory of bodies and the queue for the main thread. */
interface Shared {
  readonly bodies: BodyReader;
  readonly queue: Queue;
}

/** Adds the route of the webhook, which has its own size limit. */
export function registerKubeletAuthorizer(app: FastifyInstance, deps: AuthorizerDeps, { bodies, queue }: Shared): void {
  const { kubelet, metrics } = deps;
  const log = deps.logger.child({ logger: 'authorizer' });
  const getMinimum = createMinimumReader(kubelet);
  const decide = (request: AccessRequest): AuthorizerDecision =>
    authorizeKubelet(request, {
      minimum: kubelet.store.synced() ? getMinimum() : 'unknown',
      mode: kubelet.settings().compatibility === 'openshift' ? 'strict' : 'recoverable',
      findNode: (name) => findNodeState(kubelet, name),
    });
  const handle = async (
    request: FastifyRequest<{ Body: ReceivedBody | undefined }>,
    reply: FastifyReply,
  ): Promise<FastifyReply> => {
    bodies.release(request.raw);
    const { bytes = NO_BYTES, limit } = request.body ?? {};
    if (limit) return requestRetry(reply, 429, limit.message);
    if (!queue.hasTime() && !(await queue.wait(request.ip, bytes.length)))
      return requestRetry(reply, TOO_BUSY.code, TOO_BUSY.message);
    if (bytes.length > LIMITS.accessReviewBytes) {
      countExceeded('accessReviewBytes');
      if (!mayBeNode(bytes)) return reply.send({ ...findReviewType(bytes), status: NO_OPINION });
      if (!kubelet.store.synced()) return requestRetry(reply, 503, UNSYNCED);
      log.warn({ reason: TOO_LARGE.reason }, 'request denied');
      return reply.send({ ...findReviewType(bytes), status: getMinimum() ? TOO_LARGE : NO_OPINION });
    }
    const review = parseAccessReview(bytes.toString());
    if ('error' in review) throw withStatus(new Error(review.error), 400);
    const { type, access } = review;
    const decision = decide(access);
    metrics.kubelet.authorizations.cell({ decision: decision.decision, cause: decision.cause }).count++;
    const status = accessReviewStatus(decision);
    if (!status) return requestRetry(reply, 503, UNSYNCED);
    if (status.denied) log.info(denialFields(access, status), 'request denied');
    return reply.send({ ...type, status });
  };
  void app.register((scope, _options, done) => {
    scope.addHook('onResponse', (_request, { statusCode }, next) => {
      metrics.webhook.requests.cell({ webhook: AUTHORIZER_PATH, code: String(statusCode) }).count++;
      next();
    });
    scope.post(AUTHORIZER_PATH, handle);
    done();
  });
}

/** Returns the fields of the log line, shortened, because names in reviews may be longer than those of objects. */
function denialFields({ username: user, resource }: AccessRequest, { reason = '' }: AccessReviewStatus) {
  const fields = Object.entries({ user, ...resource, reason });
  return Object.fromEntries(fields.map(([name, text]) => [name, truncate(text, LIMITS.nameCharacters)]));
}

/** Sends an error. The `retry-after` header makes API servers retry instead of caching the response. */
function requestRetry(reply: FastifyReply, status: 413 | 429 | 503, reason: string): FastifyReply {
  return reply.code(status).header('retry-after', '1').type('text/plain; charset=utf-8').send(`${reason}\n`);
}
