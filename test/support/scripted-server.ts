/** An HTTPS server with scripted responses, which can behave in ways that a real API server never does. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type Connection, type ConnectOptions } from '../../src/cluster/connection.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';

export type Responder = (response: ServerResponse, request: IncomingMessage) => void;

export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  readonly clientPort: number;
}

export interface ScriptedServer {
  readonly url: string;
  /** Certificate authority of the server in PEM. */
  readonly authority: string;
  readonly requests: readonly ReceivedRequest[];
  /** Sets the responses to the next requests. The last response is repeated. */
  respond(...responders: readonly Responder[]): void;
  /** Writes a file that is removed with the server. Returns its path. */
  file(name: string, text: string): Promise<string>;
  /** Writes a kubeconfig with changed cluster and user fields. */
  kubeconfig(cluster?: object, user?: object): Promise<string>;
  /** Connects with a kubeconfig with changed fields. The connection closes when the server stops. */
  connect(setup?: ConnectionSetup): Promise<Connection>;
  stop(): Promise<void>;
}

export interface ConnectionSetup extends Partial<ConnectOptions> {
  readonly cluster?: object;
  readonly user?: object;
}

export function json(body: unknown, code = 200, headers: Readonly<Record<string, string>> = {}): Responder {
  return (response) => {
    response.writeHead(code, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
}

/** Returns a list response for any kind. */
export function list(...items: readonly unknown[]): Responder {
  return json({ kind: 'List', metadata: { resourceVersion: '1' }, items });
}

export function refusal(code: number, message: string): Responder {
  return json({ kind: 'Status', status: 'Failure', message, code }, code);
}

export async function startScriptedServer(): Promise<ScriptedServer> {
  const validity = { now: new Date(), days: 1 };
  const ca = createAuthority(validity);
  const serving = createServing(ca, { dnsNames: ['api.test'], ipAddresses: ['127.0.0.1'] }, validity);
  let requests: ReceivedRequest[] = [];
  let script: readonly Responder[] = [json({})];
  const server = createServer(serving, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers, socket } = request;
      const respond = script[Math.min(requests.length, script.length - 1)];
      requests.push({
        method,
        url,
        headers,
        body: Buffer.concat(chunks).toString(),
        clientPort: socket.remotePort ?? 0,
      });
      respond?.(response, request);
    });
  });
  // The server must not close a connection that a test expects to be kept, even on a slow machine.
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-scripted-'));
  let files = 0;
  const file = async (name: string, text: string): Promise<string> => {
    const path = join(folder, `${files++}-${name}`);
    await writeFile(path, text, { mode: 0o700 });
    return path;
  };
  const connections: Connection[] = [];
  const kubeconfig = async (cluster: object = {}, user: object = {}): Promise<string> => {
    const authority = { 'certificate-authority-data': Buffer.from(ca.cert).toString('base64') };
    const config = {
      clusters: [{ name: 'c', cluster: { server: url, ...authority, ...cluster } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    };
    return await file('kubeconfig', JSON.stringify(config));
  };
  return {
    url,
    authority: ca.cert,
    get requests() {
      return requests;
    },
    respond(...responders) {
      requests = [];
      script = responders;
    },
    file,
    kubeconfig,
    async connect({ cluster, user, ...options } = {}) {
      const source = { kubeconfig: await kubeconfig(cluster, user), env: {}, userAgent: 'portcullis/test' };
      const connection = await connect({ ...source, ...options });
      connections.push(connection);
      return connection;
    },
    async stop() {
      for (const connection of connections) connection.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(folder, { recursive: true, force: true });
    },
  };
}
