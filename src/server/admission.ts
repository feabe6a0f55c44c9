import { isUtf8 } from 'node:buffer';
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { truncate } from '../kube/text.ts';
import { compileSchema } from '../config/ajv.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { isObject } from '../kube/types.ts';
import type { Store } from '../cluster/store.ts';
import { parseDurationMs } from '../kube/units.ts';
import { diff, type JsonPatchOp } from '../kube/json-patch.ts';
import { createLine, type Facts } from '../telemetry/line.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Connections } from './connections.ts';
import type { Webhook, WebhookContext } from './webhook.ts';

/**
 * What one text of an answer, and all its audit annotations together, may have in characters. A pod may be made to cause
 * many times more, which would end in logs.
 */
export const MAX_TEXT = 256 * 1024;

/** The text, or its beginning if it is longer than anybody reads. */
function bounded(text: string): string {
  return truncate(text, MAX_TEXT);
}

/** The annotations; once they have become too long together, the rest of them is cut. */
function boundedValues(annotations: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const values = Object.values(annotations);
  if (values.reduce((length, value) => length + value.length, 0) <= MAX_TEXT) return annotations;
  let left = MAX_TEXT;
  const cut: (readonly [string, string])[] = [];
  for (const [key, value] of Object.entries(annotations)) {
    cut.push([key, truncate(value, Math.max(left, 0))]);
    left -= value.length;
  }
  return Object.fromEntries(cut);
}

/** The body of an admission review, taken apart: the request inside, or why there is none. */
type Envelope = { readonly request: AdmissionRequest } | { readonly error: string };

const text = { type: 'string' };
const kind = {
  type: 'object',
  properties: { group: text, version: text, kind: text },
  required: ['kind'],
};
const resource = {
  type: 'object',
  properties: { group: text, version: text, resource: text },
  required: ['resource'],
};
const nullable = (schema: object): object => ({ ...schema, nullable: true });

/** Only the envelope: what is in `object` and `oldObject` is the business of the decision. */
const request = {
  type: 'object',
  required: ['uid', 'kind', 'resource', 'operation'],
  properties: {
    uid: { type: 'string', minLength: 1 },
    kind,
    resource,
    subResource: text,
    requestKind: nullable(kind),
    requestResource: nullable(resource),
    requestSubResource: text,
    name: text,
    namespace: text,
    operation: { type: 'string', enum: ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'] },
    userInfo: {
      type: 'object',
      properties: {
        username: text,
        uid: text,
        groups: nullable({ type: 'array', items: text }),
        extra: nullable({ type: 'object', additionalProperties: nullable({ type: 'array', items: text }) }),
      },
    },
    dryRun: nullable({ type: 'boolean' }),
  },
};
const checkReview = compileSchema({ type: 'object', required: ['request'], properties: { request } });

const API_VERSION = 'admission.k8s.io/v1';
const KIND = 'AdmissionReview';

/**
 * Reads an AdmissionReview of `admission.k8s.io/v1`. Plain `JSON.parse`: a map key named `__proto__` is legal and
 * becomes a property like any other. The texts are those of the upstream webhook server, followed by the reason.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.36.0/cmd/webhook/server/server.go
 */
function readEnvelope(body: Buffer): Envelope {
  if (body.length === 0) return { error: 'request body is empty' };
  if (!isUtf8(body)) return undecodable('the body is not valid UTF-8');
  if (hasTooManyValues(body)) return undecodable(`the body has more than ${MAX_BRACKETS} objects and lists`);
  let review: unknown;
  try {
    review = JSON.parse(body.toString());
  } catch (error) {
    return undecodable(error instanceof Error ? error.message : String(error));
  }
  if (!isObject(review)) return undecodable(`the body must be a JSON object of kind ${KIND}`);
  // As upstream: without apiVersion and kind it is taken for what this path serves.
  const apiVersion = review.apiVersion ?? API_VERSION;
  const reviewKind = review.kind ?? KIND;
  if (apiVersion !== API_VERSION) {
    return undecodable(`apiVersion: must be "${API_VERSION}"; set admissionReviewVersions: ["v1"] in the webhook`);
  }
  if (reviewKind !== KIND) return { error: `unexpected AdmissionReview kind: ${printKind(reviewKind)}` };
  const wrong = checkReview(review);
  if (wrong !== undefined) return undecodable(wrong);
  return { request: review.request as AdmissionRequest };
}

/** An object that can be stored has far fewer; parsing millions of empty ones takes half a second and 500 MiB. */
const MAX_BRACKETS = 1_000_000;
const BRACE = '{'.charCodeAt(0);
const BRACKET = '['.charCodeAt(0);

function hasTooManyValues(body: Buffer): boolean {
  if (body.length < 2 * MAX_BRACKETS) return false;
  let count = 0;
  for (let index = 0; index < body.length; index++) {
    const byte = body[index];
    if (byte === BRACE || byte === BRACKET) count++;
  }
  return count > MAX_BRACKETS;
}

function undecodable(reason: string): Envelope {
  return { error: `unable to decode the request: ${reason}` };
}

function printKind(value: unknown): string {
  return typeof value === 'string' ? `${API_VERSION}, Kind=${value}` : 'kind must be a string';
}

export interface AdmissionDeps {
  readonly webhooks: readonly Webhook[];
  readonly store: Store;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** A monotonic clock, in milliseconds. */
  now(): number;
}

/** Registers one route per webhook: AdmissionReview in, decision, AdmissionReview out. */
export function registerAdmission(app: FastifyInstance, deps: AdmissionDeps, connections: Connections): void {
  for (const webhook of deps.webhooks) app.post(webhook.path, createAnswer(webhook, deps, connections));
}

const NO_BODY = Buffer.alloc(0);

type Answer = (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;

/** The life of one review. Synchronous as long as the webhook is: nothing is awaited that need not be. */
function createAnswer(webhook: Webhook, deps: AdmissionDeps, connections: Connections): Answer {
  const { store, logger, metrics, now } = deps;
  const duration = metrics.webhook.duration(webhook.path);
  const answered = metrics.webhook.requests.cell({ webhook: webhook.path, code: '200' });
  const log = logger.child({ logger: 'webhook', webhook: webhook.path });
  const logReviewed = createLine(log, 'reviewed');

  // An answer is one text of a known type: what else Fastify can do with an answer would cost as much as the decision.
  const send = (reply: FastifyReply, code: number, body: string): void => {
    const cell = code === 200 ? answered : metrics.webhook.requests.cell({ webhook: webhook.path, code: String(code) });
    cell.count++;
    const isLast = connections.shouldClose(reply.request.raw.socket);
    const headers = {
      'content-type': code === 200 ? 'application/json' : 'text/plain; charset=utf-8',
      'content-length': Buffer.byteLength(body),
    };
    reply.hijack();
    reply.raw.writeHead(code, isLast ? { ...headers, connection: 'close' } : headers).end(body);
  };
  const sendText = (reply: FastifyReply, code: number, text: string): void => send(reply, code, `${text}\n`);
  const sendDecision = (reply: FastifyReply, review: AdmissionRequest, decision: Decision, startMs: number): void => {
    const durationMs = now() - startMs;
    duration.observe(durationMs / 1000);
    logReviewed(factsOf(review, decision, durationMs));
    send(reply, 200, printReview(review, decision));
  };
  const forget = (reply: FastifyReply, review: AdmissionRequest, startMs: number): void => {
    log.info({ ...identityOf(review), durationMs: now() - startMs }, 'client gone before the answer');
    reply.hijack();
  };
  const sendBug = (reply: FastifyReply, review: AdmissionRequest, err: unknown): void => {
    log.error({ ...identityOf(review), err }, 'review failed');
    sendText(reply, 500, 'internal server error');
  };

  return (request, reply) => {
    // A POST without a body and without a content type passes by every parser.
    const body = (request.body as Buffer | undefined) ?? NO_BODY;
    const bodyBytes = body.length;
    // The request outlives the review; its bytes are not needed for that long.
    request.body = undefined;
    const envelope = readEnvelope(body);
    if ('error' in envelope) {
      log.warn({ reason: envelope.error, remoteAddress: request.ip }, 'malformed review');
      sendText(reply, 400, envelope.error);
      return;
    }
    // Without a complete picture no verdict: the webhook's failurePolicy decides, so that a cold cluster can start.
    if (!store.synced()) {
      sendText(reply, 503, 'the cluster has not been read completely yet; try again');
      return;
    }
    const review = envelope.request;
    const startMs = now();
    try {
      const decision = webhook.decide(review, contextOf({ request, reply, deps, startMs, bodyBytes }));
      if (!(decision instanceof Promise)) {
        sendDecision(reply, review, decision, startMs);
        return;
      }
      metrics.webhook.inFlight.inc();
      return decision
        .then((decided) => {
          if (reply.raw.destroyed) forget(reply, review, startMs);
          else sendDecision(reply, review, decided, startMs);
        })
        .catch((error: unknown) => sendBug(reply, review, error))
        .finally(() => metrics.webhook.inFlight.dec());
    } catch (error) {
      sendBug(reply, review, error);
    }
  };
}

interface Review {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly deps: Pick<AdmissionDeps, 'store' | 'now'>;
  readonly startMs: number;
  readonly bodyBytes: number;
}

/** The API server puts its patience on the URL, as `?timeout=5s`; what is no duration, or none at all, is ignored. */
function contextOf({ request, reply, deps: { store, now }, startMs, bodyBytes }: Review): WebhookContext {
  const { timeout } = request.query as { readonly timeout?: unknown };
  const timeoutMs = typeof timeout === 'string' ? patienceMs(timeout) : undefined;
  const deadlineMs = timeoutMs === undefined ? undefined : startMs + timeoutMs;
  let signal: AbortSignal | undefined;
  return {
    store,
    now,
    deadlineMs,
    bodyBytes,
    // Made for those that wait; most never look at it.
    get signal() {
      return (signal ??= signalOf(reply.raw));
    },
  };
}

/** Aborted when the connection closes before the answer is sent. */
function signalOf(response: ServerResponse): AbortSignal {
  if (response.destroyed) return AbortSignal.abort();
  const aborting = new AbortController();
  response.once('close', () => aborting.abort());
  return aborting.signal;
}

/** API servers send the few values that webhook configurations hold; the last one is worth remembering. */
let lastPatience: { readonly text: string; readonly ms: number | undefined } = { text: '', ms: undefined };

function patienceMs(text: string): number | undefined {
  if (text !== lastPatience.text) lastPatience = { text, ms: parseDurationMs(text) || undefined };
  return lastPatience.ms;
}

/** The answer; its patch is the difference between what came and what the decision made of it. */
function printReview(request: AdmissionRequest, decision: Decision): string {
  const { allowed, auditAnnotations, warnings = [] } = decision;
  let text = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":${JSON.stringify(request.uid)},"allowed":${allowed}`;
  if (!allowed)
    text += `,"status":${JSON.stringify({ ...decision.status, message: bounded(decision.status.message) })}`;
  else if (decision.object !== undefined) text += printPatch(diff(request.object, decision.object));
  if (auditAnnotations) text += `,"auditAnnotations":${JSON.stringify(boundedValues(auditAnnotations))}`;
  if (warnings.length > 0) text += `,"warnings":${JSON.stringify(warnings.map(bounded))}`;
  return `${text}}}`;
}

function printPatch(patch: readonly JsonPatchOp[]): string {
  return patch.length === 0 ? '' : `,"patchType":"JSONPatch","patch":"${toBase64(JSON.stringify(patch))}"`;
}

function toBase64(text: string): string {
  return Buffer.from(text).toString('base64');
}

function factsOf(request: AdmissionRequest, decision: Decision, durationMs: number): Facts {
  return {
    ...identityOf(request),
    durationMs: Math.round(durationMs * 1000) / 1000,
    decision: decision.allowed ? 'allow' : 'deny',
    reason: decision.allowed ? undefined : bounded(decision.status.message),
    ...decision.facts,
  };
}

/** What a line about a review says; never the object, whose environment may hold secrets. */
function identityOf(request: AdmissionRequest): Facts {
  return {
    uid: request.uid,
    operation: request.operation,
    kind: request.kind.kind,
    namespace: request.namespace,
    name: request.name,
    user: request.userInfo?.username,
  };
}
