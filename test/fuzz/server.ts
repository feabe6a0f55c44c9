/** The server under test: a process that serves a generated world over TLS, or its HTTP application in this process. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { pino } from 'pino';
import { createStore } from '../../src/cluster/store.ts';
import { resourcePath } from '../../src/kube/resources.ts';
import { ApiError, notFound } from '../../src/kube/status.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { newestVersion } from '../../src/policy/pss/index.ts';
import { SMALL_BYTES, type ReceivedBody } from '../../src/server/body.ts';
import { registerReviews } from '../../src/server/review.ts';
import { createServer } from '../../src/server/server.ts';
import { createWebhooks } from '../../src/server/webhooks/index.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { NAMES } from '../support/admission-server.ts';
import { post, type Response, type Endpoint } from '../support/https.ts';
import { connect } from '../support/kubeconfig.ts';
import { isObject, textAt, type JsonObject } from '../support/oracle/json.ts';
import { readUsage } from '../support/process-usage.ts';
import { formatSettings, serve } from '../support/serve-process.ts';
import { formatManifests, type World } from './world.ts';

/** The objects in the cluster of the server. */
export interface Stored {
  readonly objects: ReadonlyMap<Kind, readonly JsonObject[]>;
  readonly namespaces: ReadonlyMap<string, JsonObject>;
  readonly sccs: readonly JsonObject[];
  /** The pod `stored` of each namespace. */
  readonly pods: ReadonlyMap<string, JsonObject>;
}

export interface FuzzServer {
  /** Absent for a server in this process. */
  readonly endpoint?: Endpoint;
  readonly stored: Stored;
  post(path: string, body: string | Buffer, contentType?: string): Promise<Response>;
  /** Returns the resident memory of the process. */
  residentMiB(): Promise<number>;
  /** Stops the server. Resolves to its exit code and error lines. */
  stop(): Promise<{ readonly code: number | null; readonly errors: readonly string[] }>;
}

/** A small heap, so that a leak crashes the process. */
const ENVIRONMENT = { NODE_OPTIONS: '--max-old-space-size=256' };

/** Error lines of the log, and the output of a crash. */
const BAD_LINE =
  /^\{"level":"(error|fatal)"(?!.*"msg":"log lines dropped)|^\s+at |^[A-Za-z]*Error|^FATAL|out of memory/;

/** The kinds that decisions read. */
const KINDS: readonly Kind[] = [
  ...(['Namespace', 'SecurityContextConstraints', 'Pod'] as const),
  ...(['ClusterRole', 'ClusterRoleBinding', 'Role', 'RoleBinding'] as const),
];

const SCC = { mode: 'enforce', exemptNamespaces: ['kube-system'] } as const;

export async function startFuzzServer(world: World): Promise<FuzzServer> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-fuzz-'));
  const manifests = join(folder, 'cluster.yaml');
  const config = join(folder, 'config.yaml');
  await writeFile(manifests, formatManifests(world));
  // The oracle evaluates `latest` as the newest version of the checks.
  await writeFile(config, formatSettings({ podSecurity: { emulationVersion: newestVersion }, scc: SCC }));
  const running = await serve([`--manifests=${manifests}`, `--config=${config}`], ENVIRONMENT);
  const client = await connect(running);
  const objects = new Map<Kind, readonly JsonObject[]>();
  for (const kind of KINDS) {
    const { body } = await client.send('GET', resourcePath(kind));
    objects.set(kind, isObject(body) && Array.isArray(body['items']) ? (body['items'] as readonly JsonObject[]) : []);
  }
  client.close();
  const list = (kind: Kind): readonly JsonObject[] => objects.get(kind) ?? [];
  const byName = (kind: Kind, field: string): ReadonlyMap<string, JsonObject> =>
    new Map(list(kind).map((object) => [textAt(object, 'metadata', field), object]));
  const stored = {
    objects,
    namespaces: byName('Namespace', 'name'),
    sccs: list('SecurityContextConstraints'),
    pods: byName('Pod', 'namespace'),
  };
  const endpoint = { port: running.port, ca: await running.authority() };
  const agent = new Agent({ keepAlive: true });
  const errors: string[] = [];
  // Only error lines are kept: the log has one line for each review.
  let rest = '';
  running.child.stderr?.removeAllListeners('data').on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    errors.push(...lines.filter((line) => BAD_LINE.test(line)));
  });
  return {
    endpoint,
    stored,
    post: (path, body, contentType = 'application/json') => post(endpoint, path, body, contentType, agent),
    residentMiB: async () => (await readUsage(running.child.pid ?? 0)).rssMiB,
    async stop() {
      agent.destroy();
      const { code } = await running.stop();
      await rm(folder, { recursive: true, force: true });
      return { code, errors };
    },
  };
}

const CALLS_PER_TURN = 64;

/** Starts the server of a world in this process. The state is that of a server process, which completes the objects. */
export async function startInProcess(world: World): Promise<FuzzServer> {
  const remote = await startFuzzServer(world);
  const { stored } = remote;
  await remote.stop();
  const store = createStore();
  for (const [kind, objects] of stored.objects) {
    for (const object of objects) store.put(kind, object);
  }
  store.markSynced();
  store.emulationVersion = newestVersion;
  const errors: string[] = [];
  const sink = {
    write(line: string): void {
      if (BAD_LINE.test(line)) errors.push(line);
    },
  };
  const logger = pino({ base: null, formatters: { level: (level) => ({ level }) } }, sink);
  const metrics = createMetrics({ version: '0.0.0' });
  const now = (): number => performance.now();
  const podSecurity = createPodSecurity(DEFAULT_CONFIGURATION);
  const webhooks = createWebhooks({
    podSecurity: () => podSecurity,
    scc: () => ({ ...SCC, authorization: 'rbac', compatibility: {}, preferUserNamespaces: false }),
    olmHardening: () => 'off',
    cluster: {
      get(kind, name, namespace) {
        const object = store.get(kind, name, namespace);
        if (object) return Promise.resolve(object);
        return Promise.reject(new ApiError(notFound({ group: '', resource: 'pods' }, name)));
      },
      reviewAccess: () => Promise.reject(new Error('the authorization is by RBAC')),
    },
    logger,
    metrics,
    now,
  });
  const validity = { now: new Date(), days: 1 };
  const tls = createServing(createAuthority(validity), NAMES, validity);
  const deps = { webhooks, store, logger, metrics, now };
  const { app, connections } = createServer({ ...deps, tls });
  await app.ready();
  const direct = Fastify();
  const handlers = collectHandlers(direct);
  registerReviews(direct, deps, connections);
  let calls = 0;
  return {
    stored,
    async post(url, payload, contentType = 'application/json') {
      const handler = handlers.get(url.slice(0, url.indexOf('?')));
      if (handler && contentType === 'application/json' && payload.length < SMALL_BYTES / 3) {
        // Handlers resolve without a turn of the event loop, which timers need.
        if (++calls % CALLS_PER_TURN === 0) await setImmediate();
        return await callHandler(handler, Buffer.from(payload));
      }
      const headers = { 'content-type': contentType };
      const {
        statusCode: status,
        headers: received,
        body,
      } = await app.inject({ method: 'POST', url, payload, headers });
      return { status, headers: received as Response['headers'], body };
    },
    residentMiB: () => Promise.resolve(Math.round(process.memoryUsage.rss() / 2 ** 20)),
    async stop() {
      await app.close();
      await direct.close();
      return { code: 0, errors };
    },
  };
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;

/** Collects the handlers of an application by path. Fastify would take more time per review than the decision. */
function collectHandlers(app: FastifyInstance): ReadonlyMap<string, Handler> {
  const handlers = new Map<string, Handler>();
  app.addHook('onRoute', ({ path, handler }) => {
    handlers.set(path, handler as Handler);
  });
  return handlers;
}

/** Calls a handler with the body of a small review, as Fastify does. */
function callHandler(handler: Handler, body: Buffer): Promise<Response> {
  return new Promise((resolve, reject) => {
    const received: ReceivedBody = { bytes: body, startMs: performance.now() };
    const request = { body: received, query: { timeout: '1s' }, headers: {}, ip: '127.0.0.1', raw: {} };
    let status = 0;
    const raw = {
      destroyed: false,
      once: () => raw,
      writeHead(code: number) {
        status = code;
        return raw;
      },
      end: (text: string) => resolve({ status, headers: {}, body: text }),
    };
    const reply = { request, raw, hijack: () => undefined };
    const done = handler(request as unknown as FastifyRequest, reply as unknown as FastifyReply);
    if (done) done.catch(reject);
  });
}
