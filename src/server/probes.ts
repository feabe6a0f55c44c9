import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { LIMITS } from '../kube/limits.ts';
import { limitConnections } from './connections.ts';
import { limitUrls, URL_LIMIT } from './limits.ts';

export interface HealthCheck {
  readonly name: string;
  /** Returns the reason if unhealthy, or `undefined` if healthy. */
  check(): string | undefined;
  /** Returns information that does not affect health. Requests with `?verbose` print it. */
  note?(): string | undefined;
}

interface ProbesDeps {
  /** Checks that fail if the process must be restarted. */
  readonly livez: readonly HealthCheck[];
  /** Checks that fail if the replica must not receive reviews. */
  readonly readyz: readonly HealthCheck[];
  /** Checks that are served only at `/readyz/NAME` and do not affect `/readyz`. */
  readonly named?: readonly HealthCheck[];
  readonly metrics: Rendered & { readonly contentType: string };
  /** Returns a monotonic time in milliseconds. */
  readonly now?: () => number;
}

interface Rendered {
  expose(): Promise<string>;
}

/**
 * Creates the server for probes and metrics without starting it. The server has its own port, so it works without a
 * serving certificate. Paths and response bodies match those of Kubernetes components.
 * @see https://kubernetes.io/docs/reference/using-api/health-checks/
 */
export function buildProbes({
  livez,
  readyz,
  named = [],
  metrics,
  now = () => performance.now(),
}: ProbesDeps): FastifyInstance {
  const app = Fastify({ logger: false, forceCloseConnections: true, ...URL_LIMIT });
  limitConnections(app.server);
  limitUrls(app);
  ignoreBodies(app);
  serveChecks(app, 'livez', livez);
  serveChecks(app, 'healthz', livez);
  serveChecks(app, 'readyz', readyz);
  for (const check of named) serveCheck(app, 'readyz', check);
  const expose = createSharedExpose(metrics, now);
  app.get('/metrics', async (_request, reply) => reply.type(metrics.contentType).send(await expose()));
  app.get('/', (_request, reply) => plain(reply, 200, '/livez\n/readyz\n/healthz\n/metrics\n'));
  app.setNotFoundHandler((_request, reply) => plain(reply, 404, '404 page not found\n'));
  return app;
}

/** Closes connections after requests that have a body, because the body is not read. */
function ignoreBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  app.addHook('onRequest', ({ headers }, reply, done) => {
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = headers;
    if (length !== '0' || encoding !== undefined) reply.header('connection', 'close');
    done();
  });
}

/** Creates a function that renders the metrics only if the last output is older than a limit. */
function createSharedExpose(metrics: Rendered, now: () => number): () => Promise<string> {
  let rendered: Promise<string> | undefined;
  let renderedMs = -Infinity;
  return () => {
    if (rendered && now() - renderedMs <= LIMITS.metricsAgeMilliseconds) return rendered;
    renderedMs = now();
    return (rendered = metrics.expose());
  };
}

function serveChecks(app: FastifyInstance, group: string, checks: readonly HealthCheck[]): void {
  app.get(`/${group}`, (request, reply) => {
    const query = request.query as { readonly verbose?: unknown; readonly exclude?: string | readonly string[] };
    const excluded = [query.exclude ?? []].flat();
    const lines = checks.map((check) =>
      excluded.includes(check.name) ? `[+]${check.name} excluded: ok` : formatCheck(check),
    );
    const verdict = lines.some((line) => line.startsWith('[-]')) ? 'failed' : 'passed';
    if (verdict === 'passed' && query.verbose === undefined) return plain(reply, 200, 'ok');
    const unknown = excluded.filter((name) => !checks.some((check) => check.name === name));
    if (unknown.length > 0) {
      const names = unknown.map((name) => JSON.stringify(name)).join(', ');
      lines.push(`warn: some health checks cannot be excluded: no matches for ${names}`);
    }
    lines.push(`${group} check ${verdict}`);
    return plain(reply, verdict === 'failed' ? 500 : 200, `${lines.join('\n')}\n`);
  });
  for (const check of checks) serveCheck(app, group, check);
}

function formatCheck({ name, check, note }: HealthCheck): string {
  const failure = check();
  if (failure !== undefined) return `[-]${name} failed: ${failure}`;
  const remark = note?.();
  return remark === undefined ? `[+]${name} ok` : `[+]${name} ok: ${remark}`;
}

function serveCheck(app: FastifyInstance, group: string, { name, check }: HealthCheck): void {
  app.get(`/${group}/${name}`, (_request: FastifyRequest, reply) => {
    const failure = check();
    return failure === undefined ? plain(reply, 200, 'ok') : plain(reply, 500, `${name} failed: ${failure}\n`);
  });
}

function plain(reply: FastifyReply, code: number, text: string): FastifyReply {
  return reply.code(code).type('text/plain; charset=utf-8').header('x-content-type-options', 'nosniff').send(text);
}
