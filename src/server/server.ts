/**
 * The admission server: Fastify over TLS. It reads the store and answers; it never writes to a cluster.
 */
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { SecureContextOptions, Server } from 'node:tls';
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { ConnectionError } from 'fastify';
import { registerAdmission, type AdmissionDeps } from './admission.ts';
import type { Callers } from './callers.ts';
import { trackConnections, type Connections } from './connections.ts';

/** The largest review: an object of 3 MiB, the API server's limit, old and new, with room for the envelope. */
const BODY_LIMIT_BYTES = 7 * 1024 * 1024;

type Done = (error: Error | null, body?: Buffer) => void;

/** Reads the body of a request. What comes in one piece, as reviews of pods do, is passed on as it is: Fastify copies it. */
function readBody(request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  if (Number(request.headers['content-length']) > BODY_LIMIT_BYTES) {
    done(tooLarge());
    return;
  }
  const pieces: Buffer[] = [];
  let length = 0;
  const stop = (): void => {
    payload.off('data', onData);
    payload.off('end', onEnd);
    payload.off('error', onError);
  };
  const onData = (piece: Buffer): void => {
    pieces.push(piece);
    length += piece.length;
    if (length <= BODY_LIMIT_BYTES) return;
    stop();
    done(tooLarge());
  };
  const onEnd = (): void => {
    stop();
    done(null, pieces.length === 1 ? pieces[0] : Buffer.concat(pieces, length));
  };
  const onError = (error: Error): void => {
    stop();
    done(withStatus(error, 400));
  };
  payload.on('data', onData);
  payload.on('end', onEnd);
  payload.on('error', onError);
}

/** The error of a request that cannot be read as it came. */
function badRequest(message: string): Error {
  return withStatus(new Error(message), 400);
}

function tooLarge(): Error {
  return withStatus(new Error(`request entity is too large; limit is ${BODY_LIMIT_BYTES} bytes`), 413);
}

function withStatus(error: Error, statusCode: number): Error {
  return Object.assign(error, { statusCode });
}

/** What is answered to bytes that are no request: the status, and why. Whatever else is wrong with them is a 400. */
const ANSWERS = new Map<string | undefined, readonly [status: number, reason: string]>([
  ['HPE_HEADER_OVERFLOW', [431, 'the head of the request is too large']],
  ['ERR_HTTP_REQUEST_TIMEOUT', [408, 'the request did not arrive in time']],
]);
const NO_REQUEST = [400, 'this is no HTTP request'] as const;

/**
 * Answers bytes that are no request, and closes the connection when the answer has gone out: what was written to a TLS
 * connection that is destroyed at once may never leave.
 */
function answerClientError({ code }: ConnectionError, socket: Socket): void {
  // It is called again for each further piece that arrives.
  if (code === 'ECONNRESET' || !socket.writable) return;
  const [status, reason] = ANSWERS.get(code) ?? NO_REQUEST;
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

interface ServerDeps extends AdmissionDeps {
  /** Certificate, key and protocol settings. */
  readonly tls: SecureContextOptions;
  /** Who may send reviews; absent: whoever reaches the server. */
  readonly callers?: Callers | undefined;
}

export interface AdmissionServer {
  readonly app: FastifyInstance;
  readonly connections: Connections;
  /** Serves another certificate from now on; open connections end with their next answer, so that clients see it. */
  useCertificate(tls: SecureContextOptions): void;
}

/** Builds the server; it does not listen. */
export function buildServer(deps: ServerDeps): AdmissionServer {
  const app = Fastify({
    // HTTP/1.1: the API server speaks nothing else to services.
    https: {
      ...deps.tls,
      // A caller that is refused is told why, which TLS alone would not do.
      ...(deps.callers ? { requestCert: true, rejectUnauthorized: false } : {}),
      ALPNProtocols: ['http/1.1'],
      // As long as an API server waits for it.
      handshakeTimeout: 10_000,
      headersTimeout: 32_000,
      connectionsCheckingInterval: 5_000,
      maxHeaderSize: 1024 * 1024,
    },
    // Longer than the 90 s after which the API server drops an idle connection, so that we are never the first.
    keepAliveTimeout: 100_000,
    requestTimeout: 35_000,
    // While it drains, the server still answers; the connections are told to go elsewhere.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    logger: false,
    clientErrorHandler: answerClientError,
    frameworkErrors: (error, _request, reply) => {
      send(reply, error);
    },
  }) as unknown as FastifyInstance;
  const connections = trackConnections(app);
  acceptJson(app);
  if (deps.callers) admitOnly(app, deps.callers);
  registerAdmission(app, deps, connections);
  const paths = deps.webhooks.map((webhook) => webhook.path);
  app.get('/', (_request, reply) => reply.type('text/plain; charset=utf-8').send(greeting(paths)));
  const sendNotFound = (request: FastifyRequest, reply: FastifyReply): FastifyReply =>
    reply
      .code(404)
      .type('text/plain; charset=utf-8')
      .send(
        `no webhook at ${request.method} ${request.url.split('?')[0] ?? ''}; POST an AdmissionReview to ${paths.join(' or ')}\n`,
      );
  app.setNotFoundHandler(sendNotFound);
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    // Whatever else is wrong with the request.
    if (request.is404) {
      sendNotFound(request, reply);
      return;
    }
    note(error, request, deps);
    if (connections.shouldClose(request.raw.socket)) reply.header('connection', 'close');
    send(reply, error);
  });
  return {
    app,
    connections,
    useCertificate(tls) {
      (app.server as unknown as Server).setSecureContext(tls);
      connections.renew();
    },
  };
}

/** Refuses reviews of others before their bodies are read. */
function admitOnly(app: FastifyInstance, callers: Callers): void {
  app.addHook('onRequest', (request, reply, done) => {
    const refusal = request.method === 'POST' && !request.is404 ? callers.refuse(request.raw.socket) : undefined;
    if (!refusal) {
      done();
      return;
    }
    // What else comes on that connection is the body.
    reply.header('connection', 'close');
    done(Object.assign(new Error(refusal.reason), { statusCode: refusal.code }));
  });
}

const NO_JSON = 'unable to process a request with a non-json content type';

/** The body arrives as bytes: the envelope is read by `readEnvelope`, which says what is wrong with it. */
function acceptJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', readBody);
  app.addContentTypeParser('*', (_request, _payload, done) => {
    done(badRequest(NO_JSON));
  });
}

/** Counts and logs what never became a review, as `registerAdmission` does with all others. */
function note(error: FastifyError, request: FastifyRequest, { webhooks, logger, metrics }: ServerDeps): void {
  const code = codeOf(error);
  const webhook = request.routeOptions.url ?? '';
  if (webhooks.some(({ path }) => path === webhook))
    metrics.webhook.requests.cell({ webhook, code: String(code) }).count++;
  const line = { logger: 'webhook', webhook, remoteAddress: request.ip };
  if (code >= 500) logger.error({ ...line, err: error }, 'request failed');
  else logger.warn({ ...line, reason: printError(error) }, REFUSED.has(code) ? 'caller refused' : 'malformed review');
}

/** The answers to callers who may not send reviews. */
const REFUSED: ReadonlySet<number> = new Set([401, 403]);

function send(reply: FastifyReply, error: FastifyError): void {
  void reply
    .code(codeOf(error))
    .type('text/plain; charset=utf-8')
    .send(`${printError(error)}\n`);
}

function codeOf({ code, statusCode = 500 }: FastifyError): number {
  return code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE' ? 400 : statusCode;
}

function printError(error: FastifyError): string {
  if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return NO_JSON;
  return codeOf(error) >= 500 ? 'internal server error' : error.message;
}

function greeting(paths: readonly string[]): string {
  return `Portcullis, pod security admission. Kubernetes API servers POST AdmissionReviews to:\n${paths.map((path) => `  ${path}\n`).join('')}`;
}
