import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Store } from '../cluster/store.ts';
import type { AdmissionRequest, Decision } from '../kube/admission.ts';
import { parseDurationMs } from '../kube/duration.ts';
import { diff, type JsonPatchOp } from '../kube/json-patch.ts';
import { createLine, type Facts } from '../telemetry/line.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { bounded, boundedValues } from './bounded.ts';
import type { Connections } from './connections.ts';
import { readEnvelope } from './envelope.ts';
import type { Webhook, WebhookContext } from './webhook.ts';

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
