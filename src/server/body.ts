/** The bodies of reviews: their size limit, and the memory that large bodies share. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';

const MIB = 1024 * 1024;
/**
 * The largest review. API servers accept objects of 3 MiB, send the old and the new version of an object, and escape `<`, `>`
 * and `&` in it to six bytes.
 */
const MAX_BYTES = 40 * MIB;
/** Bodies up to this size never wait. */
const SMALL_BYTES = 128 * 1024;
/** The memory for all larger bodies that are received or reviewed at the same time. */
const BUDGET_BYTES = 64 * MIB;

type BodyDone = (error: Error | null, body?: Buffer) => void;

/** Reads a body as bytes. A body that arrives as one chunk, as most reviews do, is not copied. */
export function readBody(request: FastifyRequest, payload: IncomingMessage, done: BodyDone): void {
  const tooLarge = (): Error => withStatus(new Error(`request entity is too large; limit is ${MAX_BYTES} bytes`), 413);
  if (maxLength(request.raw) > MAX_BYTES) {
    done(tooLarge());
    return;
  }
  const chunks: Buffer[] = [];
  let length = 0;
  const finish = (error: Error | null, body?: Buffer): void => {
    payload.off('data', onData).off('end', onEnd).off('error', onError);
    done(error, body);
  };
  const onData = (chunk: Buffer): void => {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_BYTES) finish(tooLarge());
  };
  const onEnd = (): void => finish(null, chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, length));
  const onError = (error: Error): void => finish(withStatus(error, 400));
  payload.on('data', onData).on('end', onEnd).on('error', onError);
}

/** Returns the error with the HTTP status of its response. */
export function withStatus(error: Error, statusCode: number): Error {
  return Object.assign(error, { statusCode });
}

/** The length of a body: at most the limit if the request does not declare it. */
function maxLength({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return MAX_BYTES;
  return Number(headers['content-length'] ?? 0);
}

/** A request whose body has not been read. */
export interface UnreadRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Called before a body that may have to wait. Returns the longest wait in milliseconds. */
  beforeWait(): number;
  /** Reads the body. */
  start(): void;
  /** Responds without the body, after the longest wait. */
  reject(): void;
}

/**
 * Creates the budget of memory for large bodies. A request takes the length of its body until the response is sent or its
 * connection closes. Requests that exceed the remaining budget wait, unread, in the order of their arrival. Small bodies are not counted.
 */
export function createBodyBudget(): (unread: UnreadRequest) => void {
  let free = BUDGET_BYTES;
  const waiting = new Map<UnreadRequest, { readonly bytes: number; start(): void }>();
  const startNext = (): void => {
    for (const [unread, { bytes, start }] of waiting) {
      if (bytes > free) return;
      waiting.delete(unread);
      free -= bytes;
      start();
    }
  };
  const enqueue = (unread: UnreadRequest, bytes: number): void => {
    const { request, response } = unread;
    let taken = 0;
    const timer = setTimeout(() => {
      waiting.delete(unread);
      unread.reject();
      startNext();
    }, unread.beforeWait());
    const end = (): void => {
      response.off('close', end);
      request.socket.off('close', end);
      clearTimeout(timer);
      waiting.delete(unread);
      free += taken;
      startNext();
    };
    // A response that was pipelined behind another does not report that its connection closed.
    response.once('close', end);
    request.socket.once('close', end);
    const start = (): void => {
      clearTimeout(timer);
      taken = bytes;
      unread.start();
    };
    waiting.set(unread, { bytes, start });
    startNext();
  };
  return (unread) => {
    const bytes = maxLength(unread.request);
    // The reader rejects a body over the limit.
    if (bytes <= SMALL_BYTES || bytes > MAX_BYTES) unread.start();
    else enqueue(unread, bytes);
  };
}
