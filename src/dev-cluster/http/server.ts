import type { AddressInfo, Socket } from 'node:net';
import fastify, { type FastifyReply } from 'fastify';
import { ApiError, badRequest } from '../../kube/status.ts';
import { requireAccess } from '../access.ts';
import { createWarnings } from '../admission/index.ts';
import type { DevCluster } from '../cluster.ts';
import { createAuthenticator } from './authentication.ts';
import type { Exchange } from './exchange.ts';
import { headersOf, impersonate } from './impersonation.ts';
import { negotiate, type Form } from './negotiation.ts';
import { createPaths, OPEN_PATHS } from './paths.ts';
import { BODY_LIMIT, sendBody, sendStatus, sendText, statusOf } from './replies.ts';
import { requestInfoOf, type PathRequest } from './request-info.ts';
import { createResources } from './resources.ts';

export interface ApiServerOptions {
  readonly cluster: DevCluster;
  /** PEM: the serving certificate with its key, and the authority that signs client certificates. */
  readonly tls: { readonly cert: string; readonly key: string; readonly clientAuthority: string };
  /** Told of every error that is a defect of this program. */
  onError(error: unknown): void;
}

/** The Kubernetes REST API over TLS. */
export interface ApiServer {
  /** Listens on 127.0.0.1 and returns the port; 0 picks a free one. */
  listen(port: number): Promise<number>;
  close(): Promise<void>;
}

/** How long a client may take to send a request, in milliseconds. */
const REQUEST_TIMEOUT_MS = 60_000;

/** As long as clients wait for it, in milliseconds. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Longer than clients keep idle connections, so that they never use one that is just being closed. */
const KEEP_ALIVE_MS = 180_000;

/** Makes the server; it does not listen yet. */
export function createApiServer({ cluster, tls, onError }: ApiServerOptions): ApiServer {
  const stopping = new AbortController();
  const authenticate = createAuthenticator();
  const paths = createPaths(cluster);
  const answerResource = createResources(cluster, onError);
  const app = fastify({
    https: {
      cert: tls.cert,
      key: tls.key,
      ca: tls.clientAuthority,
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    },
    bodyLimit: BODY_LIMIT,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: true,
    frameworkErrors: (error, _request, reply) => void sendStatus(reply, badRequest(error.message)),
  });
  /** Fastify ends those that speak HTTP; a peer that does not even finish the handshake is left to us. */
  const sockets = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error: unknown, _request, reply) => {
    const status = statusOf(error);
    if (status.code >= 500 && !(error instanceof ApiError)) onError(error);
    return sendStatus(reply, status);
  });

  const answerPath = ({ request, reply, user }: Exchange, { verb, path }: PathRequest): FastifyReply => {
    if (!OPEN_PATHS.has(path)) requireAccess(cluster.access, user, { verb, nonResourceURL: path });
    const form = negotiate(request.headers.accept, formsOf(path));
    const answer = paths(path, form, request.headers.host ?? '');
    return answer ? sendBody(reply, 200, answer) : sendText(reply, 404, '404 page not found\n');
  };

  app.all('*', async (request, reply) => {
    const [path = '/', query = ''] = (request.raw.url ?? '/').split(/\?(.*)/s);
    const gone = new AbortController();
    reply.raw.on('close', () => gone.abort());
    const requester = authenticate(request.raw.socket, request.headers.authorization);
    const exchange: Exchange = {
      request,
      reply,
      user: impersonate(cluster.access, requester, headersOf(request.raw.rawHeaders)),
      query: new URLSearchParams(query),
      warnings: createWarnings(),
      signal: AbortSignal.any([gone.signal, stopping.signal]),
    };
    const wanted = requestInfoOf(request.method, path, exchange.query);
    return wanted.kind === 'path' ? answerPath(exchange, wanted) : answerResource(exchange, wanted);
  });

  return {
    async listen(port) {
      await app.listen({ host: '127.0.0.1', port });
      return (app.server.address() as AddressInfo).port;
    },
    async close() {
      stopping.abort();
      const closed = app.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** The forms of a path. Those that are always the same are sent whatever is asked for. */
function formsOf(path: string): readonly Form[] {
  if (path === '/api' || path === '/apis') return ['discovery', 'plain'];
  return path === '/openapi/v2' ? ['plain', 'openapi-protobuf'] : [];
}
