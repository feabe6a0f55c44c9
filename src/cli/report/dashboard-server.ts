/**
 * Serves the dashboard, which consists of a read-only page and its events, to one user of this machine. Events contain
 * the report, which is recomputed after changes in the cluster while a page is open.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import type { Store } from '../../cluster/store.ts';
import { UserError } from '../../kube/user-error.ts';
import { limitUrls, URL_LIMIT } from '../../server/limits.ts';
import type { ReportData } from '../../web/report-data.ts';
import type { Inventory } from '../inventory/inventory.ts';
import type { RolloutValues } from '../inventory/rollout.ts';

/** An event for the page. `data` is JSON on one line. */
interface DashboardEvent {
  readonly event: 'report' | 'problem';
  readonly data: string;
}

/** Calls the listener with the current state and with each later event. Returns a function that ends the subscription. */
type SubscribeEvents = (listener: (event: DashboardEvent) => void) => () => void;

interface DashboardOptions {
  /** Port of the server. 0 selects a free port. */
  readonly port: number;
  /** Returns the HTML of the page. */
  page(): Promise<string>;
  readonly subscribe: SubscribeEvents;
}

export interface Dashboard {
  /** URL with the one-time token. */
  readonly url: string;
  close(): Promise<void>;
}

const HOST = '127.0.0.1';

const HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

const NO_TOKEN =
  'Open the dashboard with the URL that the program printed at startup. Its token is valid only once. For a new URL, run portcullis dashboard with the kubeconfig of the cluster. The kubeconfig of the development cluster is certs/kubeconfig by default.\n';

/**
 * Number of bytes of unread events at which a client is disconnected. The client then reconnects and receives the
 * current state.
 */
const MAX_UNREAD_BYTES = 32 * 1024 * 1024;

/** Interval of the comments that keep idle connections open. */
const HEARTBEAT_MS = 15_000;

/**
 * Starts the server on the loopback interface. The first request with the token receives a cookie that other sites
 * cannot send. The check of the `Host` header rejects requests from sites whose name resolves to this machine (DNS
 * rebinding).
 */
export async function startDashboard({ port, page, subscribe }: DashboardOptions): Promise<Dashboard> {
  const app = Fastify({ logger: false, exposeHeadRoutes: false, forceCloseConnections: true, ...URL_LIMIT });
  const session = randomBytes(32).toString('base64url');
  let token: string | undefined = randomBytes(32).toString('base64url');
  let cookieName = '';
  let hosts: readonly string[] = [];
  const hasSession = ({ headers: { cookie = '' } }: FastifyRequest): boolean =>
    cookie.split(/; */).some((pair) => equals(pair, `${cookieName}=${session}`));

  app.addHook('onRequest', async ({ headers: { host = '', origin } }, reply) => {
    reply.headers(HEADERS);
    if (!hosts.includes(host)) return sendText(reply, 421, `The dashboard is at http://${hosts[0] ?? ''}/\n`);
    if (origin !== undefined && origin !== `http://${host}`)
      return sendText(reply, 403, 'Requests from other sites are rejected.\n');
  });
  app.get<{ Querystring: { token?: unknown } }>('/', async (request, reply) => {
    const { token: sent } = request.query;
    if (token !== undefined && typeof sent === 'string' && equals(sent, token)) {
      token = undefined;
      reply.header('set-cookie', `${cookieName}=${session}; Path=/; HttpOnly; SameSite=Strict`);
    } else if (!hasSession(request)) return sendText(reply, 403, NO_TOKEN);
    return reply.type('text/html; charset=utf-8').send(await page());
  });
  app.get('/events', (request, reply) => {
    if (!hasSession(request)) return sendText(reply, 403, NO_TOKEN);
    return streamEvents(reply, subscribe);
  });
  limitUrls(app);
  app.setNotFoundHandler((_request, reply) => sendText(reply, 404, 'The dashboard has one page: /\n'));

  await app.listen({ host: HOST, port });
  const { port: used } = app.server.address() as AddressInfo;
  hosts = [`${HOST}:${used}`, `localhost:${used}`];
  // Browsers share cookies across ports, so each dashboard on this machine uses its own cookie name.
  cookieName = `portcullis-${used}`;
  return { url: `http://${HOST}:${used}/?token=${token}`, close: () => app.close() };
}

function equals(text: string, expected: string): boolean {
  const [a, b] = [Buffer.from(text), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function sendText(reply: FastifyReply, code: number, text: string): FastifyReply {
  return reply.code(code).type('text/plain; charset=utf-8').send(text);
}

/** @see https://html.spec.whatwg.org/multipage/server-sent-events.html */
function streamEvents(reply: FastifyReply, subscribe: SubscribeEvents): FastifyReply {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, { ...HEADERS, 'content-type': 'text/event-stream' });
  raw.flushHeaders();
  const send = (text: string): void => {
    raw.write(text);
    if (raw.writableLength > MAX_UNREAD_BYTES) raw.destroy();
  };
  const heartbeat = setInterval(() => send(':\n\n'), HEARTBEAT_MS);
  const unsubscribe = subscribe(({ event, data }) => send(`event: ${event}\ndata: ${data}\n\n`));
  raw.on('close', () => {
    clearInterval(heartbeat);
    unsubscribe();
  });
  return reply;
}

// Computation of the live report

interface DashboardSource {
  readonly port: number;
  /** The address of the API server. */
  readonly server: string;
  /** Returns the inventory of a cluster, whose store is kept up to date. */
  inventory(): Pick<Inventory, 'store' | 'source' | 'customSources' | 'assumptions' | 'unread'>;
  /** Updates the parts of the inventory that no watch updates. Called before each computation. */
  refresh?(): Promise<void>;
  readonly values: Pick<RolloutValues, 'config' | 'installation-namespace' | 'scc-mode'>;
  /** Aborts computations. */
  readonly signal: AbortSignal;
}

/** Starts the dashboard of a cluster. Nothing is loaded or computed while no page is open. */
export async function openDashboard({ port, signal, ...source }: DashboardSource): Promise<Dashboard> {
  const { values } = source;
  const io = { stderr: { write: () => undefined }, signal };
  const compute = async (): Promise<ReportData> => {
    const [{ computeRollout }, { computeReport }] = await Promise.all([
      import('../inventory/rollout.ts'),
      import('./report-data.ts'),
    ]);
    const date = new Date();
    await source.refresh?.();
    const facts = await computeRollout(source.inventory(), values, date);
    const namespace = values['installation-namespace'];
    const isFromFile = values.config !== undefined;
    return await computeReport({ facts, date, source: source.server, namespace, isFromFile }, io);
  };
  return await startDashboard({
    port,
    async page() {
      const [{ bundlePage }, { renderPage }] = await Promise.all([
        import('../output/bundle.ts'),
        import('../output/html.ts'),
      ]);
      return renderPage(await bundlePage('report'), { title: 'Portcullis dashboard', isLive: true });
    },
    subscribe: createReportFeed(source.inventory().store, compute),
  });
}

/**
 * Minimum interval between two computations. For slow computations, the interval is longer, so they use at most a third
 * of the time.
 */
const MIN_INTERVAL_MS = 500;
const DURATIONS_PER_INTERVAL = 2;

/** Interval for recomputing the state of the replicas. Changes to their Leases alone do not start a computation. */
const REFRESH_MS = 30_000;

/**
 * Computes a report for the first subscriber, and after changes to the store. Publishes consecutive equal reports only
 * once.
 */
function createReportFeed(store: Store, compute: () => Promise<ReportData>): SubscribeEvents {
  const listeners = new Set<(event: DashboardEvent) => void>();
  let last: { readonly key: string; readonly event: DashboardEvent } | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isRunning = false;
  let isStale = false;
  let durationMs = 0;
  const run = async (): Promise<void> => {
    timer = undefined;
    isRunning = true;
    isStale = false;
    const startMs = performance.now();
    const next = await computeEvent(compute);
    durationMs = performance.now() - startMs;
    isRunning = false;
    if (next.key !== last?.key) for (const listener of listeners) listener(next.event);
    last = next;
    if (isStale) schedule();
  };
  const schedule = (): void => {
    isStale = true;
    if (isRunning || timer !== undefined || listeners.size === 0) return;
    const delayMs = last === undefined ? 0 : Math.max(MIN_INTERVAL_MS, DURATIONS_PER_INTERVAL * durationMs);
    timer = setTimeout(() => void run(), delayMs).unref();
  };
  store.subscribe(({ kind }) => {
    if (kind !== 'Lease') schedule();
  });
  setInterval(schedule, REFRESH_MS).unref();
  return (listener) => {
    listeners.add(listener);
    if (last) listener(last.event);
    schedule();
    return () => void listeners.delete(listener);
  };
}

/** Returns the report or the error as an event. Events with the same key represent the same state. */
async function computeEvent(
  compute: () => Promise<ReportData>,
): Promise<{ readonly key: string; readonly event: DashboardEvent }> {
  try {
    const data = await compute();
    return { key: JSON.stringify({ ...data, time: '' }), event: { event: 'report', data: JSON.stringify(data) } };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const data = JSON.stringify(error instanceof UserError ? message : `the report cannot be computed: ${message}`);
    return { key: data, event: { event: 'problem', data } };
  }
}
