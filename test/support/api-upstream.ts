/** Forwards a test server's requests to an API server, using a kubeconfig's credentials. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';

export interface ApiUpstream {
  /** Forwards a request as the user of the kubeconfig. The caller handles errors. */
  send(incoming: IncomingMessage, onResponse: (response: IncomingMessage) => void): ClientRequest;
  close(): void;
}

/** Creates a client for the API server in a kubeconfig. */
export async function openUpstream(kubeconfig: string): Promise<ApiUpstream> {
  const { server, authority, client, headers } = readKubeconfig(await readFile(kubeconfig, 'utf8'));
  const agent = new Agent({ keepAlive: true, ca: authority, ...client });
  return {
    send(incoming, onResponse) {
      const kept = without(incoming.headers, ['host', 'authorization', 'connection']);
      const url = new URL(incoming.url ?? '/', server);
      const sent = request(url, { method: incoming.method, headers: { ...kept, ...headers }, agent }, onResponse);
      incoming.pipe(sent);
      return sent;
    },
    close: () => agent.destroy(),
  };
}

/** Returns the headers of a response without hop-by-hop headers. */
export function headersToPass({ headers }: IncomingMessage): IncomingHttpHeaders {
  return without(headers, ['connection', 'transfer-encoding']);
}

/** Path of a kubeconfig in a temporary folder. */
export interface KubeconfigFile {
  readonly path: string;
  remove(): Promise<void>;
}

/** Writes a kubeconfig without credentials. `authority` is in PEM. */
export async function writeOpenKubeconfig(server: string, authority: string): Promise<KubeconfigFile> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-proxy-'));
  const path = join(folder, 'kubeconfig');
  const data = { 'certificate-authority-data': Buffer.from(authority).toString('base64') };
  await writeFile(path, formatKubeconfig({ server, ...data }, {}));
  return { path, remove: () => rm(folder, { recursive: true, force: true }) };
}

function without(headers: IncomingHttpHeaders, names: readonly string[]): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
}

export interface Upstream {
  readonly server: string;
  readonly authority: string;
  readonly client: KeyPair | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

interface Kubeconfig {
  readonly clusters: readonly [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string } },
  ];
  readonly users: readonly [{ readonly user: Readonly<Record<string, string | undefined>> }];
}

/** Reads the server and the credentials of a kubeconfig. */
export function readKubeconfig(text: string): Upstream {
  const { clusters, users } = parse(text) as Kubeconfig;
  const { server, 'certificate-authority-data': authority } = clusters[0].cluster;
  const { 'client-certificate-data': cert, 'client-key-data': key, token } = users[0].user;
  return {
    server,
    authority: decode(authority),
    client: cert === undefined || key === undefined ? undefined : { cert: decode(cert), key: decode(key) },
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  };
}

function decode(data: string): string {
  return Buffer.from(data, 'base64').toString();
}

/** Returns a kubeconfig with one context. */
export function formatKubeconfig(cluster: object, user: object): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  });
}
