/** The admission server, which responds to reviews over TLS from the store and never writes to the cluster. */
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { SecureContextOptions, Server } from 'node:tls';
import Fastify, {
  type ConnectionError,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { LIMITS } from '../kube/limits.ts';
import { type ClientRejection, rejectClient } from '../tls/index.ts';
import type { KubeletScope } from '../views/kubelet.ts';
import { createBodyReader, withStatus } from './body.ts';
import { type ConnectionDeps, type Connections, trackConnections } from './connections.ts';
import { AUTHORIZER_PATH, registerKubeletAuthorizer } from './kubelet-authorizer.ts';
import { createQueue, HEADER_OVERFLOW, limitUrls, URL_LIMIT } from './limits.ts';
import { registerReviews, type ReviewDeps } from './review.ts';

export interface ServerDeps extends ReviewDeps, ConnectionDeps {
  /** Certificate, key and protocol settings. */
  readonly tls: SecureContextOptions;
  /**
   * Common names of client certificates that may send reviews. An empty list accepts every certificate from a trusted
   * CA. If absent, every client is accepted.
   */
  readonly clientNames?: readonly string[] | undefined;
  /** Input of the authorization webhook. Absent if the `kubelet` feature is not installed. */
  readonly kubelet?: KubeletScope | undefined;
}

export interface AdmissionServer {
  readonly app: FastifyInstance;
  readonly connections: Connections;
  /**
   * Switches to another certificate. Open connections close after their next response, so clients reconnect and receive
   * the new certificate.
   */
  useCertificate(tls: SecureContextOptions): void;
}

/** Creates the server without starting it. */
export function createServer(deps: ServerDeps): AdmissionServer {
  const app = Fastify({
    https: {
      ...deps.tls,
      // The handshake succeeds even for invalid certificates, because a rejected client can receive the reason only in
      // an HTTP response.
      ...(deps.clientNames ? { requestCert: true, rejectUnauthorized: false } : {}),
      // Only HTTP/1.1 is offered, because API servers use it for Services.
      ALPNProtocols: ['http/1.1'],
      // Equals the handshake timeout of API servers.
      handshakeTimeout: 10_000,
      // Also limits the time until the first request. The limit equals the longest timeout of an installed webhook,
      // because API servers may open connections before they need them.
      headersTimeout: 15_000,
      connectionsCheckingInterval: 1_000,
      // Adds 1, because Node rejects headers of exactly this size.
      maxHeaderSize: LIMITS.headerBytes + 1,
    },
    // This timeout is longer than the 90 s after which API servers close idle connections, so the server never closes
    // them first.
    keepAliveTimeout: 100_000,
    requestTimeout: 35_000,
    // The server still responds while it drains. `Connection: close` makes clients connect to another replica.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    logger: false,
    ...URL_LIMIT,
    clientErrorHandler(error: ConnectionError, socket: Socket) {
      handleClientError(error, socket);
    },
    frameworkErrors(error, request, reply) {
      closeIfLast(request, reply, false);
      void sendError(reply, error);
    },
  }) as unknown as FastifyInstance;
  const connections = trackConnections(app.server, deps);
  const closeIfLast = ({ raw }: FastifyRequest, reply: FastifyReply, isReviewed: boolean): void => {
    if (connections.finish(raw.socket, isReviewed)) reply.header('connection', 'close');
  };
  // Reviews bypass this hook, because they write their responses directly.
  app.addHook('onSend', (request, reply, _payload, done) => {
    closeIfLast(request, reply, request.method === 'POST' && reply.statusCode === 200);
    done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(withStatus(new Error(NOT_JSON), 400)));
  if (deps.clientNames) requireClientCertificate(app, new Set(deps.clientNames));
  const bodies = createBodyReader(deps.now);
  app.addContentTypeParser('application/json', bodies.read);
  const shared = { connections, bodies, queue: createQueue(deps.now) };
  registerReviews(app, deps, shared);
  if (deps.kubelet) registerKubeletAuthorizer(app, { ...deps, kubelet: deps.kubelet }, shared);
  registerOtherRoutes(app, deps);
  limitUrls(app);
  return {
    app,
    connections,
    useCertificate(tls) {
      (app.server as unknown as Server).setSecureContext(tls);
      connections.renew();
    },
  };
}

const NOT_JSON = 'unable to process a request with a non-json content type';

function registerOtherRoutes(app: FastifyInstance, deps: ServerDeps): void {
  const paths = deps.webhooks.map(({ path }) => path);
  const reviews: readonly (readonly [kind: string, paths: readonly string[]])[] = [
    ['an AdmissionReview', paths],
    ['a SubjectAccessReview', deps.kubelet ? [AUTHORIZER_PATH] : []],
  ];
  const served = reviews.filter(([, at]) => at.length > 0);
  const lists = served.map(([kind, at]) => `${kind} to:\n${at.map((path) => `  ${path}\n`).join('')}`);
  const text = `Portcullis pod security admission. Kubernetes API servers POST ${lists.join('and ')}`;
  app.get('/', (_request, reply) => sendText(reply, 200, text));
  const expected = served.map(([kind, at]) => `${kind} to ${at.join(' or ')}`);
  const sendNotFound = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const [path = ''] = request.url.split('?');
    const target = `${request.method} ${path}`;
    return sendText(reply, 404, `no webhook at ${target}; POST ${expected.join(', or ')}\n`);
  };
  app.setNotFoundHandler(sendNotFound);
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    // Reports all errors of requests without a route as 404.
    if (request.is404) return sendNotFound(request, reply);
    recordError(error, request, deps);
    return sendError(reply, error);
  });
}

/** Status codes of responses to rejected clients. */
const REJECTIONS: ReadonlySet<number> = new Set([401, 403]);

/**
 * Counts and logs a request that fails before its body is processed as a review. `registerReviews` counts and logs all
 * other requests.
 */
function recordError(error: FastifyError, request: FastifyRequest, { webhooks, logger, metrics }: ServerDeps): void {
  const status = errorStatus(error);
  const webhook = request.routeOptions.url ?? '';
  if (webhooks.some(({ path }) => path === webhook)) {
    metrics.webhook.requests.cell({ webhook, code: String(status) }).count++;
  }
  const fields = { logger: 'webhook', webhook, remoteAddress: request.ip };
  if (isDefect(status)) logger.error({ ...fields, err: error }, 'request failed');
  else
    logger.warn(
      { ...fields, reason: errorText(error) },
      REJECTIONS.has(status) ? 'client rejected' : 'malformed review',
    );
}

function sendError(reply: FastifyReply, error: FastifyError): FastifyReply {
  return sendText(reply, errorStatus(error), `${errorText(error)}\n`);
}

function sendText(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type('text/plain; charset=utf-8').send(text);
}

const INVALID_MEDIA_TYPE = 'FST_ERR_CTP_INVALID_MEDIA_TYPE';

function errorStatus({ code, statusCode = 500 }: FastifyError): number {
  return code === INVALID_MEDIA_TYPE ? 400 : statusCode;
}

/** Returns true for internal errors. Status 503 results from a limit or an unsynced store instead. */
function isDefect(status: number): boolean {
  return status >= 500 && status !== 503;
}

function errorText(error: FastifyError): string {
  if (error.code === INVALID_MEDIA_TYPE) return NOT_JSON;
  return isDefect(errorStatus(error)) ? 'internal server error' : error.message;
}

// Invalid requests

/** Responses to invalid HTTP requests, by error code. */
const CLIENT_ERRORS = new Map<string | undefined, readonly [status: number, reason: string]>([
  [HEADER_OVERFLOW, [431, 'the request header is too large']],
  ['ERR_HTTP_REQUEST_TIMEOUT', [408, 'the request did not arrive in time']],
]);
const INVALID_REQUEST = [400, 'invalid HTTP request'] as const;

/** Responds to an invalid HTTP request and closes the connection once the response is flushed. */
function handleClientError({ code }: ConnectionError, socket: Socket): void {
  // Ignores repeated calls, because Node calls the handler again for each later chunk.
  if (code === 'ECONNRESET' || !socket.writable) return;
  const [status, reason] = CLIENT_ERRORS.get(code) ?? INVALID_REQUEST;
  socket.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
      'Connection: close',
      'Content-Type: text/plain; charset=utf-8',
      `Content-Length: ${reason.length + 1}`,
      '',
      `${reason}\n`,
    ].join('\r\n'),
  );
  socket.destroySoon();
}

// Client certificates

/** Rejects reviews from unauthenticated clients before reading their bodies. TLS has verified the certificates. */
function requireClientCertificate(app: FastifyInstance, names: ReadonlySet<string>): void {
  // The result is cached because the client certificate of a connection does not change.
  const known = new WeakMap<Socket, { readonly rejection: ClientRejection | undefined }>();
  const findRejection = (socket: Socket): ClientRejection | undefined => {
    const result = known.get(socket) ?? { rejection: rejectClient(socket, names) };
    known.set(socket, result);
    return result.rejection;
  };
  app.addHook('onRequest', (request, reply, done) => {
    const isReview = request.method === 'POST' && !request.is404;
    const rejection = isReview ? findRejection(request.raw.socket) : undefined;
    if (!rejection) {
      done();
      return;
    }
    // Closes the connection, because its next bytes are the unread body.
    reply.header('connection', 'close');
    done(withStatus(new Error(rejection.reason), rejection.status));
  });
}
