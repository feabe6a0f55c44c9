/** Decodes each review, decides, and writes the AdmissionReview response, the metrics and the log line. */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { checkSize, TooLargeError } from '../cluster/json.ts';
import type { Parser } from '../cluster/parser.ts';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision, Denied } from '../kube/admission.ts';
import { diff } from '../kube/json-patch.ts';
import { LIMITS } from '../kube/limits.ts';
import { truncate } from '../kube/text.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { BodyReader, ReceivedBody } from './body.ts';
import type { Connections } from './connections.ts';
import { type Envelope, readIdentity, readReview, undecodable } from './envelope.ts';
import {
  answerAfterMs,
  applyLimits,
  createDeadlines,
  createTurns,
  denyUnreviewed,
  type Limit,
  parseTimeout,
  type Queue,
  TOO_BUSY,
  type Turns,
} from './limits.ts';
import type { Webhook } from './webhook.ts';

export interface ReviewDeps {
  readonly webhooks: readonly Webhook[];
  readonly store: Store;
  /** Parses large reviews in a worker thread. */
  readonly parser: Pick<Parser, 'reduceReview'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Called for each denial after the response is sent. It must not throw. */
  onDenied?(request: AdmissionRequest, denial: Denied): void;
  /** Returns a monotonic time in milliseconds. */
  now(): number;
}

interface Shared {
  readonly connections: Connections;
  readonly bodies: BodyReader;
  readonly turns: Turns;
  readonly queue: Queue;
}

/** Registers one route for each webhook. */
export function registerReviews(app: FastifyInstance, deps: ReviewDeps, shared: Omit<Shared, 'turns'>): void {
  const own = { ...shared, turns: createTurns(deps.now) };
  for (const webhook of deps.webhooks) app.post(webhook.path, createHandler(webhook, deps, own));
}

const TOO_MANY_LARGE: Limit = {
  code: 429,
  message: 'too many concurrent large reviews, so the review was not evaluated within its timeout; try again',
};
const TOO_LATE: Limit = { code: 429, message: 'the review was not evaluated within its timeout; try again' };

const NO_BODY = Buffer.alloc(0);
/** Maximum memory that one JSON value in an object needs. Most values need half of this. */
const VALUE_BYTES = 96;

function createHandler(webhook: Webhook, deps: ReviewDeps, { connections, bodies, turns, queue }: Shared) {
  const { store, metrics, now, parser } = deps;
  const responses = createResponses(webhook, deps, connections);
  const deadlines = createDeadlines(now);
  /** Reduces and decodes a large review. The pause after its turn also covers the decision. */
  const readLarge = async (body: Buffer, { raw }: FastifyRequest): Promise<ReadReview> =>
    await turns.take(async () => {
      try {
        const { text, values } = await parser.reduceReview(body, webhook.readsWholeObjects === true);
        bodies.release(raw);
        turns.start();
        return { envelope: readReview(text), measure: () => text.length + VALUE_BYTES * values };
      } catch (error) {
        if (error instanceof TooLargeError) return tooLarge(error);
        if (error instanceof SyntaxError) return { envelope: undecodable(error.message) };
        throw error;
      }
    });

  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { bytes, startMs, limit } = takeBody(request, now);
    const isLarge = bytes.length > LIMITS.mainThreadBytes;
    const identity = isLarge ? readIdentity(bytes) : undefined;
    const source: Source = { request, reply, startMs, readIdentity: () => identity ?? readIdentity(bytes) };
    connections.start(request.raw.socket);
    if (limit) {
      responses.sendUnreviewed(source, limit);
      return;
    }
    const timeoutMs = parseTimeout(request.query);
    const unanswered = {
      deadlineMs: startMs + answerAfterMs(timeoutMs),
      giveUp: () => responses.sendUnreviewed(source, isLarge ? TOO_MANY_LARGE : TOO_LATE),
    };
    deadlines.add(unanswered);
    let review: AdmissionRequest | undefined;
    metrics.webhook.inFlight.inc();
    try {
      if (!isLarge && !queue.hasTime() && !(await queue.wait(request.ip, bytes.length)))
        responses.sendUnreviewed(source, TOO_BUSY);
      if (responses.isDone(source)) return;
      const read = isLarge ? await readLarge(bytes, request) : readSmall(bytes, webhook);
      if (responses.isDone(source)) return;
      if ('limit' in read) responses.sendUnreviewed(source, read.limit);
      else if ('error' in read.envelope) responses.sendMalformed(source, read.envelope.error);
      else if (!store.synced()) responses.sendUnsynced(source);
      else {
        review = read.envelope.request;
        const decidedMs = now();
        const decision = await webhook.decide(review, {
          store,
          now,
          deadlineMs: timeoutMs === undefined ? undefined : unanswered.deadlineMs,
          address: request.ip,
          measure: read.measure,
          // This is a method instead of a getter, because V8 would keep the closure of a getter, and therefore the
          // review, until the next full garbage collection.
          getSignal: () => disconnectSignal(reply.raw),
        });
        if (!responses.isDone(source, review)) responses.sendDecision(reply, review, decision, decidedMs);
      }
    } catch (error) {
      if (!responses.isDone(source, review)) responses.sendDefect(source, error, review);
    } finally {
      metrics.webhook.inFlight.dec();
      deadlines.remove(unanswered);
      bodies.release(request.raw);
    }
  };
}

/** A decoded review, and its estimated memory. */
type ReadReview = { readonly envelope: Envelope; readonly measure?: () => number } | { readonly limit: Limit };

function tooLarge({ message, limit }: TooLargeError, subject = ''): ReadReview {
  return { limit: { code: 413, message: `${subject}${message}`, name: limit } };
}

/**
 * Reads a review in the main thread. Whole objects have the same nesting limit as in large reviews, because recursion
 * could otherwise overflow the stack.
 */
function readSmall(body: Buffer, { readsWholeObjects = false }: Webhook): ReadReview {
  try {
    if (readsWholeObjects) checkSize(body, { values: 'jsonValues', levels: 'nestingLevels' });
  } catch (error) {
    if (!(error instanceof TooLargeError)) throw error;
    return tooLarge(error, 'the fields that decisions read exceed a limit: ');
  }
  return { envelope: readReview(body), measure: () => body.length + VALUE_BYTES * checkSize(body) };
}

/** Returns the body of a request and removes it from the request object, which outlives the review. */
function takeBody(request: FastifyRequest, now: () => number): ReceivedBody {
  // The body is undefined for a POST request without a content type and body, which bypasses the content type parsers.
  const body = (request.body as ReceivedBody | undefined) ?? { bytes: NO_BODY, startMs: now() };
  request.body = undefined;
  return body;
}

/** A request that contains a review. */
interface Source {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Time when the body began to arrive. */
  readonly startMs: number;
  /** Returns the request fields that identify a review that is not decoded. */
  readIdentity(): AdmissionRequest | undefined;
}

/** Creates the functions that send the responses of a webhook, with their metrics and log lines. */
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
  const identify = ({ request, reply }: Source, review: AdmissionRequest | undefined): Fields =>
    review ? requestFields(reply, review) : { remoteAddress: request.ip };
  const sendDefect = (source: Source, err: unknown, review: AdmissionRequest | undefined): void => {
    log.error({ ...identify(source, review), err }, 'review failed');
    respond(source.reply, 500, 'internal server error\n');
  };
  /** Sends an error because the store has not synced. The failure policy applies, so a cold cluster can start. */
  const sendUnsynced = ({ reply }: Source): void => respond(reply, 503, UNSYNCED);
  return {
    sendDecision,
    sendDefect,
    sendUnsynced,
    sendMalformed({ request, reply }: Source, error: string): void {
      const reason = limitText(error, 'malformedCharacters');
      log.warn({ reason, remoteAddress: request.ip }, 'malformed review');
      respond(reply, 400, `${reason}\n`);
    },
    sendUnreviewed(source: Source, limit: Limit): void {
      const { reply, startMs } = source;
      if (reply.raw.destroyed || reply.raw.headersSent) return;
      const identity = source.readIdentity();
      log.warn({ ...identify(source, identity), reason: limit.message }, 'review not evaluated');
      if (!store.synced()) sendUnsynced(source);
      // Bodies without the identifying fields do not come from API servers, which always send these fields first.
      else if (!identity) respond(reply, limit.code === 413 ? 413 : 503, `${limit.message}\n`);
      else {
        try {
          sendDecision(reply, identity, denyUnreviewed(limit), startMs);
        } catch (error) {
          sendDefect(source, error, identity);
        }
      }
    },
    /** Returns true if the client has disconnected or has already received a response. */
    isDone(source: Source, review?: AdmissionRequest): boolean {
      const { reply, startMs } = source;
      if (reply.raw.writableEnded) return true;
      if (!reply.raw.destroyed) return false;
      const durationMs = now() - startMs;
      log.info({ ...identify(source, review), durationMs }, 'client disconnected before the response');
      reply.hijack();
      return true;
    },
  };
}

const UNSYNCED = 'the replica has not read the cluster completely yet; try again\n';

type Respond = (reply: FastifyReply, status: number, body: string) => void;

/** Writes responses directly because Fastify's reply serialization costs as much as a decision. */
function createResponder(webhook: Webhook, metrics: Metrics, connections: Connections): Respond {
  const success = metrics.webhook.requests.cell({ webhook: webhook.path, code: '200' });
  return (reply, status, body) => {
    // The review has timed out, and its response has already been sent.
    if (reply.raw.headersSent) return;
    const isSuccess = status === 200;
    const requests = isSuccess
      ? success
      : metrics.webhook.requests.cell({ webhook: webhook.path, code: String(status) });
    requests.count++;
    const length = Buffer.byteLength(body);
    const isLast = connections.finish(reply.request.raw.socket, isSuccess);
    reply.hijack();
    // Omits the Date and Keep-Alive headers, which API servers do not read.
    reply.raw.sendDate = false;
    const headers = {
      'content-type': isSuccess ? 'application/json' : 'text/plain; charset=utf-8',
      'content-length': length,
      connection: isLast || !reply.raw.shouldKeepAlive ? 'close' : 'keep-alive',
    };
    // For ASCII text, Node's latin1 encoding is faster than UTF-8.
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

/** Formats the response. The patch is the difference between the objects in the request and in the decision. */
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
  if (warnings.length > 0) text += `,"warnings":${JSON.stringify(warnings.map((warning) => limitText(warning)))}`;
  return `${text}}}`;
}

function formatPatch(before: unknown, after: unknown): string {
  const patch = diff(before, after);
  if (patch.length === 0) return '';
  return `,"patchType":"JSONPatch","patch":"${Buffer.from(JSON.stringify(patch)).toString('base64')}"`;
}

type TextLimit = 'malformedCharacters' | 'messageCharacters' | 'loggedCharacters';

/** Truncates a text that exceeds a limit, and counts it. */
function limitText(text: string, limit: TextLimit = 'messageCharacters'): string {
  if (text.length > LIMITS[limit]) countExceeded(limit);
  return truncate(text, LIMITS[limit]);
}

/** Truncates audit annotations once their total length exceeds the limit. */
function limitTexts(annotations: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const length = Object.values(annotations).reduce((sum, value) => sum + value.length, 0);
  if (length <= LIMITS.messageCharacters) return annotations;
  countExceeded('messageCharacters');
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
    reason: decision.allowed ? undefined : limitText(decision.status.message, 'loggedCharacters'),
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
 * Matches the version, trace ID, parent ID and flags. An ID that consists only of zeros is invalid. Later versions may
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
