/**
 * An API server of a large cluster. It generates the large collections and forwards other requests to a real API
 * server.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createAuthority, createServing } from '../../../src/tls/issue.ts';
import { headersToPass, openUpstream, writeOpenKubeconfig } from '../api-upstream.ts';
import { type Collection, createCollections, type Sizes } from './objects.ts';
import { createTable, type Table } from './table.ts';

export interface LargeCluster {
  readonly url: string;
  readonly kubeconfig: string;
  /** The large collections by their list paths. */
  readonly tables: ReadonlyMap<string, Table>;
  /** Returns the number of list and watch requests for the large collections. */
  requests(): number;
  stop(): Promise<void>;
}

const BOOKMARK_MS = 60_000;

/** Starts the server in front of a kubeconfig's API server. */
export async function startLargeCluster(sizes: Sizes, kubeconfig: string): Promise<LargeCluster> {
  return await serveCollections(createCollections(sizes), kubeconfig);
}

/** Serves collections by their list paths. */
export async function serveCollections(
  collections: ReadonlyMap<string, Collection>,
  kubeconfig: string,
): Promise<LargeCluster> {
  const upstream = await openUpstream(kubeconfig);
  const tables = new Map([...collections].map(([path, collection]) => [path, createTable(collection)]));
  const validity = { now: new Date(), days: 1 };
  const authority = createAuthority(validity);
  let requests = 0;

  const server = createServer(
    createServing(authority, { dnsNames: [], ipAddresses: ['127.0.0.1'] }, validity),
    (incoming, response) => {
      const { pathname, searchParams } = new URL(incoming.url ?? '/', 'https://api');
      const table = incoming.method === 'GET' ? tables.get(pathname) : undefined;
      if (!table) {
        const sent = upstream.send(incoming, (received) => relay(received, response));
        sent.on('error', () => incoming.socket.destroy());
        response.once('close', () => sent.destroy());
        return;
      }
      requests++;
      if (searchParams.get('watch') === 'true') watch(table, searchParams, response);
      else void list(table, searchParams, response);
    },
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const file = await writeOpenKubeconfig(url, authority.cert);
  return {
    url,
    kubeconfig: file.path,
    tables,
    requests: () => requests,
    async stop() {
      upstream.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await file.remove();
    },
  };
}

const JSON_TYPE = { 'content-type': 'application/json' };

/** Sends a list. As in an API server, the connection may close while a long list is being sent. */
async function list(table: Table, query: URLSearchParams, response: ServerResponse): Promise<void> {
  const limit = Number(query.get('limit') ?? '0') || Infinity;
  const { items, next } = table.page(Number(query.get('continue') ?? '0'), limit);
  const metadata = { resourceVersion: table.resourceVersion(), ...(next === undefined ? {} : { continue: `${next}` }) };
  response.writeHead(200, JSON_TYPE);
  response.write(`{"kind":"List","apiVersion":"v1","metadata":${JSON.stringify(metadata)},"items":[`);
  for (const [index, item] of items.entries()) {
    if (response.destroyed) return;
    const isFull = !response.write(`${index === 0 ? '' : ','}${JSON.stringify(item)}`);
    if (isFull) await new Promise<void>((resolve) => waitForDrain(response, resolve));
  }
  response.end(']}');
}

/** Calls the function when the response accepts more bytes, or when its connection closes. */
function waitForDrain(response: ServerResponse, resume: () => void): void {
  const end = (): void => {
    response.off('drain', end).off('close', end);
    resume();
  };
  response.on('drain', end).on('close', end);
}

function watch(table: Table, query: URLSearchParams, response: ServerResponse): void {
  response.writeHead(200, JSON_TYPE).flushHeaders();
  const unwatch = table.watch(query.get('resourceVersion') ?? '', (type, object) => {
    response.write(`${JSON.stringify({ type, object })}\n`);
    if (type === 'ERROR') response.end();
  });
  const bookmarks = setInterval(() => {
    const metadata = { resourceVersion: table.resourceVersion() };
    response.write(`${JSON.stringify({ type: 'BOOKMARK', object: { metadata } })}\n`);
  }, BOOKMARK_MS);
  const end = setTimeout(() => response.end(), Number(query.get('timeoutSeconds') ?? '300') * 1000);
  response.once('close', () => {
    unwatch();
    clearInterval(bookmarks);
    clearTimeout(end);
  });
}

function relay(received: IncomingMessage, response: ServerResponse): void {
  response.writeHead(received.statusCode ?? 500, headersToPass(received)).flushHeaders();
  received.on('error', () => response.destroy());
  received.pipe(response);
}
