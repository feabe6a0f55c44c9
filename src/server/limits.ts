/**
 * Limits URLs and deadlines, queues the work for the main thread, and responds to reviews that exceed a limit. The
 * comments name the attacks in `test/resilience` that test each rule. `body.ts` limits bodies, and `connections.ts`
 * limits connections.
 */
import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { createSlots, createTurn } from '../cluster/clock.ts';
import type { Store } from '../cluster/store.ts';
import { type AdmissionRequest, type Decision, type Denied, deny, LIMIT_CODES } from '../kube/admission.ts';
import { type LimitName, LIMITS } from '../kube/limits.ts';
import { createStatus, tooLarge } from '../kube/status.ts';
import { parseDurationMs } from '../kube/units.ts';
import { countExceeded } from '../telemetry/limits.ts';
import type { Webhook } from './webhook.ts';

// URLs and headers, tested by the attacks "long URLs" and "headers"

/** Code of Node's error for headers beyond the limit. */
export const HEADER_OVERFLOW = 'HPE_HEADER_OVERFLOW';

const LONG_URL_PATH = '/uri-too-long';

/** Server option that replaces the URL of a request before it is parsed and routed, if the URL is too long. */
export const URL_LIMIT = {
  rewriteUrl: ({ url = '/' }: IncomingMessage): string => (url.length > LIMITS.urlCharacters ? LONG_URL_PATH : url),
};

/** Rejects requests with replaced URLs. Counts them and the requests with headers that are too large. */
export function limitUrls(app: FastifyInstance): void {
  app.server.on('clientError', ({ code }: NodeJS.ErrnoException) => {
    if (code === HEADER_OVERFLOW) countExceeded('headerBytes');
  });
  const reject = (_request: unknown, reply: FastifyReply): void => {
    countExceeded('urlCharacters');
    const text = `the URL is longer than ${LIMITS.urlCharacters} characters\n`;
    // Closes the connection, because its next bytes are the unread body.
    void reply.code(414).header('connection', 'close').type('text/plain; charset=utf-8').send(text);
  };
  app.all(LONG_URL_PATH, { onRequest: reject }, reject);
}

// Deadlines, tested by the attack "long timeouts in the URL"

/** Parses the timeout `?timeout=5s` to milliseconds. Returns `undefined` for an invalid duration. */
export function parseTimeout(query: unknown): number | undefined {
  const { timeout } = query as { readonly timeout?: unknown };
  return typeof timeout === 'string' ? parseDurationMs(timeout) || undefined : undefined;
}

/** Maximum timeout of webhooks. Requests with no timeout or a longer timeout do not come from API servers. */
const MAX_TIMEOUT_MS = 30_000;
/**
 * Maximum error of the timeout, because API servers round the remaining time up to whole seconds.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.37.2/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go
 */
const ROUNDING_MS = 1000;
/** Part of the timeout reserved for the connection and the response. */
const TRANSFER_SHARE = 0.1;

/**
 * Returns the time after which the server responds even if the evaluation has not finished, because an API server that
 * fails open admits the object if the response is late.
 */
export function answerAfterMs(timeoutMs = MAX_TIMEOUT_MS): number {
  const limitMs = Math.min(timeoutMs, MAX_TIMEOUT_MS);
  return limitMs - Math.min(limitMs / 2, ROUNDING_MS + limitMs * TRANSFER_SHARE);
}

const CHECK_INTERVAL_MS = 50;

/** A review that has no response yet. */
interface Unanswered {
  readonly deadlineMs: number;
  /** Responds without a decision. Has no effect if a response has already been sent. */
  giveUp(): void;
}

/** Ends reviews at their deadlines. One timer checks all of them, which is faster than a timer for each review. */
export function createDeadlines(now: () => number) {
  const reviews = new Set<Unanswered>();
  let timer: NodeJS.Timeout | undefined;
  const check = (): void => {
    const nowMs = now();
    for (const review of reviews) if (review.deadlineMs <= nowMs) review.giveUp();
    if (reviews.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  return {
    add(review: Unanswered): void {
      reviews.add(review);
      timer ??= setInterval(check, CHECK_INTERVAL_MS).unref();
    },
    remove(review: Unanswered): void {
      reviews.delete(review);
    },
  };
}

// Responses to reviews beyond a limit

/** Reason why a review is not evaluated. */
export interface Limit {
  /** 413 if every attempt fails, or 429 if a later attempt may succeed. After 429, API clients retry after a second. */
  readonly code: 413 | 429;
  readonly message: string;
  /** Name of the limit, unless the exceeded limit is counted elsewhere. */
  readonly name?: LimitName;
}

/** Limit for a review that was displaced because too many reviews wait for the main thread. */
export const TOO_BUSY: Limit = { code: 429, message: 'too many concurrent reviews; try again' };

/**
 * Returns the denial of a review that is not evaluated. If the server returned an HTTP error instead, `failurePolicy:
 * Ignore` would admit the object.
 */
export function denyUnreviewed({ code, message, name }: Limit): Denied {
  const status =
    code === 413 ? tooLarge(message) : createStatus(code, 'TooManyRequests', message, { retryAfterSeconds: 1 });
  return deny(status, { limit: name });
}

interface ReviewScope {
  readonly request: AdmissionRequest;
  readonly store: Store;
}

/** Allows a request that exceeds a limit with a warning, unless the webhook or policy enforces. */
export function allowUnlessEnforced(
  { enforces }: Pick<Webhook, 'enforces'>,
  { request, store }: ReviewScope,
  decision: Decision,
): Decision {
  if (decision.allowed || !LIMIT_CODES.has(decision.status.code) || enforces?.(request, store) !== false)
    return decision;
  const { status, ...details } = decision;
  return { ...details, allowed: true, warnings: [...(details.warnings ?? []), status.message] };
}

/** Counts the limit that a decision has exceeded, and applies `allowUnlessEnforced`. */
export function applyLimits(webhook: Webhook, scope: ReviewScope, decision: Decision): Decision {
  if (decision.limit) countExceeded(decision.limit);
  return allowUnlessEnforced(webhook, scope, decision);
}

// Shares of client addresses

/** A client whose review waits. */
interface Client {
  readonly address?: string;
  /** Returns the memory in bytes that the review uses while it waits. */
  readonly measure?: (() => number) | undefined;
}

type SharedLimit = 'queuedReviewsBytes' | 'unfinishedSmallReviewsBytes' | 'waitingReviewsBytes';

/**
 * Minimum number of bytes that are counted for a waiting review. As a result, at most 2,048 reviews wait, which is more
 * than the default concurrency limits of three API servers allow.
 */
const MIN_BYTES = 24 * 1024;

/**
 * Shares a memory limit among client addresses. Above the limit, displaces the oldest review of the address with the
 * largest share, so a client cannot displace reviews from an address with a smaller share. Tested by the attacks "wide
 * objects that wait" and "unfinished bodies of 127 KiB".
 */
export function createShares(limit: SharedLimit, maxBytes: number = LIMITS[limit]) {
  const shares = new Map<string, { bytes: number; readonly reviews: Map<() => void, number> }>();
  let used = 0;
  const remove = (address: string, displace: () => void): void => {
    const share = shares.get(address);
    const bytes = share?.reviews.get(displace);
    if (!share || bytes === undefined) return;
    share.reviews.delete(displace);
    share.bytes -= bytes;
    used -= bytes;
    if (share.reviews.size === 0) shares.delete(address);
  };
  const displaceOldest = (): void => {
    const [address, { reviews }] = [...shares].reduce((most, next) => (next[1].bytes > most[1].bytes ? next : most));
    const [displace] = reviews.keys();
    if (!displace) return;
    remove(address, displace);
    displace();
  };
  return {
    /** Counts a waiting review. Calls `displace` if it must make room. Returns the function that ends the wait. */
    add({ address = '', measure }: Client, displace: () => void): () => void {
      const bytes = Math.max(measure?.() ?? 0, MIN_BYTES);
      const share = shares.get(address) ?? { bytes: 0, reviews: new Map() };
      shares.set(address, share);
      share.reviews.set(displace, bytes);
      share.bytes += bytes;
      used += bytes;
      if (used > maxBytes) countExceeded(limit);
      while (used > maxBytes) displaceOldest();
      return () => remove(address, displace);
    },
  };
}

// Queues for the main thread

/** Maximum time for small reviews in one turn of the event loop. */
const SLICE_MS = 5;

export type Queue = ReturnType<typeof createQueue>;

/**
 * Creates the queue for small reviews, in which client addresses take turns. Otherwise, hundreds of reviews that arrive
 * at the same time would delay a review from another client until all of them are decided. Tested by the attacks "deep
 * and wide JSON" and "pods of users with many groups".
 */
export function createQueue(now: () => number) {
  const turn = createTurn();
  const shares = createShares('queuedReviewsBytes');
  let waiting = 0;
  let sliceEndMs: number | undefined;
  return {
    /** Returns true if the main thread can evaluate a review immediately. */
    hasTime(): boolean {
      const nowMs = now();
      if (sliceEndMs === undefined) {
        sliceEndMs = nowMs + SLICE_MS;
        setImmediate(() => (sliceEndMs = undefined));
      }
      return waiting === 0 && nowMs < sliceEndMs;
    },
    /** Waits for the main thread. Returns false if the review is displaced because too many bytes wait. */
    async wait(address: string, bytes: number): Promise<boolean> {
      // Aborted when the review is displaced, so it leaves the queue. Otherwise, the queue would keep its body and
      // delay the following reviews.
      const displaced = new AbortController();
      const leave = shares.add({ address, measure: () => bytes }, () => displaced.abort('displaced'));
      waiting++;
      try {
        await turn(address, displaced.signal);
        return !displaced.signal.aborted;
      } finally {
        waiting--;
        leave();
      }
    },
  };
}

const MAX_PAUSE_MS = 50;

export type Turns = ReturnType<typeof createTurns>;

/**
 * Creates the queue for large bodies, which processes one body at a time. Afterwards, the queue leaves the main thread
 * to smaller reviews for as long as it was used for the last body, but for at most 50 ms. Tested by the attack "large
 * reviews from eight clients".
 */
export function createTurns(now: () => number) {
  const slot = createSlots(1);
  let usedSinceMs = Infinity;
  const pause = async (): Promise<void> => {
    // Waits for the next turn of the event loop, because the decision runs in the current turn.
    await nextTurn();
    // If the body was never processed, the main thread was not used.
    await sleep(Math.min(Math.max(now() - usedSinceMs, 0), MAX_PAUSE_MS));
    usedSinceMs = Infinity;
  };
  return {
    async take<T>(work: () => Promise<T>): Promise<T> {
      const release = await slot.take();
      return await work().finally(() => void pause().then(release));
    },
    /** Records that the main thread starts to process the body. */
    start(): void {
      usedSinceMs = now();
    },
  };
}
