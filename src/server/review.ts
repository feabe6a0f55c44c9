/** The path of one review: bytes, AdmissionReview, decision, AdmissionReview; then metrics and a log line. */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision, Denied } from '../kube/admission.ts';
import { parseDurationMs } from '../kube/units.ts';
import { diff } from '../kube/json-patch.ts';
import { truncate } from '../kube/text.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createBodyReader, createTurns, SMALL_BYTES, type BodyReader, type Turns } from './body.ts';
import type { Connections } from './connections.ts';
import { readReview, type Envelope } from './envelope.ts';
import { createReviewReader, type ReviewReader } from './review-reader.ts';
import { isPostponed, type MaybePromise, type Postponed, type Webhook } from './webhook.ts';

export interface ReviewDeps {
  readonly webhooks: readonly Webhook[];
  readonly store: Store;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Called with each denial after its response. It must not throw. */
  onDenied?(request: AdmissionRequest, denial: Denied): void;
  /** Monotonic clock in milliseconds. */
  now(): number;
}

/** Registers one route for each webhook. */
export function registerReviews(app: FastifyInstance, deps: ReviewDeps, connections: Connections): void {
  const bodies = createBodyReader();
  app.addContentTypeParser('application/json', bodies.read);
  const shared = { connections, bodies, turns: createTurns(deps.now), reader: createReviewReader() };
  app.addHook('onClose', shared.reader.close);
  for (const webhook of deps.webhooks) {
    app.post(webhook.path, createHandler(webhook, deps, shared));
  }
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;

/** The share of its timeout that a large review may wait in the queue. The rest is for the decision and the response. */
const WAIT_SHARE = 0.9;

/** Limit of the reason why a review is malformed, in characters. It may contain any part of the review. */
const MAX_REASON = 1024;

const TOO_BUSY = 'too many large reviews at the same time; this one was not reviewed within its timeout';

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
  /** Empty while the worker reads a large review. */
  body: Buffer;
  readonly bytes: number;
  readonly arrivedMs: number;
  /** True for the second attempt, after a wait. */
  readonly isRepeated: boolean;
}

/** Creates the handler of a webhook. It is synchronous where the webhook is, except for large bodies. */
function createHandler(webhook: Webhook, deps: ReviewDeps, shared: Shared): Handler {
  const { connections, bodies, turns, reader } = shared;
  const { store, logger, metrics, now } = deps;
  const respond = createResponder(webhook, metrics, connections);
  const log = logger.child({ logger: 'webhook', webhook: webhook.path });
  const duration = metrics.webhook.duration(webhook.path);
  const parseTimeout = createTimeoutParser();

  const respondDecision = (
    reply: FastifyReply,
    review: AdmissionRequest,
    decision: Decision,
    startMs: number,
  ): void => {
    const durationMs = now() - startMs;
    respond(reply, 200, formatReview(review, decision));
    duration.observe(durationMs / 1000);
    const level = decision.allowed ? 'debug' : 'info';
    if (log.isLevelEnabled(level)) log[level](decisionFields(reply, { review, decision, durationMs }), 'reviewed');
    if (!decision.allowed) deps.onDenied?.(review, decision);
  };
  const respondDefect = (reply: FastifyReply, review: AdmissionRequest, err: unknown): void => {
    log.error({ ...requestFields(reply, review), err }, 'review failed');
    respond(reply, 500, 'internal server error\n');
  };
  const respondLater = async (
    reply: FastifyReply,
    review: AdmissionRequest,
    decision: Promise<Decision | Postponed>,
    startMs: number,
  ): Promise<Postponed | undefined> => {
    metrics.webhook.inFlight.inc();
    try {
      const outcome = await decision;
      if (isPostponed(outcome)) return outcome;
      if (isDisconnected(reply, { ...requestFields(reply, review), durationMs: now() - startMs })) return undefined;
      respondDecision(reply, review, outcome, startMs);
    } catch (error) {
      respondDefect(reply, review, error);
    } finally {
      metrics.webhook.inFlight.dec();
    }
    return undefined;
  };
  const isDisconnected = (reply: FastifyReply, fields: Fields): boolean => {
    if (!reply.raw.destroyed) return false;
    log.info(fields, 'client disconnected before the response');
    reply.hijack();
    return true;
  };

  /** Decides a review, or returns what its decision waits for. */
  const answer = (job: Job, envelope: Envelope): MaybePromise<Postponed | undefined> => {
    const { request, reply, bytes, arrivedMs, isRepeated } = job;
    if ('error' in envelope) {
      const reason = truncate(envelope.error, MAX_REASON);
      log.warn({ reason, remoteAddress: request.ip }, 'malformed review');
      respond(reply, envelope.status, `${reason}\n`);
      return undefined;
    }
    // An unsynced replica answers with an error, so that failurePolicy decides and a cold cluster can start.
    if (!store.synced()) {
      respond(reply, 503, 'the replica has not read the cluster completely yet; try again\n');
      return undefined;
    }
    const review = envelope.request;
    const startMs = isRepeated ? arrivedMs : now();
    try {
      const timeoutMs = parseTimeout(request);
      const outcome = webhook.decide(review, {
        store,
        now,
        deadlineMs: timeoutMs === undefined ? undefined : arrivedMs + timeoutMs,
        bodyBytes: bytes,
        isRepeated,
        // Not a getter: V8 keeps the closure of a getter, and thus the review, until the next full garbage collection.
        getSignal: () => disconnectSignal(reply.raw),
      });
      if (outcome instanceof Promise) return respondLater(reply, review, outcome, startMs);
      if (isPostponed(outcome)) return outcome;
      respondDecision(reply, review, outcome, startMs);
    } catch (error) {
      respondDefect(reply, review, error);
    }
    return undefined;
  };

  /** Reads a large review in the worker, and decides it. */
  const answerLarge = async (job: Job): Promise<Postponed | undefined> => {
    const { request, reply } = job;
    const remoteAddress = request.ip;
    try {
      const { envelope, body } = await reader.read(job.body, webhook.readsWholeObjects === true);
      job.body = body;
      return isDisconnected(reply, { remoteAddress }) ? undefined : await turns.decide(() => answer(job, envelope));
    } catch (err) {
      log.error({ err, remoteAddress }, 'review failed');
      respond(reply, 500, 'internal server error\n');
      return undefined;
    }
  };
  const answerInTurn = async (job: Job): Promise<Postponed | undefined> =>
    await turns.take(() => {
      const { request, reply, arrivedMs, isRepeated } = job;
      if (isDisconnected(reply, { remoteAddress: request.ip })) return undefined;
      const timeoutMs = parseTimeout(request) ?? Infinity;
      if (isRepeated || now() - arrivedMs <= timeoutMs * WAIT_SHARE) return answerLarge(job);
      log.warn({ reason: TOO_BUSY, remoteAddress: request.ip }, 'review rejected');
      respond(reply, 503, `${TOO_BUSY}\n`);
      return undefined;
    });
  const start = (job: Job): MaybePromise<Postponed | undefined> =>
    job.bytes > SMALL_BYTES ? answerInTurn(job) : answer(job, readReview(job.body));

  /** Reads and decides a review again after a wait, during which only its bytes are kept. */
  const answerAgain = async (job: Job, { until }: Postponed): Promise<void> => {
    metrics.webhook.inFlight.inc();
    try {
      await until;
      const { request, reply, arrivedMs } = job;
      if (isDisconnected(reply, { remoteAddress: request.ip, durationMs: now() - arrivedMs })) return;
      await start({ ...job, isRepeated: true });
    } finally {
      metrics.webhook.inFlight.dec();
    }
  };
  const answerFirst = async (job: Job): Promise<void> => {
    const postponed = await answerInTurn(job).finally(() => bodies.release(job.request.raw));
    if (postponed) await answerAgain(job, postponed);
  };

  return (request, reply) => {
    // A POST without content type and body bypasses the content type parsers.
    const body = (request.body as Buffer | undefined) ?? NO_BODY;
    // The request object outlives the review, so that the bytes are released here.
    request.body = undefined;
    connections.start(request.raw.socket);
    const job = { request, reply, body, bytes: body.length, arrivedMs: now(), isRepeated: false };
    if (body.length > SMALL_BYTES) return answerFirst(job);
    const outcome = start(job);
    if (outcome === undefined) return;
    return outcome instanceof Promise
      ? outcome.then((postponed) => postponed && answerAgain(job, postponed))
      : answerAgain(job, outcome);
  };
}

type Respond = (reply: FastifyReply, status: number, body: string) => void;

/** Writes responses directly: Fastify's serialisation of replies costs as much as a decision. */
function createResponder(webhook: Webhook, metrics: Metrics, connections: Connections): Respond {
  const success = metrics.webhook.requests.cell({ webhook: webhook.path, code: '200' });
  return (reply, status, body) => {
    const isSuccess = status === 200;
    const requests = isSuccess
      ? success
      : metrics.webhook.requests.cell({ webhook: webhook.path, code: String(status) });
    requests.count++;
    const headers = {
      'content-type': isSuccess ? 'application/json' : 'text/plain; charset=utf-8',
      'content-length': Buffer.byteLength(body),
    };
    const isLast = connections.finish(reply.request.raw.socket, isSuccess);
    reply.hijack();
    reply.raw.writeHead(status, isLast ? { ...headers, connection: 'close' } : headers).end(body);
  };
}

/**
 * Creates the parser of the timeout that API servers send as `?timeout=5s`, in milliseconds. An invalid duration is ignored.
 * The last duration is cached, since API servers send the same one with each review of a webhook.
 */
function createTimeoutParser(): (request: FastifyRequest) => number | undefined {
  let last: { readonly text: string; readonly ms: number | undefined } = { text: '', ms: undefined };
  return ({ query }) => {
    const { timeout } = query as { readonly timeout?: unknown };
    if (typeof timeout !== 'string') return undefined;
    if (timeout !== last.text) last = { text: timeout, ms: parseDurationMs(timeout) || undefined };
    return last.ms;
  };
}

/** Returns a signal that aborts when the connection closes before the response. */
function disconnectSignal(response: ServerResponse): AbortSignal {
  if (response.destroyed) return AbortSignal.abort();
  const controller = new AbortController();
  response.once('close', () => controller.abort());
  return controller.signal;
}

// AdmissionReview out

/**
 * Limit of each message, and of all audit annotations together, in characters. A pod can cause messages that are many
 * times longer and that end up in logs.
 */
export const MAX_TEXT = 256 * 1024;

/** Formats the response. Its patch is the difference between the object of the request and that of the decision. */
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
  return truncate(text, MAX_TEXT);
}

/** Truncates audit annotations from the point at which they exceed the limit together. */
function limitTexts(annotations: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const length = Object.values(annotations).reduce((sum, value) => sum + value.length, 0);
  if (length <= MAX_TEXT) return annotations;
  let left = MAX_TEXT;
  return Object.fromEntries(
    Object.entries(annotations).map(([key, value]) => {
      const limited = truncate(value, Math.max(left, 0));
      left -= value.length;
      return [key, limited];
    }),
  );
}

// Log line

/** Limit of the reason of a denial in the log, in characters. */
export const MAX_LOGGED_TEXT = 16 * 1024;

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
    reason: decision.allowed ? undefined : truncate(decision.status.message, MAX_LOGGED_TEXT),
    ...decision.facts,
  };
}

/** Identifies a review in the log. The object is never logged, since its environment may contain secrets. */
function requestFields({ request }: FastifyReply, review: AdmissionRequest): Fields {
  return {
    uid: review.uid,
    traceId: parseTraceId(request.headers['traceparent']),
    operation: review.operation,
    kind: review.kind.kind,
    namespace: review.namespace,
    name: review.name,
    user: review.userInfo?.username,
  };
}

/** Version, trace ID, parent ID and flags. IDs of zeros are invalid. Later versions may append fields. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(-.*)?$/;

/**
 * Returns the trace ID of a request, which API servers with tracing send.
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
function parseTraceId(header: string | readonly string[] | undefined): string | undefined {
  if (typeof header !== 'string') return undefined;
  const [, version, id, more] = TRACEPARENT.exec(header) ?? [];
  return version === '00' && more !== undefined ? undefined : id;
}
