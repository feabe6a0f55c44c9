/** Processes a review: decodes it, decides, and writes the AdmissionReview response, the metrics and the log line. */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Store } from '../cluster/store.ts';
import { isOutOfMemory } from '../cluster/worker-client.ts';
import type { AdmissionRequest, Decision, Denied } from '../kube/admission.ts';
import { diff } from '../kube/json-patch.ts';
import { LIMITS } from '../kube/limits.ts';
import { truncate } from '../kube/text.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { type BodyReader, createTurns, type ReceivedBody, SMALL_BYTES, type Turns } from './body.ts';
import type { Connections } from './connections.ts';
import { answerAfterMs, createTimeoutParser } from './deadline.ts';
import { type Envelope, readIdentity, readReview, undecodable } from './envelope.ts';
import { createReviewReader, type ReviewReader } from './review-reader.ts';
import { applyLimits, denyUnreviewed, type Limit, statusOf } from './unreviewed.ts';
import { isPostponed, type MaybePromise, type Postponed, type Webhook } from './webhook.ts';

export interface ReviewDeps {
  readonly webhooks: readonly Webhook[];
  readonly store: Store;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Called for each denial after the response is sent. It must not throw. */
  onDenied?(request: AdmissionRequest, denial: Denied): void;
  /** Monotonic clock in milliseconds. */
  now(): number;
}

/** Registers one route for each webhook. */
export function registerReviews(
  app: FastifyInstance,
  deps: ReviewDeps,
  { connections, bodies }: Pick<Shared, 'connections' | 'bodies'>,
): void {
  const shared = { connections, bodies, turns: createTurns(deps.now), reader: createReviewReader() };
  app.addHook('onClose', shared.reader.close);
  for (const webhook of deps.webhooks) {
    app.post(webhook.path, createHandler(webhook, deps, shared));
  }
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;

const TOO_BUSY: Limit = {
  code: 429,
  message: 'too many concurrent large reviews; this one was not evaluated within its timeout; try again',
};
const TOO_LATE: Limit = { code: 429, message: 'the review was not evaluated within its timeout; try again' };
const NO_MEMORY: Limit = { code: 429, message: 'not enough memory for large reviews; try again' };

const NO_BODY = Buffer.alloc(0);

interface Shared {
  readonly connections: Connections;
  readonly bodies: BodyReader;
  readonly turns: Turns;
  readonly reader: ReviewReader;
}

/** A request and the bytes of its review. */
interface Job {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Empty while the worker reduces a large review. Afterwards, the reduced review. */
  body: Buffer;
  isReduced: boolean;
  /** Request fields that identify a large review. */
  readonly identity: AdmissionRequest | undefined;
  /** Time when the body began to arrive. */
  readonly startMs: number;
  /** True for the second attempt, after waiting. */
  readonly isRepeated: boolean;
}

/** Responses of a webhook, with their metrics and log lines. */
function createResponses(webhook: Webhook, deps: ReviewDeps, connections: Connections) {
  const { store, logger, metrics, now } = deps;
  const respond = createResponder(webhook, metrics, connections);
  const log = logger.child({ logger: 'webhook', webhook: webhook.path });
  const duration = metrics.webhook.duration(webhook.path);
  const sendDecision = (reply: FastifyReply, review: AdmissionRequest, decided: Decision, startMs: number): void => {
    const decision = applyLimits(webhook, { request: review, store }, decided);
    const durationMs = now() - startMs;
    respond(reply, 200, formatReview(review, decision));
    duration.observe(durationMs / 1000);
    const level = decision.allowed ? 'debug' : 'info';
    if (log.isLevelEnabled(level)) log[level](decisionFields(reply, { review, decision, durationMs }), 'reviewed');
    if (!decision.allowed) deps.onDenied?.(review, decision);
  };
  const sendDefect = (reply: FastifyReply, fields: Fields, err: unknown): void => {
    log.error({ ...fields, err }, 'review failed');
    respond(reply, 500, 'internal server error\n');
  };
  return {
    sendDecision,
    sendDefect,
    /**
     * Sends an error because the replica is not synced. The failure policy then applies, so a cold cluster can start.
     */
    sendUnsynced: (reply: FastifyReply): void => respond(reply, 503, UNSYNCED),
    sendMalformed({ request, reply }: Job, error: string): void {
      const reason = truncate(error, LIMITS.malformedCharacters);
      log.warn({ reason, remoteAddress: request.ip }, 'malformed review');
      respond(reply, 400, `${reason}\n`);
    },
    sendUnreviewed({ request, reply, body, identity, startMs }: Job, limit: Limit): void {
      const review = identity ?? readIdentity(body);
      const fields = review ? requestFields(reply, review) : { remoteAddress: request.ip };
      log.warn({ ...fields, reason: limit.message }, 'review not evaluated');
      if (!store.synced()) respond(reply, 503, UNSYNCED);
      else if (!review) respond(reply, statusOf(limit), `${limit.message}\n`);
      else {
        try {
          sendDecision(reply, review, denyUnreviewed(limit), startMs);
        } catch (error) {
          sendDefect(reply, fields, error);
        }
      }
    },
    /** True if the client has disconnected or has already received a response. */
    isDone(reply: FastifyReply, fields: Fields): boolean {
      if (reply.raw.writableEnded) return true;
      if (!reply.raw.destroyed) return false;
      log.info(fields, 'client disconnected before the response');
      reply.hijack();
      return true;
    },
  };
}

type Responses = ReturnType<typeof createResponses>;
type ParseTimeout = ReturnType<typeof createTimeoutParser>;

/** Creates the function that decides a review, or returns the condition for which the decision must wait. */
function createAnswer(webhook: Webhook, deps: ReviewDeps, responses: Responses, parseTimeout: ParseTimeout) {
  const { store, metrics, now } = deps;
  const { sendDecision, sendDefect, isDone } = responses;
  const answerLater = async (
    reply: FastifyReply,
    review: AdmissionRequest,
    decision: Promise<Decision | Postponed>,
    startMs: number,
  ): Promise<Postponed | undefined> => {
    metrics.webhook.inFlight.inc();
    try {
      const outcome = await decision;
      if (isPostponed(outcome)) return outcome;
      if (isDone(reply, { ...requestFields(reply, review), durationMs: now() - startMs })) return undefined;
      sendDecision(reply, review, outcome, startMs);
    } catch (error) {
      sendDefect(reply, requestFields(reply, review), error);
    } finally {
      metrics.webhook.inFlight.dec();
    }
    return undefined;
  };
  return (job: Job, envelope: Envelope): MaybePromise<Postponed | undefined> => {
    const { request, reply, body, startMs: receivedMs, isRepeated } = job;
    if ('error' in envelope) {
      responses.sendMalformed(job, envelope.error);
      return undefined;
    }
    if (!store.synced()) {
      responses.sendUnsynced(reply);
      return undefined;
    }
    const review = envelope.request;
    const startMs = isRepeated ? receivedMs : now();
    try {
      const timeoutMs = parseTimeout(request.query);
      const outcome = webhook.decide(review, {
        store,
        now,
        deadlineMs: timeoutMs === undefined ? undefined : receivedMs + answerAfterMs(timeoutMs),
        address: request.ip,
        bodyBytes: body.length,
        isRepeated,
        // This is not a getter, because V8 would keep the closure of a getter, and therefore the review, until the next
        // full garbage collection.
        getSignal: () => disconnectSignal(reply.raw),
      });
      if (outcome instanceof Promise) return answerLater(reply, review, outcome, startMs);
      if (isPostponed(outcome)) return outcome;
      sendDecision(reply, review, outcome, startMs);
    } catch (error) {
      sendDefect(reply, requestFields(reply, review), error);
    }
    return undefined;
  };
}

type Answer = ReturnType<typeof createAnswer>;

/** Creates the function that has the worker reduce a large review and then decides the review. */
function createLargeAnswer(webhook: Webhook, { bodies, turns, reader }: Shared, responses: Responses, answer: Answer) {
  const { isDone } = responses;
  /** Resolves to true if the reduced review can be decided. */
  const reduce = async (job: Job): Promise<boolean> => {
    const { request, reply, body } = job;
    job.body = NO_BODY;
    const reduced = await reader.reduce(body, webhook.readsWholeObjects === true);
    bodies.release(request.raw);
    if (isDone(reply, { remoteAddress: request.ip })) return false;
    if ('review' in reduced) {
      job.body = Buffer.from(reduced.review.buffer);
      job.isReduced = true;
      return true;
    }
    if (reduced.isLimit) responses.sendUnreviewed(job, { code: 413, message: reduced.error });
    else responses.sendMalformed(job, undecodable(reduced.error).error);
    return false;
  };
  return async (job: Job): Promise<Postponed | undefined> => {
    const { request, reply } = job;
    const remoteAddress = request.ip;
    try {
      if (isDone(reply, { remoteAddress }) || !(job.isReduced || (await reduce(job)))) return undefined;
      return await turns.decide(() => answer(job, readReview(job.body)));
    } catch (err) {
      if (isDone(reply, { remoteAddress })) return undefined;
      if (isOutOfMemory(err)) responses.sendUnreviewed(job, NO_MEMORY);
      else responses.sendDefect(reply, { remoteAddress }, err);
      return undefined;
    }
  };
}

/** Creates the handler of a webhook. The handler is synchronous if the webhook is synchronous and the body is small. */
function createHandler(webhook: Webhook, deps: ReviewDeps, shared: Shared): Handler {
  const { connections, bodies, turns } = shared;
  const { metrics, now } = deps;
  const responses = createResponses(webhook, deps, connections);
  const parseTimeout = createTimeoutParser();
  const answer = createAnswer(webhook, deps, responses, parseTimeout);
  const answerLarge = createLargeAnswer(webhook, shared, responses, answer);
  const start = (job: Job): MaybePromise<Postponed | undefined> =>
    job.body.length > SMALL_BYTES ? turns.take(() => answerLarge(job)) : answer(job, readReview(job.body));

  /** Decodes and decides a review again after a wait. Only the bytes of the review are kept while it waits. */
  const answerAgain = async (job: Job, { until }: Postponed): Promise<void> => {
    metrics.webhook.inFlight.inc();
    try {
      await until;
      const { request, reply, startMs } = job;
      if (responses.isDone(reply, { remoteAddress: request.ip, durationMs: now() - startMs })) return;
      await start({ ...job, isRepeated: true });
    } finally {
      metrics.webhook.inFlight.dec();
    }
  };
  /**
   * Responds to a review that is not decided immediately, either with the decision or with a denial shortly before the
   * timeout.
   */
  const answerInTime = async (job: Job, outcome: Postponed | Promise<Postponed | undefined>): Promise<void> => {
    const { request, reply, startMs, identity } = job;
    const giveUp = (): void => {
      if (!responses.isDone(reply, { remoteAddress: request.ip }))
        responses.sendUnreviewed(job, identity ? TOO_BUSY : TOO_LATE);
      bodies.release(request.raw);
      job.body = NO_BODY;
    };
    const leftMs = answerAfterMs(parseTimeout(request.query)) - (now() - startMs);
    const timer = setTimeout(giveUp, Math.max(leftMs, 0)).unref();
    try {
      const postponed = await outcome;
      if (postponed) await answerAgain(job, postponed);
    } finally {
      clearTimeout(timer);
      bodies.release(request.raw);
    }
  };

  return (request, reply) => {
    const job = createJob(request, reply, now);
    connections.start(request.raw.socket);
    if (job.limit) {
      responses.sendUnreviewed(job, job.limit);
      return;
    }
    const outcome = start(job);
    if (outcome !== undefined) return answerInTime(job, outcome);
  };
}

function createJob(request: FastifyRequest, reply: FastifyReply, now: () => number): Job & Pick<ReceivedBody, 'limit'> {
  // A POST request without content type and body bypasses the content type parsers.
  const received = (request.body as ReceivedBody | undefined) ?? { bytes: NO_BODY, startMs: now(), limit: undefined };
  // The request object outlives the review, so it must not keep the bytes.
  request.body = undefined;
  const { bytes: body, startMs, limit } = received;
  const identity = body.length > SMALL_BYTES ? readIdentity(body) : undefined;
  return { request, reply, body, isReduced: false, identity, startMs, isRepeated: false, limit };
}

const UNSYNCED = 'the replica has not read the cluster completely yet; try again\n';

type Respond = (reply: FastifyReply, status: number, body: string) => void;

/** Writes responses directly because Fastify's reply serialization costs as much as a decision. */
function createResponder(webhook: Webhook, metrics: Metrics, connections: Connections): Respond {
  const success = metrics.webhook.requests.cell({ webhook: webhook.path, code: '200' });
  return (reply, status, body) => {
    // The review has timed out and already has a response.
    if (reply.raw.headersSent) return;
    const isSuccess = status === 200;
    const requests = isSuccess
      ? success
      : metrics.webhook.requests.cell({ webhook: webhook.path, code: String(status) });
    requests.count++;
    const length = Buffer.byteLength(body);
    const isLast = connections.finish(reply.request.raw.socket, isSuccess);
    reply.hijack();
    // API servers do not read the Date and Keep-Alive headers.
    reply.raw.sendDate = false;
    const headers = {
      'content-type': isSuccess ? 'application/json' : 'text/plain; charset=utf-8',
      'content-length': length,
      connection: isLast || !reply.raw.shouldKeepAlive ? 'close' : 'keep-alive',
    };
    // Node encodes ASCII faster as latin1.
    reply.raw.writeHead(status, headers).end(body, length === body.length ? 'latin1' : 'utf8');
  };
}

/** Returns a signal that is aborted if the connection closes before the response. */
function disconnectSignal(response: ServerResponse): AbortSignal {
  if (response.destroyed) return AbortSignal.abort();
  const controller = new AbortController();
  response.once('close', () => controller.abort());
  return controller.signal;
}

// The AdmissionReview response

/**
 * Formats the response. Its patch is the difference between the object in the request and the object in the decision.
 */
function formatReview(request: AdmissionRequest, decision: Decision): string {
  const { allowed, auditAnnotations, warnings = [] } = decision;
  const uid = JSON.stringify(request.uid);
  let text = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":${uid},"allowed":${allowed}`;
  if (!allowed) {
    text += `,"status":${JSON.stringify({ ...decision.status, message: limitText(decision.status.message) })}`;
  } else if (decision.object !== undefined) {
    text += formatPatch(request.object, decision.object);
  }
  if (auditAnnotations) text += `,"auditAnnotations":${JSON.stringify(limitTexts(auditAnnotations))}`;
  if (warnings.length > 0) text += `,"warnings":${JSON.stringify(warnings.map(limitText))}`;
  return `${text}}}`;
}

function formatPatch(before: unknown, after: unknown): string {
  const patch = diff(before, after);
  if (patch.length === 0) return '';
  return `,"patchType":"JSONPatch","patch":"${Buffer.from(JSON.stringify(patch)).toString('base64')}"`;
}

function limitText(text: string): string {
  return truncate(text, LIMITS.messageCharacters);
}

/** Truncates audit annotations once their total length exceeds the limit. */
function limitTexts(annotations: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const length = Object.values(annotations).reduce((sum, value) => sum + value.length, 0);
  if (length <= LIMITS.messageCharacters) return annotations;
  let left = LIMITS.messageCharacters;
  return Object.fromEntries(
    Object.entries(annotations).map(([key, value]) => {
      const limited = truncate(value, Math.max(left, 0));
      left -= value.length;
      return [key, limited];
    }),
  );
}

// Log line

type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

interface Reviewed {
  readonly review: AdmissionRequest;
  readonly decision: Decision;
  readonly durationMs: number;
}

function decisionFields(reply: FastifyReply, { review, decision, durationMs }: Reviewed): Fields {
  return {
    ...requestFields(reply, review),
    durationMs: Math.round(durationMs * 1000) / 1000,
    decision: decision.allowed ? 'allow' : 'deny',
    reason: decision.allowed ? undefined : truncate(decision.status.message, LIMITS.loggedCharacters),
    ...decision.facts,
  };
}

/** Identifies a review in the log. The object is never logged because its environment variables may contain secrets. */
function requestFields({ request }: FastifyReply, review: AdmissionRequest): Fields {
  return {
    uid: review.uid,
    traceId: parseTraceId(request.headers['traceparent']),
    operation: review.operation,
    kind: review.kind.kind,
    namespace: review.namespace,
    name: review.name,
    user: review.userInfo.username,
  };
}

/**
 * Version, trace ID, parent ID and flags. An ID that consists only of zeros is invalid. Later versions may
 * append fields.
 */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(-.*)?$/;

/**
 * Returns the trace ID of a request, which API servers send if tracing is enabled.
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
function parseTraceId(header: string | readonly string[] | undefined): string | undefined {
  if (typeof header !== 'string') return undefined;
  const [, version, id, more] = TRACEPARENT.exec(header) ?? [];
  return version === '00' && more !== undefined ? undefined : id;
}
