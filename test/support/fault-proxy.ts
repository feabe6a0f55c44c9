/**
 * A proxy to an API server with injected faults of networks and busy servers. It forwards all requests with the
 * credentials of one kubeconfig.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { headersToPass, openUpstream, writeOpenKubeconfig } from './api-upstream.ts';

export type Fault =
  | 'none'
  /** The port is closed, and open connections are reset. */
  | 'unreachable'
  /** Open connections stay open without data, also after the fault. New connections get no response. */
  | 'half-open'
  /** Responses are interrupted. */
  | 'resets'
  /** Resource versions expire: watches and continued lists get 410. */
  | 'expired'
  /** Each request and each chunk of its response is delayed. */
  | { readonly slowMs: number }
  /** Each request is rejected, optionally with `Retry-After`. */
  | { readonly code: 403 | 429 | 500 | 503; readonly retryAfterSeconds?: number }
  | { readonly certificate: 'untrusted' | 'expired' | 'for another name' };

export interface FaultProxy {
  readonly url: string;
  /** The path of a kubeconfig for the proxy. */
  readonly kubeconfig: string;
  set(fault: Fault): Promise<void>;
  /** Returns the number of received requests. */
  requests(): number;
  stop(): Promise<void>;
}

/** Starts a proxy to the API server of a kubeconfig. */
export async function startFaultProxy(kubeconfig: string): Promise<FaultProxy> {
  const upstream = await openUpstream(kubeconfig);
  const certificates = createCertificates();
  const sockets = new Set<Socket>();
  /** Half-open connections. */
  const dead = new WeakSet<Socket>();
  const watches = new Set<ServerResponse>();
  let fault: Fault = 'none';
  let requests = 0;

  const server = createServer(certificates.good, (incoming, response) => {
    requests++;
    if (fault === 'half-open') dead.add(incoming.socket);
    if (dead.has(incoming.socket)) {
      incoming.resume();
      return;
    }
    if (typeof fault === 'object' && 'code' in fault) reject(response, fault.code, fault.retryAfterSeconds);
    else if (fault === 'expired' && isExpired(incoming)) expire(incoming, response);
    else if (typeof fault === 'object' && 'slowMs' in fault)
      setTimeout(() => forward(incoming, response), fault.slowMs);
    else forward(incoming, response);
  });
  server.on('secureConnection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  });
  server.on('tlsClientError', (_error, socket) => socket.destroy());

  const forward = (incoming: IncomingMessage, response: ServerResponse): void => {
    const sent = upstream.send(incoming, (received) => {
      if (isWatch(incoming)) watches.add(response);
      relay(received, incoming, response);
    });
    sent.on('error', () => incoming.socket.destroy());
    response.once('close', () => {
      watches.delete(response);
      sent.destroy();
    });
  };

  const relay = (received: IncomingMessage, { socket }: IncomingMessage, response: ServerResponse): void => {
    /** Runs a step with the current delay. */
    const delayed = (act: () => void): void => {
      const delayMs = typeof fault === 'object' && 'slowMs' in fault ? fault.slowMs : 0;
      const pass = (): void => {
        if (!dead.has(socket)) act();
      };
      if (delayMs === 0) pass();
      else setTimeout(pass, delayMs);
    };
    delayed(() => response.writeHead(received.statusCode ?? 500, headersToPass(received)).flushHeaders());
    received.on('data', (chunk: Buffer) =>
      delayed(() => {
        if (fault !== 'resets') response.write(chunk);
        else response.write(chunk.subarray(0, chunk.length / 2), () => socket.destroy());
      }),
    );
    received.on('error', () => delayed(() => socket.destroy()));
    received.on('end', () => delayed(() => response.end()));
  };

  const listen = (port: number): Promise<void> =>
    new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const url = `https://127.0.0.1:${port}`;
  const file = await writeOpenKubeconfig(url, certificates.authority);

  return {
    url,
    kubeconfig: file.path,
    async set(next) {
      const wasUnreachable = fault === 'unreachable';
      fault = next;
      if (next === 'half-open') for (const socket of sockets) dead.add(socket);
      else if (next === 'expired') for (const response of watches) response.end(GONE_EVENT);
      else if (next !== 'none' && !(typeof next === 'object' && 'slowMs' in next))
        for (const socket of sockets) socket.destroy();
      server.setSecureContext(
        typeof next === 'object' && 'certificate' in next ? certificates.bad[next.certificate] : certificates.good,
      );
      if (next === 'unreachable') await new Promise((resolve) => server.close(resolve));
      else if (wasUnreachable) await listen(port);
    },
    requests: () => requests,
    async stop() {
      for (const socket of sockets) socket.destroy();
      upstream.close();
      if (server.listening) await new Promise((resolve) => server.close(resolve));
      await file.remove();
    },
  };
}

interface Certificates {
  /** Certificate authority in PEM. */
  readonly authority: string;
  readonly good: KeyPair;
  readonly bad: Readonly<Record<'untrusted' | 'expired' | 'for another name', KeyPair>>;
}

const DAY_MS = 24 * 3600 * 1000;
const NAMES = { dnsNames: [], ipAddresses: ['127.0.0.1'] };

function createCertificates(): Certificates {
  const validity = { now: new Date(), days: 2 };
  const past = { now: new Date(Date.now() - 10 * DAY_MS), days: 2 };
  const authority = createAuthority(validity);
  return {
    authority: authority.cert,
    good: createServing(authority, NAMES, validity),
    bad: {
      untrusted: createServing(createAuthority(validity), NAMES, validity),
      expired: createServing(authority, NAMES, past),
      'for another name': createServing(authority, { dnsNames: ['api.example'], ipAddresses: [] }, validity),
    },
  };
}

function isWatch({ url = '' }: IncomingMessage): boolean {
  return url.includes('watch=true');
}

function isExpired(incoming: IncomingMessage): boolean {
  return isWatch(incoming) || incoming.url?.includes('continue=') === true;
}

const GONE = { kind: 'Status', apiVersion: 'v1', code: 410, reason: 'Expired', message: 'too old resource version' };
const GONE_EVENT = `${JSON.stringify({ type: 'ERROR', object: GONE })}\n`;

function expire(incoming: IncomingMessage, response: ServerResponse): void {
  if (isWatch(incoming)) response.writeHead(200, { 'content-type': 'application/json' }).end(GONE_EVENT);
  else response.writeHead(410, { 'content-type': 'application/json' }).end(JSON.stringify(GONE));
}

const REASONS = { 403: 'Forbidden', 429: 'TooManyRequests', 500: 'InternalError', 503: 'ServiceUnavailable' } as const;

function reject(response: ServerResponse, code: keyof typeof REASONS, retryAfterSeconds: number | undefined): void {
  const reason = REASONS[code];
  const message = `the proxy responds ${reason} to all requests`;
  const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, reason, code };
  response.writeHead(code, {
    'content-type': 'application/json',
    ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
  });
  response.end(JSON.stringify(status));
}
