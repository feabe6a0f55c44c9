import type { AddressInfo } from 'node:net';
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { ApiError, badRequest } from '../../../kube/status.ts';
import type { UserInfo } from '../../../kube/types.ts';
import { requireAccess } from '../access.ts';
import { createWarnings, type Warnings } from '../admission/index.ts';
import { mediaType } from '../body.ts';
import type { EmbeddedCluster } from '../cluster.ts';
import type { ApiResult, WatchResult } from '../core.ts';
import { createAuthenticator } from './authentication.ts';
import { headersOf, impersonate } from './impersonation.ts';
import { negotiate, type Form } from './negotiation.ts';
import { createPaths, OPEN_PATHS } from './paths.ts';
import { renderList, renderObject, type TableOptions } from './render.ts';
import { createProtobufDecoder, PROTOBUF } from './protobuf/decode.ts';
import { addWarnings, BODY_LIMIT, sendJson, sendStatus, sendText, statusOf } from './replies.ts';
import { requestInfoOf, type PathRequest, type ResourceRequest } from './request-info.ts';
import { streamEvents } from './watch-stream.ts';

export interface ApiServerOptions {
  readonly cluster: EmbeddedCluster;
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

/** What one request carries through the layers. */
interface Exchange {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly user: UserInfo;
  readonly query: URLSearchParams;
  readonly warnings: Warnings;
  readonly signal: AbortSignal;
}

/** Makes the server; it does not listen yet. */
export function createApiServer({ cluster, tls, onError }: ApiServerOptions): ApiServer {
  const stopping = new AbortController();
  const authenticate = createAuthenticator();
  const paths = createPaths(cluster);
  const readProtobuf = createProtobufDecoder(cluster.schemas);
  const app = fastify({
    https: { cert: tls.cert, key: tls.key, ca: tls.clientAuthority, requestCert: true, rejectUnauthorized: false },
    bodyLimit: BODY_LIMIT,
    forceCloseConnections: true,
    frameworkErrors: (error, _request, reply) => void sendStatus(reply, badRequest(error.message)),
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
    const form =
      path === '/api' || path === '/apis' ? negotiate(request.headers.accept, ['discovery', 'plain']) : 'plain';
    const answer = paths(path, form, request.headers.host ?? '');
    if (!answer) return sendText(reply, 404, '404 page not found\n');
    return reply
      .header('content-type', answer.contentType)
      .header('cache-control', answer.cacheControl ?? 'no-cache, private')
      .send(Buffer.from(answer.body));
  };

  const readContent = ({ body, headers }: FastifyRequest): { contentType: string; body: string } => {
    const contentType = headers['content-type'] ?? '';
    if (!Buffer.isBuffer(body)) return { contentType, body: '' };
    if (mediaType(contentType) !== PROTOBUF) return { contentType, body: body.toString('utf8') };
    return { contentType: 'application/json', body: JSON.stringify(readProtobuf(body)) };
  };

  const answerResource = async (exchange: Exchange, wanted: ResourceRequest): Promise<FastifyReply> => {
    const { request, reply, user, query, warnings, signal } = exchange;
    try {
      const result = await cluster.api.handle({
        ...wanted,
        query,
        user,
        userAgent: request.headers['user-agent'] ?? '',
        ...readContent(request),
        context: { warn: warnings.add, audit: () => undefined, signal },
      });
      if (!result) return await sendText(reply, 404, '404 page not found\n');
      return await send(exchange, result);
    } finally {
      if (!reply.sent) addWarnings(reply, warnings);
    }
  };

  const send = async ({ request, reply, query, warnings }: Exchange, result: ApiResult): Promise<FastifyReply> => {
    const table: TableOptions = { includeObject: includeObject(query), now: cluster.clock() };
    const { accept } = request.headers;
    if (result.kind === 'watch')
      return sendEvents(reply, result, negotiate(accept, ['table', 'metadata', 'plain']), table);
    addWarnings(reply, warnings);
    if (result.kind === 'list') {
      return sendJson(reply, 200, renderList(result, negotiate(accept, ['table', 'metadata-list', 'plain']), table));
    }
    return sendJson(reply, result.code, renderObject(result, negotiate(accept, ['table', 'metadata', 'plain']), table));
  };

  const sendEvents = async (
    reply: FastifyReply,
    result: WatchResult,
    form: Form,
    table: TableOptions,
  ): Promise<FastifyReply> => {
    reply.hijack();
    await streamEvents(reply.raw, result, form, { ...table, clock: () => cluster.clock() });
    return reply;
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
      await app.close();
    },
  };
}

function includeObject(query: URLSearchParams): TableOptions['includeObject'] {
  const wanted = query.get('includeObject');
  return wanted === 'Object' || wanted === 'None' ? wanted : 'Metadata';
}
