import type { FastifyReply } from 'fastify';
import { ApiError, badRequest, createStatus, internalError, type Status } from '../../kube/status.ts';
import type { Warnings } from '../admission/index.ts';
import { warningHeader } from './warning-header.ts';

/** The largest body that is read, in bytes. */
export const BODY_LIMIT = 3 * 1024 * 1024;

export function addWarnings(reply: FastifyReply, warnings: Warnings): void {
  const texts = warnings.list();
  if (texts.length > 0) void reply.header('warning', texts.map(warningHeader));
}

export interface Body {
  readonly contentType: string;
  readonly cacheControl?: string;
  readonly body: string;
}

/**
 * Bodies are sent as bytes: a text would make Node write the headers in its encoding, too, and warnings are bytes already.
 */
export function sendBody(reply: FastifyReply, code: number, { contentType, cacheControl, body }: Body): FastifyReply {
  return reply
    .code(code)
    .header('content-type', contentType)
    .header('cache-control', cacheControl ?? 'no-cache, private')
    .send(Buffer.from(body));
}

export function sendJson(reply: FastifyReply, code: number, object: unknown): FastifyReply {
  return sendBody(reply, code, { contentType: 'application/json', body: `${JSON.stringify(object)}\n` });
}

export function sendText(reply: FastifyReply, code: number, body: string): FastifyReply {
  return sendBody(reply, code, { contentType: 'text/plain; charset=utf-8', body });
}

export function sendStatus(reply: FastifyReply, status: Status): FastifyReply {
  const seconds = status.details?.retryAfterSeconds;
  if (seconds !== undefined) void reply.header('retry-after', String(seconds));
  return sendJson(reply, status.code, { kind: 'Status', apiVersion: 'v1', ...status, metadata: {} });
}

/** What to answer for whatever was thrown. */
export function statusOf(error: unknown): Status {
  if (error instanceof ApiError) return error.status;
  const { code, message } =
    error instanceof Error ? (error as Error & { code?: unknown }) : { code: '', message: String(error) };
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    const text = `Request entity too large: limit is ${BODY_LIMIT}`;
    return createStatus(413, 'RequestEntityTooLarge', text);
  }
  if (typeof code === 'string' && code.startsWith('FST_ERR_CTP')) return badRequest(message);
  return internalError(message);
}
