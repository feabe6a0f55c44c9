/** Authorization webhook for the minimum kubelet version, which responds to SubjectAccessReviews from API servers. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LIMITS } from '../kube/limits.ts';
import { quote, truncate } from '../kube/text.ts';
import { type AccessReviewStatus, isObject, type JsonObject } from '../kube/types.ts';
import {
  type AccessRequest,
  accessReviewStatus,
  authorizeKubelet,
  type AuthorizerDecision,
  NODE_GROUP,
  NODE_PREFIX,
  type ResourceAttributes,
} from '../policy/kubelet/index.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createMinimumReader, findNodeState, type KubeletScope } from '../views/kubelet.ts';
import { type BodyReader, type ReceivedBody, withStatus } from './body.ts';
import { type Queue, TOO_BUSY } from './limits.ts';

export const AUTHORIZER_PATH = '/authorize/minimum-kubelet-version';

/**
 * Response to larger reviews of nodes. After an error, API servers would permit the request unless their failure policy
 * is `Deny`. Kubelets send no such requests.
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

/** The memory limits of bodies, and the queue for the main thread, which all routes share. */
interface Shared {
  readonly bodies: BodyReader;
  readonly queue: Queue;
}

/** Adds the route, which has its own size limit. */
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
    if (!(await queue.wait(request.ip, bytes.length))) return requestRetry(reply, TOO_BUSY.code, TOO_BUSY.message);
    if (bytes.length > LIMITS.accessReviewBytes) {
      countExceeded('accessReviewBytes');
      if (!mayBeNode(bytes)) return reply.send({ ...findType(bytes), status: NO_OPINION });
      if (!kubelet.store.synced()) return requestRetry(reply, 503, UNSYNCED);
      log.warn({ reason: TOO_LARGE.reason }, 'request denied');
      return reply.send({ ...findType(bytes), status: getMinimum() ? TOO_LARGE : NO_OPINION });
    }
    const { type, access } = parseReview(bytes.toString());
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

/** Returns the fields of the log line. Reviews may contain longer names than objects have. */
function denialFields({ username: user, resource }: AccessRequest, { reason = '' }: AccessReviewStatus) {
  const fields = Object.entries({ user, ...resource, reason });
  return Object.fromEntries(fields.map(([name, text]) => [name, truncate(text, LIMITS.nameCharacters)]));
}

/** Sends an error. The `retry-after` header makes API servers retry instead of caching the response. */
function requestRetry(reply: FastifyReply, status: 413 | 429 | 503, reason: string): FastifyReply {
  return reply.code(status).header('retry-after', '1').type('text/plain; charset=utf-8').send(`${reason}\n`);
}

const GROUP = 'authorization.k8s.io';
const KIND = 'SubjectAccessReview';
/** Name of the field with the user's groups, by API version. */
const GROUPS_FIELD: Readonly<Record<string, string>> = { [`${GROUP}/v1`]: 'groups', [`${GROUP}/v1beta1`]: 'group' };

interface Review {
  /** The type of the review, which the response repeats. */
  readonly type: { readonly apiVersion: string; readonly kind: string };
  readonly access: AccessRequest;
}

/** The user and a group of each node in a review. API servers write these texts without escapes. */
const NODE_TEXTS = [`"${NODE_PREFIX}`, `"${NODE_GROUP}"`];

/**
 * Returns false if the review is not from a node. API servers accept selectors of up to 1 MiB from every user, which
 * take up to 17 MiB in a review, so it is searched instead of parsed.
 */
function mayBeNode(bytes: Buffer): boolean {
  return NODE_TEXTS.every((text) => bytes.includes(text));
}

/** Finds the type of a review that is too large. API servers write the type first. */
function findType(bytes: Buffer): Review['type'] {
  const [start = ''] = bytes.toString('utf8', 0, LIMITS.accessReviewBytes).split('"spec"', 1);
  return { apiVersion: start.includes(`"${GROUP}/v1beta1"`) ? `${GROUP}/v1beta1` : `${GROUP}/v1`, kind: KIND };
}

/** @throws an error with status 400 for a malformed review */
function parseReview(body: string): Review {
  const review = parseJson(body);
  const { apiVersion, kind, spec } = review;
  const field =
    typeof apiVersion === 'string' && Object.hasOwn(GROUPS_FIELD, apiVersion) ? GROUPS_FIELD[apiVersion] : undefined;
  if (kind !== KIND || field === undefined || typeof apiVersion !== 'string') {
    throw malformed(`must be a ${KIND} of ${Object.keys(GROUPS_FIELD).join(' or ')}`);
  }
  if (!isObject(spec)) throw malformed('spec must be an object');
  const { user, resourceAttributes, nonResourceAttributes } = spec;
  const groups = spec[field] ?? [];
  if (user !== undefined && typeof user !== 'string') throw malformed('spec.user must be a string');
  if (!Array.isArray(groups) || !groups.every((group) => typeof group === 'string')) {
    throw malformed(`spec.${field} must be a list of strings`);
  }
  if (isObject(resourceAttributes) === isObject(nonResourceAttributes)) {
    throw malformed('spec must have either resourceAttributes or nonResourceAttributes');
  }
  const resource = isObject(resourceAttributes) ? parseResource(resourceAttributes) : undefined;
  return { type: { apiVersion, kind }, access: { username: user ?? '', groups, resource } };
}

function parseJson(body: string): JsonObject {
  try {
    const value: unknown = JSON.parse(body);
    if (isObject(value)) return value;
  } catch {
    // Reported below.
  }
  throw malformed('the body must be a JSON object');
}

function parseResource(attributes: JsonObject): ResourceAttributes {
  const read = (name: keyof ResourceAttributes): string => {
    const value = attributes[name] ?? '';
    if (typeof value === 'string') return value;
    throw malformed(
      `spec.resourceAttributes.${name} must be a string, not ${quote(JSON.stringify(value).slice(0, 100))}`,
    );
  };
  const [verb, group, resource] = [read('verb'), read('group'), read('resource')];
  return { verb, group, resource, subresource: read('subresource'), name: read('name') };
}

function malformed(reason: string): Error {
  return withStatus(new Error(`invalid ${KIND}: ${reason}`), 400);
}
