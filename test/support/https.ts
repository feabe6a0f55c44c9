/** HTTPS as clients of ours speak it: with a certificate authority they trust, on sockets that tests can look at. */
import type { IncomingHttpHeaders } from 'node:http';
import { type Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';

export interface Endpoint {
  readonly port: number;
  /** In PEM. */
  readonly ca: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** POSTs a body; without a content type the header is left out. */
export function post(
  { port, ca }: Endpoint,
  path: string,
  body: string | Buffer,
  contentType: string | undefined,
  agent: Agent | false = false,
): Promise<Answer> {
  const bytes = Buffer.from(body);
  const headers = {
    'content-length': bytes.length,
    ...(contentType === undefined ? {} : { 'content-type': contentType }),
  };
  return new Promise((resolve, reject) => {
    const call = request({ host: '127.0.0.1', port, ca, path, method: 'POST', headers, agent }, (response) => {
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
    });
    // A server may refuse a large body before it has read it all; what it said still counts.
    call.on('error', reject);
    call.end(bytes);
  });
}

export interface RawOptions {
  /** Close our side after sending. */
  readonly end?: boolean;
  /** Send in pieces of that size, with a pause between them. */
  readonly chunkBytes?: number;
  readonly pauseMs?: number;
}

/** Longer than any answer takes, on however busy a machine: a server that does not close is what the test is about then. */
const PATIENCE_MS = 20_000;

/**
 * Writes bytes onto a TLS connection and returns what came back until the server closed. A server that closes while it has
 * not read all resets the connection, and what it said may be lost: the bytes that it objects to have to be the last ones.
 */
export async function sendRaw({ port, ca }: Endpoint, text: string, options: RawOptions = {}): Promise<[string]> {
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
  await Promise.race([closed, sleep(PATIENCE_MS, undefined, { ref: false })]);
  socket.destroy();
  return [received];
}
