import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { ConnectionError } from 'fastify';

/** What is answered to bytes that are no request: the status, and why. Whatever else is wrong with them is a 400. */
const ANSWERS = new Map<string | undefined, readonly [status: number, reason: string]>([
  ['HPE_HEADER_OVERFLOW', [431, 'the head of the request is too large']],
  ['ERR_HTTP_REQUEST_TIMEOUT', [408, 'the request did not arrive in time']],
]);
const NO_REQUEST = [400, 'this is no HTTP request'] as const;

/**
 * Answers bytes that are no request, and closes the connection when the answer has gone out: what was written to a TLS
 * connection that is destroyed at once may never leave.
 */
export function answerClientError({ code }: ConnectionError, socket: Socket): void {
  // It is called again for each further piece that arrives.
  if (code === 'ECONNRESET' || !socket.writable) return;
  const [status, reason] = ANSWERS.get(code) ?? NO_REQUEST;
  socket.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
      'Connection: close',
      'Content-Type: text/plain; charset=utf-8',
      `Content-Length: ${reason.length + 1}`,
      '',
      `${reason}\n`,
    ].join('\r\n'),
  );
  socket.destroySoon();
}
