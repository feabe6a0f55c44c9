import { request as plainRequest, type Agent, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { request as tlsRequest } from 'node:https';
import type { RawAnswer } from './answer.ts';

/** One request as it goes over the wire. */
export interface RawRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Sends a request and reads its answer to the end.
 * Rejects with what Node says of the connection, or if the signal is aborted.
 */
export async function send(request: RawRequest, agent: Agent): Promise<RawAnswer> {
  return await readWhole(await open(request, agent));
}

/** Sends a request; the body of its answer is still to be read. Rejects as `send` does. */
export async function open(request: RawRequest, agent: Agent): Promise<IncomingMessage> {
  for (;;) {
    const response = await attempt(request, agent);
    if (response !== 'stale') return response;
  }
}

/** Reads an answer to its end. */
export async function readWhole(response: IncomingMessage): Promise<RawAnswer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const { statusCode: code = 0, headers, headersDistinct } = response;
  const warnings = headersDistinct['warning'] ?? [];
  return { code, retryAfter: headers['retry-after'], warnings, body: Buffer.concat(chunks).toString('utf8') };
}

/**
 * A kept connection may be closed by the other side just as it is used again. That is worth another try where a
 * repetition does no harm; a new connection is never stale.
 */
function attempt({ method, url, headers, body, signal }: RawRequest, agent: Agent): Promise<IncomingMessage | 'stale'> {
  const request = url.protocol === 'http:' ? plainRequest : tlsRequest;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent, signal }, resolve);
    sent.on('error', (error: NodeJS.ErrnoException) => {
      const isStale = sent.reusedSocket && error.code === 'ECONNRESET' && method === 'GET' && !signal.aborted;
      if (isStale) resolve('stale');
      else reject(error);
    });
    sent.end(body);
  });
}
