/**
 * Reads bodies within size and memory limits. Fastify's `bodyLimit` does not limit the total memory of many bodies, so
 * large bodies are read one at a time. Tested by these attacks in `test/resilience`: "bodies of 23 MiB", "slow bodies",
 * "chunked bodies", "unfinished bodies of 6 MiB".
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { createBytes } from '../cluster/bytes.ts';
import { LIMITS } from '../kube/limits.ts';
import { countExceeded } from '../telemetry/limits.ts';
import { answerAfterMs, createShares, type Limit, parseTimeout } from './limits.ts';

/**
 * Minimum number of bytes per interval. While the memory limit is exceeded, a body that receives fewer bytes in two
 * consecutive intervals is rejected.
 */
const MIN_PROGRESS = 64 * 1024;
const CHECK_INTERVAL_MS = 500;

const TOO_LARGE: Limit = { code: 413, message: `request entity is too large; limit is ${LIMITS.reviewBytes} bytes` };
/** Response to a body without a declared length. API servers declare it, and tiny chunks would take too much time. */
const NO_LENGTH = { code: 411, message: 'chunked bodies are not supported: the request must have a Content-Length' };
const NO_PROGRESS: Limit = {
  code: 429,
  message: 'the memory for reviews is exhausted, and the body did not arrive in time; try again',
};

/** A complete body, or the beginning of a body that was not read completely. */
export interface ReceivedBody {
  readonly bytes: Buffer;
  /** Time when the body began to arrive. */
  readonly startMs: number;
  /** Reason why the body was not read completely. */
  readonly limit?: Limit | undefined;
}

type BodyDone = (error: Error | null, body?: ReceivedBody) => void;

/** Returns an error with the HTTP status for its response. */
export function withStatus(error: Error, statusCode: number): Error {
  return Object.assign(error, { statusCode });
}

interface UnfinishedBody {
  readonly payload: IncomingMessage;
  bytes: number;
  /** Value of `bytes` at the last check. `slowChecks` is the number of consecutive checks without progress. */
  checkedBytes: number;
  slowChecks: number;
  reject(limit: Limit): void;
}

export type BodyReader = ReturnType<typeof createBodyReader>;

/**
 * Creates the reader for all bodies. The memory of large bodies is counted as bytes arrive, because the declared length
 * may be larger.
 */
export function createBodyReader(now: () => number) {
  const small = createShares('unfinishedSmallReviewsBytes');
  const large = createLargeBodies();
  /** Reads a body as bytes. A small body that arrives in a single chunk, as in most reviews, is not counted. */
  const read = ({ raw, query, ip, is404 }: FastifyRequest, payload: IncomingMessage, done: BodyDone): void => {
    const length = Number(raw.headers['content-length'] ?? 0);
    const problem = raw.headers['transfer-encoding'] === undefined ? TOO_LARGE : NO_LENGTH;
    if (problem === NO_LENGTH || length > LIMITS.reviewBytes) {
      if (length > LIMITS.reviewBytes) countExceeded('reviewBytes');
      done(withStatus(new Error(problem.message), problem.code));
      return;
    }
    const startMs = now();
    const isLarge = length > LIMITS.mainThreadBytes;
    const bytes = createBytes(length);
    let leave: (() => void) | undefined;
    const end = (): void => {
      payload.off('data', onData).off('end', onEnd).off('error', onError);
      leave?.();
    };
    const reject = (limit: Limit): void => {
      end();
      // Discards the remaining bytes, because the client may not read the response before it has sent them.
      payload.resume();
      done(null, { bytes: Buffer.from(bytes.take().subarray(0, LIMITS.identityBytes)), startMs, limit });
    };
    const body: UnfinishedBody = { payload, bytes: 0, checkedBytes: 0, slowChecks: 0, reject };
    const wait = (): (() => void) => {
      if (!isLarge) return small.add({ address: ip, measure: () => length }, () => reject(NO_PROGRESS));
      const timer = setTimeout(reject, answerAfterMs(parseTimeout(query)), NO_PROGRESS).unref();
      return () => {
        clearTimeout(timer);
        large.remove(body);
      };
    };
    const onData = (chunk: Buffer): void => {
      const { length: size } = chunk;
      // This call frees the chunk, so its length must be read before.
      bytes.add(chunk);
      if (bytes.length() >= length) return;
      leave ??= wait();
      if (isLarge) large.add(body, size);
    };
    const onEnd = (): void => {
      end();
      if (isLarge && !is404) large.hold(length, raw);
      done(null, { bytes: bytes.take(), startMs });
    };
    const onError = (error: Error): void => {
      end();
      done(withStatus(error, 400));
    };
    payload.on('data', onData).on('end', onEnd).on('error', onError);
  };
  return { read, release: large.release };
}

/**
 * Counts the bytes of large bodies until they are released. Above the limit, only the oldest unfinished body is read,
 * so bodies complete one at a time, and bodies without progress are rejected. While the complete bodies alone exceed
 * the limit, no body is read.
 */
function createLargeBodies() {
  const bodies = new Set<UnfinishedBody>();
  /** Functions that release complete bodies, by request. */
  const held = new Map<IncomingMessage, () => void>();
  let used = 0;
  let heldBytes = 0;
  const checks = createProgressChecks(bodies);
  const update = (): void => {
    const isFull = used > LIMITS.unreviewedLargeReviewsBytes;
    const [oldest] = bodies;
    const readable = heldBytes > LIMITS.unreviewedLargeReviewsBytes ? undefined : oldest;
    for (const body of bodies) {
      const { payload } = body;
      if (isFull && body !== readable) {
        if (!payload.isPaused()) countExceeded('unreviewedLargeReviewsBytes');
        payload.pause();
      } else if (payload.isPaused()) payload.resume();
    }
    checks.set(isFull && bodies.size > 0);
  };
  const subtract = (bytes: number): void => {
    const wasFull = used > LIMITS.unreviewedLargeReviewsBytes;
    used -= bytes;
    if (wasFull) update();
  };
  const release = (request: IncomingMessage): void => held.get(request)?.();
  return {
    release,
    add(body: UnfinishedBody, bytes: number): void {
      bodies.add(body);
      body.bytes += bytes;
      used += bytes;
      if (used > LIMITS.unreviewedLargeReviewsBytes) update();
    },
    remove(body: UnfinishedBody): void {
      if (bodies.delete(body)) subtract(body.bytes);
    },
    /** Counts a complete body until it is released or its connection closes. */
    hold(bytes: number, request: IncomingMessage): void {
      const end = (): void => {
        if (!held.delete(request)) return;
        request.socket.off('close', end);
        heldBytes -= bytes;
        subtract(bytes);
      };
      request.socket.once('close', end);
      held.set(request, end);
      heldBytes += bytes;
      used += bytes;
      if (used > LIMITS.unreviewedLargeReviewsBytes) update();
    },
  };
}

/** Creates checks that, while they are active, periodically reject bodies without progress. */
function createProgressChecks(bodies: ReadonlySet<UnfinishedBody>) {
  let timer: NodeJS.Timeout | undefined;
  const check = (): void => {
    const readable = [...bodies].filter(({ payload }) => !payload.isPaused());
    for (const body of readable) {
      body.slowChecks = body.bytes - body.checkedBytes < MIN_PROGRESS ? body.slowChecks + 1 : 0;
      body.checkedBytes = body.bytes;
      if (body.slowChecks > 1) body.reject(NO_PROGRESS);
    }
  };
  return {
    set(isOn: boolean): void {
      if (isOn) timer ??= setInterval(check, CHECK_INTERVAL_MS).unref();
      else {
        clearInterval(timer);
        timer = undefined;
      }
    },
  };
}
