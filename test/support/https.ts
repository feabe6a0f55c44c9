/** HTTPS requests and raw TLS connections to a server on loopback. */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { type Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';

export interface Endpoint {
  readonly port: number;
  /** Certificate authority in PEM. */
  readonly ca: string;
  /** Client certificate in PEM. */
  readonly cert?: string;
  readonly key?: string;
  /** Additional request headers. */
  readonly headers?: OutgoingHttpHeaders;
}

export interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Sends a POST request. Omits the Content-Type header if the content type is undefined. */
export function post(
  { port, ca, cert, key, headers: more }: Endpoint,
  path: string,
  body: string | Buffer,
  contentType: string | undefined,
  agent: Agent | false = false,
): Promise<Response> {
  const bytes = Buffer.from(body);
  const headers = {
    ...more,
    'content-length': bytes.length,
    ...(contentType === undefined ? {} : { 'content-type': contentType }),
  };
  return new Promise((resolve, reject) => {
    const call = request(
      { host: '127.0.0.1', port, ca, cert, key, path, method: 'POST', headers, agent },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString(),
          });
        });
      },
    );
    // A server may respond to a large body before it has read the whole body. Errors after the response are ignored.
    call.on('error', reject);
    call.end(bytes);
  });
}

export interface RawOptions {
  /** True to close the writing side after all bytes are sent. */
  readonly end?: boolean;
  /** Size of the chunks to send, with a pause after each chunk. */
  readonly chunkBytes?: number;
  readonly pauseMs?: number;
}

/** Longer than any response takes on a busy machine. */
const MAX_WAIT_MS = 20_000;

/**
 * Writes bytes to a TLS connection, and returns the received bytes when the server closes the connection. If the server
 * closes a connection with unread bytes, it is reset and the response may be lost, so the rejected bytes must come
 * last.
 */
export async function sendRaw({ port, ca }: Endpoint, text: string, options: RawOptions = {}): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, ca });
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
  const closed = new Promise<void>((resolve) => {
    socket.on('close', () => resolve());
    socket.on('error', () => resolve());
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('secureConnect', resolve);
    socket.once('error', reject);
  });
  const size = options.chunkBytes ?? text.length;
  for (let index = 0; index < text.length; index += size) {
    socket.write(text.slice(index, index + size));
    if (options.pauseMs !== undefined) await sleep(options.pauseMs);
  }
  if (options.end) socket.end();
  await Promise.race([closed, sleep(MAX_WAIT_MS, undefined, { ref: false })]);
  socket.destroy();
  return received;
}
