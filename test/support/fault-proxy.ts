/**
 * A proxy that injects faults, as from networks and busy servers, into connections to an API server. It forwards all
 * requests with the credentials of one kubeconfig.
 */
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { dirname, join } from 'node:path';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { formatKubeconfig, headersToPass, openUpstream, writeOpenKubeconfig } from './api-upstream.ts';

export type Fault =
  | 'none'
  /** The port is closed, and open connections are reset. */
  | 'unreachable'
  /** Open connections stay open without data, even after the fault. New connections receive no response. */
  | 'half-open'
  /** Watches stay open without data, even after the fault. Other requests are forwarded. */
  | 'silent watches'
  /** Watches receive no bookmarks. */
  | 'no bookmarks'
  /** Responses are interrupted. */
  | 'resets'
  /** Responses have status 200 but do not come from an API server. */
  | 'garbage'
  /** Resource versions expire, so watches and continued lists fail with 410. */
  | 'expired'
  /** Each request and each chunk of its response is delayed. */
  | { readonly slowMs: number }
  /** Each page of a list is delayed, and open watches end with 410. */
  | { readonly slowListMs: number }
  /** Lists at this path receive no response. */
  | { readonly hangingList: string }
  /** Each request is rejected with this status, optionally with `Retry-After`. */
  | { readonly code: Code; readonly retryAfterSeconds?: number }
  /** The first writes of each verb and resource are rejected with these codes in turn. */
  | { readonly rejectedWrites: readonly Code[] }
  | { readonly certificate: 'untrusted' | 'expired' | 'for another name' }
  /** The credentials of the client are no longer valid. When the fault ends, its files contain valid credentials. */
  | { readonly replaced: 'token' | 'authority' };

type Code = 403 | 409 | 422 | 429 | 500 | 503;

export interface FaultProxy {
  readonly url: string;
  /** The path of a kubeconfig for the proxy. */
  readonly kubeconfig: string;
  set(fault: Fault): Promise<void>;
  requests(): number;
  /** Returns the codes of rejected writes by verb and resource, such as `PATCH namespaces`. */
  rejectedWrites(): ReadonlyMap<string, readonly number[]>;
  stop(): Promise<void>;
}

/** Starts a proxy to the API server of a kubeconfig. */
export async function startFaultProxy(kubeconfig: string): Promise<FaultProxy> {
  const upstream = await openUpstream(kubeconfig);
  let certificates = createCertificates();
  let token = 'token-0';
  const sockets = new Set<Socket>();
  /** Watches that no longer receive data. */
  const silent = new WeakSet<ServerResponse>();
  const rejectedWrites = new Map<string, number[]>();
  /** Connections that are half open. */
  const dead = new WeakSet<Socket>();
  const watches = new Set<ServerResponse>();
  let fault: Fault = 'none';
  let requests = 0;

  const server = createServer(certificates.good, (incoming, response) => {
    requests++;
    if (fault === 'half-open') dead.add(incoming.socket);
    if (dead.has(incoming.socket) || isHanging(incoming)) {
      incoming.resume();
      return;
    }
    const code = rejectionCode(incoming);
    const delayMs = requestDelayMs(incoming);
    if (code !== undefined) reject(response, code, retryAfterSeconds(code));
    else if (fault === 'expired' && isExpired(incoming)) expire(incoming, response);
    else if (fault === 'garbage') respondWithGarbage(incoming, response, requests);
    else if (delayMs > 0) setTimeout(() => forward(incoming, response), delayMs);
    else forward(incoming, response);
  });
  const isHanging = (incoming: IncomingMessage): boolean =>
    typeof fault === 'object' &&
    'hangingList' in fault &&
    isList(incoming) &&
    incoming.url?.startsWith(fault.hangingList) === true;
  const rejectionCode = (incoming: IncomingMessage): Code | 401 | undefined => {
    if (incoming.headers.authorization !== `Bearer ${token}`) return 401;
    if (typeof fault !== 'object') return undefined;
    if ('code' in fault) return fault.code;
    return 'rejectedWrites' in fault ? nextRejection(incoming, fault.rejectedWrites) : undefined;
  };
  const nextRejection = (incoming: IncomingMessage, codes: readonly Code[]): Code | undefined => {
    const write = describeWrite(incoming);
    if (write === undefined) return undefined;
    const sent = rejectedWrites.get(write) ?? [];
    rejectedWrites.set(write, sent);
    const code = codes[sent.length];
    if (code !== undefined) sent.push(code);
    return code;
  };
  const retryAfterSeconds = (code: number): number | undefined => {
    if (typeof fault === 'object' && 'code' in fault) return fault.retryAfterSeconds;
    // The response of API Priority and Fairness.
    return code === 429 ? 1 : undefined;
  };
  const requestDelayMs = (incoming: IncomingMessage): number => {
    if (typeof fault !== 'object') return 0;
    if ('slowMs' in fault) return fault.slowMs;
    return 'slowListMs' in fault && isList(incoming) ? fault.slowListMs : 0;
  };
  server.on('secureConnection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  });
  server.on('tlsClientError', (_error, socket) => socket.destroy());

  const forward = (incoming: IncomingMessage, response: ServerResponse): void => {
    const sent = upstream.send(incoming, (received) => {
      if (isWatch(incoming)) watches.add(response);
      if (isWatch(incoming) && fault === 'silent watches') silent.add(response);
      relay(received, incoming, response);
    });
    sent.on('error', () => incoming.socket.destroy());
    response.once('close', () => {
      watches.delete(response);
      sent.destroy();
    });
  };

  const relay = (received: IncomingMessage, { socket }: IncomingMessage, response: ServerResponse): void => {
    let dueMs = 0;
    /** Runs a step with the current delay, and not before the previous step. */
    const delayed = (act: () => void): void => {
      const delayMs = typeof fault === 'object' && 'slowMs' in fault ? fault.slowMs : 0;
      const pass = (): void => {
        if (!dead.has(socket)) act();
      };
      const nowMs = performance.now();
      dueMs = Math.max(dueMs, nowMs + delayMs);
      if (dueMs <= nowMs) pass();
      else setTimeout(pass, Math.ceil(dueMs - nowMs));
    };
    delayed(() => response.writeHead(received.statusCode ?? 500, headersToPass(received)).flushHeaders());
    received.on('data', (chunk: Buffer) =>
      delayed(() => {
        if (silent.has(response) || (fault === 'no bookmarks' && isBookmark(chunk))) return;
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
  const folder = dirname(file.path);
  const writeCredentials = async (): Promise<void> => {
    await writeFile(join(folder, 'ca.crt'), certificates.authority);
    await writeFile(join(folder, 'token'), token);
  };
  await writeCredentials();
  // The proxy replaces these files.
  const cluster = { server: url, 'certificate-authority': 'ca.crt' };
  await writeFile(file.path, formatKubeconfig(cluster, { tokenFile: 'token' }));

  return {
    url,
    kubeconfig: file.path,
    async set(next) {
      const wasUnreachable = fault === 'unreachable';
      if (typeof next === 'object' && 'rejectedWrites' in next) rejectedWrites.clear();
      fault = next;
      if (next === 'half-open') for (const socket of sockets) dead.add(socket);
      else if (next === 'silent watches') for (const response of watches) silent.add(response);
      else if (next === 'expired' || (typeof next === 'object' && 'slowListMs' in next))
        for (const response of watches) response.end(GONE_EVENT);
      else if (interrupts(next)) for (const socket of sockets) socket.destroy();
      if (typeof next === 'object' && 'replaced' in next) {
        if (next.replaced === 'token') token = `token-${requests}`;
        else certificates = createCertificates();
      }
      if (next === 'none') await writeCredentials();
      server.setSecureContext(
        typeof next === 'object' && 'certificate' in next ? certificates.bad[next.certificate] : certificates.good,
      );
      if (next === 'unreachable') await new Promise((resolve) => server.close(resolve));
      else if (wasUnreachable) await listen(port);
    },
    requests: () => requests,
    rejectedWrites: () => rejectedWrites,
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

/** Returns true for faults that start by closing connections. */
function interrupts(fault: Fault): boolean {
  if (typeof fault === 'string') return fault !== 'none' && fault !== 'no bookmarks';
  return !('slowMs' in fault || 'rejectedWrites' in fault);
}

/** Returns the method and the resource of a write, with its subresource. */
function describeWrite({ method = '', url = '' }: IncomingMessage): string | undefined {
  if (method === 'GET') return undefined;
  const [path = ''] = url.split('?');
  const parts = /^\/(?:api\/v1|apis\/[^/]+\/[^/]+)(?:\/namespaces\/[^/]+(?=\/))?\/([^/]+)(?:\/[^/]+(\/.+)?)?$/.exec(
    path,
  );
  return parts ? `${method} ${parts[1] ?? ''}${parts[2] ?? ''}` : undefined;
}

function isList({ method, url = '' }: IncomingMessage): boolean {
  return method === 'GET' && url.includes('limit=');
}

function isBookmark(chunk: Buffer): boolean {
  return chunk.subarray(0, 18).toString() === '{"type":"BOOKMARK"';
}

/** Bodies that API servers do not send, such as pages of other servers, other types, and malformed objects. */
const GARBAGE: readonly string[] = [
  '<html>Sign in to the network</html>',
  '{"kind":"Status","status":"Success"}',
  '{"metadata":{"resourceVersion":"1"},"items":[null]}',
  '{"metadata":{"resourceVersion":"1"},"items":{"a":{}}}',
  '{"metadata":{"resourceVersion":"1"},"items":',
  '[]',
  'null',
  '\u0000\u0001\u00ff{{{',
];
const GARBAGE_EVENTS: readonly string[] = [
  '{"type":"ADDED"}',
  '{"type":"ADDED","object":null}',
  '{"type":"CREATED","object":{}}',
  '{"type":"ERROR","object":{"code":"x"}}',
  ...GARBAGE,
];

function respondWithGarbage(incoming: IncomingMessage, response: ServerResponse, turn: number): void {
  const bodies = isWatch(incoming) ? GARBAGE_EVENTS : GARBAGE;
  response.writeHead(200, { 'content-type': 'application/json' }).end(`${bodies[turn % bodies.length] ?? ''}\n`);
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

const REASONS = {
  401: 'Unauthorized',
  403: 'Forbidden',
  409: 'Conflict',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
} as const;

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
