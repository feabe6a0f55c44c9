import { createHash } from 'node:crypto';
import { chmod, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { TLSSocket } from 'node:tls';
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { errorCode } from '../kube/error-code.ts';
import { ApiError, badRequest, createStatus, internalError, type Status } from '../kube/status.ts';
import type { UserInfo } from '../kube/types.ts';
import type { KeyPair } from '../tls/index.ts';
import { impersonate, requireAccess } from './access.ts';
import type { WatchResult } from './attributes.ts';
import { mediaType } from './body.ts';
import type { ResourceRequest, ResourceTarget } from './call.ts';
import type { DevCluster } from './cluster.ts';
import { type Document, findDocument, HEALTH_PATHS } from './discovery.ts';
import { decodeProtobuf, PROTOBUF } from './protobuf.ts';
import { parseResourcePath } from './request.ts';
import { type Form, renderEvent, renderList, renderObject, type RenderOptions } from './tables.ts';

interface ApiServerOptions {
  readonly cluster: DevCluster;
  /** The serving certificate, its key, and the CA for client certificates, in PEM. */
  readonly tls: { readonly cert: string; readonly key: string; readonly clientAuthority: string };
  /** Called with unexpected errors, which indicate bugs in the server. */
  onError(error: unknown): void;
}

/** Server for the Kubernetes REST API over TLS. */
interface ApiServer {
  /** Listens on 127.0.0.1 and resolves to the port. Port 0 selects a free port. */
  listen(port: number): Promise<number>;
  close(): Promise<void>;
}

/** Maximum size of request bodies in bytes. */
const BODY_LIMIT = 3 * 1024 * 1024;
const REQUEST_TIMEOUT_MS = 60_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;
/**
 * Keep-alive timeout, which is longer than clients keep idle connections, so they do not reuse a connection while the
 * server closes it.
 */
const KEEP_ALIVE_MS = 180_000;

export function createApiServer(options: ApiServerOptions): ApiServer {
  const { cluster, tls, onError } = options;
  const stopping = new AbortController();
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
  // Tracks all sockets, because Fastify does not close connections that have not completed their TLS handshake.
  const sockets = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error: unknown, _request, reply) => {
    const status = errorStatus(error);
    if (status.code >= 500 && !(error instanceof ApiError)) onError(error);
    return sendStatus(reply, status);
  });

  app.all('*', async (request, reply) => {
    const [path = '/', search = ''] = (request.raw.url ?? '/').split(/\?(.*)/s);
    const query = new URLSearchParams(search);
    const requester = authenticate(request.raw.socket, request.headers.authorization);
    const user = impersonate(cluster.access, requester, request.raw.rawHeaders);
    const target = parseResourcePath(request.method, path, query);
    if (target)
      return answerResource(request, reply, { ...target, query, user }, { ...options, signal: stopping.signal });
    if (!HEALTH_PATHS.has(path)) {
      requireAccess(cluster.access, user, { verb: request.method.toLowerCase(), nonResourceURL: path });
    }
    const document = findDocument(cluster.registry, path);
    return document ? send(reply, 200, document) : sendText(reply, 404, '404 page not found\n');
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

async function answerResource(
  request: FastifyRequest,
  reply: FastifyReply,
  target: ResourceTarget & Pick<ResourceRequest, 'query' | 'user'>,
  { cluster, onError, signal }: Pick<ApiServerOptions, 'cluster' | 'onError'> & { readonly signal: AbortSignal },
): Promise<FastifyReply> {
  const gone = new AbortController();
  reply.raw.on('close', () => gone.abort());
  const warnings = createWarnings();
  const { headers, body } = request;
  const options = renderOptions(headers.accept ?? '', target.query, cluster.clock());
  const result = await cluster
    .handle({
      ...target,
      userAgent: headers['user-agent'] ?? '',
      ...readContent(headers['content-type'] ?? '', body),
      context: {
        warn: warnings.add,
        signal: AbortSignal.any([gone.signal, signal]),
      },
    })
    .finally(() => {
      if (warnings.list().length > 0) void reply.header('warning', warnings.list().map(warningHeader));
    });
  if (result.kind === 'empty') return reply.code(204).send();
  if (result.kind === 'list') return sendJson(reply, 200, renderList(result, options));
  if (result.kind === 'object') return sendJson(reply, result.code, renderObject(result, options));
  reply.hijack();
  await streamEvents(reply.raw, result, options, cluster.clock).catch((error: unknown) => {
    onError(error);
    reply.raw.destroy();
  });
  return reply;
}

/** Users of connections that have a trusted client certificate. */
const users = new WeakMap<Socket, UserInfo>();

/**
 * Returns the user in the client certificate, or the anonymous user if there is none. Throws ApiError 401 for other
 * credentials.
 */
function authenticate(socket: Socket, authorization: string | undefined): UserInfo {
  const known = users.get(socket);
  if (known !== undefined) return known;
  const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
  // Node returns an empty object if the client has no certificate. The server issues no tokens, so no token is valid.
  const hasCertificate = certificate !== undefined && Object.keys(certificate).length > 0;
  const isAuthorized = socket instanceof TLSSocket && socket.authorized;
  const isTrusted = hasCertificate ? isAuthorized : authorization === undefined;
  if (!isTrusted) throw new ApiError(createStatus(401, 'Unauthorized', 'Unauthorized'));
  if (!hasCertificate) return { username: 'system:anonymous', groups: ['system:unauthenticated'] };
  const { subject, raw } = certificate;
  const organizations = [subject.O].flat().filter((name) => name !== undefined);
  const digest = createHash('sha256').update(raw).digest('hex');
  const user = {
    username: [subject.CN].flat()[0] ?? '',
    groups: [...organizations, 'system:authenticated'],
    extra: { 'authentication.kubernetes.io/credential-id': [`X509SHA256=${digest}`] },
  };
  users.set(socket, user);
  return user;
}

function readContent(contentType: string, body: unknown): Pick<ResourceRequest, 'contentType' | 'body'> {
  if (!Buffer.isBuffer(body)) return { contentType, body: '' };
  if (mediaType(contentType) !== PROTOBUF) return { contentType, body: body.toString('utf8') };
  return { contentType: 'application/json', body: JSON.stringify(decodeProtobuf(body)) };
}

/** Returns the first acceptable representation. Throws ApiError 406 if the client accepts no JSON. */
function renderOptions(accept: string, query: URLSearchParams, now: Date): RenderOptions {
  const includeObject = query.get('includeObject');
  const forms = accept.split(',').flatMap((clause) => parseForm(clause.trim()) ?? []);
  const form = accept.trim() === '' ? 'object' : forms[0];
  if (form === undefined) {
    throw new ApiError(
      createStatus(406, 'NotAcceptable', 'only the following media types are accepted: application/json'),
    );
  }
  return {
    form,
    includeObject: includeObject === 'Object' || includeObject === 'None' ? includeObject : 'Metadata',
    now,
  };
}

function parseForm(clause: string): Form | undefined {
  const [type = '', ...parameters] = clause.split(';').map((part) => part.trim());
  if (!['application/json', 'application/*', '*/*'].includes(type)) return undefined;
  const as = parameters.find((parameter) => parameter.startsWith('as='))?.slice('as='.length);
  if (as === undefined) return 'object';
  if (!parameters.includes('g=meta.k8s.io') || !parameters.includes('v=v1')) return undefined;
  if (as === 'Table') return 'table';
  return as.startsWith('PartialObjectMetadata') ? 'metadata' : undefined;
}

/** Writes one JSON document per event, at the client's pace, until the events end or the client disconnects. */
async function streamEvents(
  response: ServerResponse,
  { info, events }: WatchResult,
  options: RenderOptions,
  clock: () => Date,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' });
  response.flushHeaders();
  const lines = async function* (): AsyncGenerator<string> {
    let isFirst = true;
    for await (const event of events) {
      yield `${JSON.stringify(renderEvent(info, event, { ...options, now: clock() }, isFirst))}\n`;
      isFirst = false;
    }
  };
  await pipeline(lines, response).catch((error: unknown) => {
    if (errorCode(error) !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  });
}

/** Limits for the warnings in a response, in characters. */
const WARNINGS_LIMIT = 4096;
const WARNING_LIMIT = 256;

/**
 * Collects the distinct warnings for a request. Truncates each of them if their total length exceeds the limit.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/endpoints/filters/warning.go
 */
function createWarnings(): { add(text: string): void; list(): readonly string[] } {
  const texts = new Set<string>();
  return {
    add(text) {
      if (text !== '' && !/\p{Cc}/u.test(text)) texts.add(text);
    },
    list() {
      const totalLength = (list: readonly string[]): number =>
        list.reduce((sum, text) => sum + Array.from(text).length, 0);
      const all = [...texts];
      if (totalLength(all) <= WARNINGS_LIMIT) return all;
      const truncated = all.map((text) => Array.from(text).slice(0, WARNING_LIMIT).join(''));
      return truncated.filter((_text, index) => totalLength(truncated.slice(0, index)) < WARNINGS_LIMIT);
    },
  };
}

/**
 * Formats a warning as an HTTP header. Node encodes header values as Latin-1, so each character of the result
 * represents one byte of the UTF-8 text.
 * @see https://www.rfc-editor.org/rfc/rfc7234#section-5.5
 */
function warningHeader(text: string): string {
  const quoted = text
    .replaceAll(/\p{Cc}/gu, ' ')
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"');
  return `299 - "${Buffer.from(quoted, 'utf8').toString('latin1')}"`;
}

/** Sends the body as bytes. With a text body, Node would also encode the headers as UTF-8. */
function send(reply: FastifyReply, code: number, { contentType, body }: Document): FastifyReply {
  const headers = { 'content-type': contentType, 'cache-control': 'no-cache, private' };
  return reply.code(code).headers(headers).send(Buffer.from(body));
}

function sendText(reply: FastifyReply, code: number, body: string): FastifyReply {
  return send(reply, code, { contentType: 'text/plain; charset=utf-8', body });
}

function sendJson(reply: FastifyReply, code: number, object: unknown): FastifyReply {
  return send(reply, code, { contentType: 'application/json', body: `${JSON.stringify(object)}\n` });
}

function sendStatus(reply: FastifyReply, status: Status): FastifyReply {
  const seconds = status.details?.retryAfterSeconds;
  if (seconds !== undefined) void reply.header('retry-after', String(seconds));
  return sendJson(reply, status.code, { kind: 'Status', apiVersion: 'v1', ...status, metadata: {} });
}

function errorStatus(error: unknown): Status {
  if (error instanceof ApiError) return error.status;
  if (error instanceof URIError) return badRequest(error.message);
  const { code, message } =
    error instanceof Error ? (error as Error & { code?: unknown }) : { code: '', message: String(error) };
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return createStatus(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${BODY_LIMIT}`);
  }
  const isClientError = typeof code === 'string' && code.startsWith('FST_ERR_CTP');
  return isClientError ? badRequest(message) : internalError(message);
}

/** Writes a kubeconfig with one context. Only the owner can read the file, because it contains a private key. */
export async function writeKubeconfig(
  path: string,
  config: { readonly server: string; readonly authority: string; readonly client: KeyPair },
): Promise<void> {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const text = `apiVersion: v1
kind: Config
clusters:
- name: portcullis
  cluster:
    server: ${config.server}
    certificate-authority-data: ${base64(config.authority)}
users:
- name: portcullis-admin
  user:
    client-certificate-data: ${base64(config.client.cert)}
    client-key-data: ${base64(config.client.key)}
contexts:
- name: portcullis
  context:
    cluster: portcullis
    user: portcullis-admin
current-context: portcullis
`;
  await writeFile(path, text, { mode: 0o600 });
  // Sets the mode again, because `writeFile` applies its mode option only to new files.
  await chmod(path, 0o600);
}
