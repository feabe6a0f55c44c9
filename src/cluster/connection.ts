import { isIP } from 'node:net';
import { X509Certificate } from 'node:crypto';
import {
  Agent as PlainAgent,
  request as plainRequest,
  type Agent as AgentTransport,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Agent as AgentConnect,
} from 'node:http';
import { Agent, type AgentOptions, request as tlsRequest } from 'node:https';
import { createSecureContext, getCACertificates } from 'node:tls';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../config/files.ts';
import {
  dataOrFile,
  type Credentials,
  createCredentials,
  type ClusterEntry,
  resolveCluster,
  type ClusterSource,
} from './cluster-source.ts';
import { ApiError, createStatus, type Status } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import type { Tally } from '../telemetry/hot.ts';
import type { TokenBucket } from './clock.ts';

/** What Node tells of a connection that failed. */
interface NodeError {
  readonly code?: string;
  readonly message: string;
  readonly address?: string;
  readonly port?: number;
  readonly errors?: readonly unknown[];
  /** The certificate that was refused. */
  readonly cert?: { readonly subjectaltname?: string };
}

/** A failed connection in the words of Go's HTTP client. */
export function networkError(thrown: unknown, url: string): string {
  const error = first(thrown);
  const hostname = URL.canParse(url) ? new URL(url).hostname : '';
  const dialled = error.address === undefined ? '' : ` ${hostPort(error.address, error.port)}`;
  switch (error.code) {
    case 'ECONNREFUSED':
      return `dial tcp${dialled}: connect: connection refused`;
    case 'EHOSTUNREACH':
      return `dial tcp${dialled}: connect: no route to host`;
    case 'ENETUNREACH':
      return `dial tcp${dialled}: connect: network is unreachable`;
    case 'ETIMEDOUT':
      return `dial tcp${dialled}: i/o timeout`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `dial tcp: lookup ${hostname}: no such host`;
    case 'ECONNRESET':
      if (error.message === 'aborted') return 'unexpected EOF';
      return error.message.includes('ECONNRESET') ? 'read: connection reset by peer' : 'EOF';
    case 'EPROTO':
      return 'http: server gave HTTP response to HTTPS client';
    case 'CERT_HAS_EXPIRED':
    case 'CERT_NOT_YET_VALID':
      return `${UNTRUSTED}certificate has expired or is not yet valid: ${error.message}`;
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `${UNTRUSTED}${wrongName(error.cert?.subjectaltname ?? '', hostname)}`;
    default:
      return UNKNOWN_AUTHORITY.has(error.code ?? '')
        ? `${UNTRUSTED}certificate signed by unknown authority`
        : error.message;
  }
}

const UNTRUSTED = 'tls: failed to verify certificate: x509: ';

const UNKNOWN_AUTHORITY = new Set([
  'CERT_SIGNATURE_FAILURE',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** Where a name has several addresses, each of which failed, the first failure speaks. */
function first(thrown: unknown): NodeError {
  const error = thrown as NodeError;
  const [inner] = error.errors ?? [];
  return inner instanceof Error ? inner : error;
}

function hostPort(address: string, port: number | undefined): string {
  return `${isIP(address) === 6 ? `[${address}]` : address}:${port ?? 0}`;
}

function wrongName(subjectAltName: string, hostname: string): string {
  const names = subjectAltName.split(', ').filter((name) => name !== '');
  const kind = isIP(hostname) === 0 ? 'DNS:' : 'IP Address:';
  const valid = names.filter((name) => name.startsWith(kind)).map((name) => name.slice(kind.length));
  if (valid.length > 0) return `certificate is valid for ${valid.join(', ')}, not ${hostname}`;
  return isIP(hostname) === 0
    ? `certificate is not valid for any names, but wanted to match ${hostname}`
    : `cannot validate certificate for ${hostname} because it doesn't contain any IP SANs`;
}

// * A cluster that is reached by its API server. Requests are raw JSON, so that no field is lost that this program does
// not know; nothing here writes credentials anywhere.

/** Keeps the connections to a server, which belong to whoever opened them. */
interface AgentKeeper {
  agentFor(credentials: Credentials): Promise<PlainAgent>;
  close(): void;
}

/** `env` may name proxies, as `HTTPS_PROXY` and `NO_PROXY`; nothing on this machine is asked through one of those. */
function createAgentKeeper(cluster: ClusterEntry, env: Readonly<Record<string, string | undefined>>): AgentKeeper {
  const base: AgentOptions = { keepAlive: true, proxyEnv: proxyFor(cluster, env) };
  const isPlain = cluster.server.startsWith('http:');
  let current: (Files & { readonly agent: PlainAgent }) | undefined;
  return {
    async agentFor({ cert, key }) {
      const authority = isPlain ? undefined : await dataOrFile(cluster.authorityData, cluster.authorityFile);
      const isSame = current?.authority === authority && current?.cert === cert && current?.key === key;
      if (current && isSame) return current.agent;
      const files = { authority, cert, key };
      // The former one is left alone: its connections may be in use.
      const agent = isPlain ? new PlainAgent(base) : new Agent({ ...base, ...tlsOptions(cluster, files) });
      current = { ...files, agent };
      return agent;
    },
    close: () => current?.agent.destroy(),
  };
}

/** What connections are made with, in PEM; as long as it stays, so do they. */
interface Files {
  readonly authority: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/;

function proxyFor({ proxyUrl, server }: ClusterEntry, env: NonNullable<AgentOptions['proxyEnv']>) {
  if (proxyUrl !== undefined) return { HTTPS_PROXY: proxyUrl, HTTP_PROXY: proxyUrl };
  return LOOPBACK.test(new URL(server).hostname) ? {} : env;
}

/** @throws {UserError} for certificates or keys that TLS cannot use */
function tlsOptions(cluster: ClusterEntry, { authority, cert, key }: Files): AgentOptions {
  const files = {
    ...(authority === undefined ? systemAuthorities() : { ca: authority }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
  try {
    // TLS would overlook an authority that is none.
    if (authority !== undefined) new X509Certificate(authority);
    createSecureContext(files);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UserError(`the certificates for ${cluster.server} cannot be used: ${reason}`, { cause: error });
  }
  return {
    ...files,
    rejectUnauthorized: !cluster.skipVerification,
    ...(cluster.serverName === undefined ? {} : { servername: cluster.serverName }),
  };
}

/** Those that the machine trusts; where it says nothing, those that Node trusts. */
function systemAuthorities(): Pick<AgentOptions, 'ca'> {
  const ca = getCACertificates('system');
  return ca.length === 0 ? {} : { ca };
}

/** What a server sent back. */
interface RawAnswer {
  readonly code: number;
  /** Of the header `Retry-After`, in seconds. */
  readonly retryAfter: string | undefined;
  /** The headers `Warning`. */
  readonly warnings: readonly string[];
  readonly body: string;
}

/** More of a text that is no Status would help nobody. */
const MAX_TEXT = 200;

/**
 * The object in an answer.
 * @throws {ApiError} for a failure; its `retryAfterSeconds` says whether it is worth while to ask again
 * @throws {UserError} for what no Kubernetes API server would answer
 */
function readAnswer(
  { code, retryAfter, body }: Pick<RawAnswer, 'code' | 'retryAfter' | 'body'>,
  server: string,
): JsonObject {
  const value = parse(body);
  if (code >= 200 && code < 300) {
    if (isObject(value)) return value;
    throw new UserError(`${server} answered something else than JSON: is it a Kubernetes API server?`);
  }
  const status = statusOf(code, value, body);
  const seconds = /^\d{1,5}$/.test(retryAfter ?? '') ? Number(retryAfter) : undefined;
  throw new ApiError(
    seconds === undefined ? status : { ...status, details: { ...status.details, retryAfterSeconds: seconds } },
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The Status that was sent, or one for whatever was sent instead. */
function statusOf(code: number, value: unknown, body: string): Status {
  if (isObject(value) && value['kind'] === 'Status' && typeof value['message'] === 'string') {
    return { ...(value as unknown as Status), code };
  }
  const text = body.trim().replaceAll(/\s+/g, ' ').slice(0, MAX_TEXT);
  return createStatus(code, REASONS.get(code) ?? 'Unknown', text === '' ? `HTTP status ${code}` : text);
}

const REASONS: ReadonlyMap<number, string> = new Map([
  [401, 'Unauthorized'],
  [403, 'Forbidden'],
  [404, 'NotFound'],
  [410, 'Gone'],
  [429, 'TooManyRequests'],
  [500, 'InternalError'],
  [503, 'ServiceUnavailable'],
]);

/** A warning: a code, the name of who warns, and the text in quotes; a date may follow. */
const WARNING = /^\s*,?\s*\d{3} \S+ "((?:[^"\\]|\\.)*)"(?: "[^"]*")?/;

/**
 * The texts of `Warning` headers, in their order; what is no warning, and all after it in the same header, says nothing.
 * @see https://www.rfc-editor.org/rfc/rfc7234#section-5.5
 */
export function readWarnings(headers: readonly string[]): readonly string[] {
  return headers.flatMap(readHeader);
}

function readHeader(header: string): readonly string[] {
  const texts: string[] = [];
  let rest = header;
  for (;;) {
    const match = WARNING.exec(rest);
    if (match === null) return texts;
    // Node reads a byte as a character.
    texts.push(Buffer.from((match[1] ?? '').replaceAll(/\\(.)/g, '$1'), 'latin1').toString('utf8'));
    rest = rest.slice(match[0].length);
  }
}

/** One request as it goes over the wire. */
interface RawRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Sends a request and reads its answer to the end.
 * Rejects with what Node says of the connection, or if the signal is aborted.
 */
async function send(request: RawRequest, agent: AgentTransport): Promise<RawAnswer> {
  return await readWhole(await open(request, agent));
}

/** Sends a request; the body of its answer is still to be read. Rejects as `send` does. */
async function open(request: RawRequest, agent: AgentTransport): Promise<IncomingMessage> {
  for (;;) {
    const response = await attempt(request, agent);
    if (response !== 'stale') return response;
  }
}

/** Reads an answer to its end. */
async function readWhole(response: IncomingMessage): Promise<RawAnswer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const { statusCode: code = 0, headers, headersDistinct } = response;
  const warnings = headersDistinct['warning'] ?? [];
  return { code, retryAfter: headers['retry-after'], warnings, body: Buffer.concat(chunks).toString('utf8') };
}

/**
 * A kept connection may be closed by the other side just as it is used again. That is worth another try where a
 * repetition does no harm; a new connection is never stale.
 */
function attempt(
  { method, url, headers, body, signal }: RawRequest,
  agent: AgentTransport,
): Promise<IncomingMessage | 'stale'> {
  const request = url.protocol === 'http:' ? plainRequest : tlsRequest;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent, signal }, resolve);
    sent.on('error', (error: NodeJS.ErrnoException) => {
      const isStale = sent.reusedSocket && error.code === 'ECONNRESET' && method === 'GET' && !signal.aborted;
      if (isStale) resolve('stale');
      else reject(error);
    });
    sent.end(body);
  });
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Such as `/api/v1/pods`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Of the body; absent: plain JSON. */
  readonly contentType?: string;
  /** The form of the answer; absent: plain JSON. */
  readonly accept?: string;
  /** Hears each warning that comes with the answer. */
  readonly onWarning?: ((text: string) => void) | undefined;
  readonly signal?: AbortSignal;
}

export interface Connection {
  /** Such as `https://127.0.0.1:6443`. */
  readonly server: string;
  /** Where objects belong that name no namespace. */
  readonly namespace: string;
  /**
   * Sends a request; a server that is too busy is asked again when it says so.
   * Rejects with an ApiError for what the server refuses, with a UserError if it cannot be reached.
   */
  request(request: ApiRequest): Promise<JsonObject>;
  /**
   * Sends a request whose answer takes its time and gives the bytes as they come; they break off when the connection
   * does or the signal is aborted. Rejects as `request` does, but asks only once.
   */
  stream(request: ApiRequest): Promise<AsyncIterable<Buffer>>;
  close(): void;
}

export interface ConnectOptions extends ClusterSource {
  readonly userAgent: string;
  /** For each request and its answer, in milliseconds. */
  readonly timeoutMs?: number;
  /** Counts the answers; a connection that failed has the code `<error>`. */
  readonly requests?: Tally<'code' | 'method' | 'host'>;
  /** Each request takes a token first; absent: the server alone sets limits. */
  readonly limit?: TokenBucket;
}

const TIMEOUT_MS = 30_000;
/** As often as client-go: whoever is told to wait for longer gives up. */
const MAX_RETRIES = 10;
/** For one request, all its retries together. */
const MAX_WAIT_SECONDS = 60;

/** Finds a cluster and makes the connection to it; nothing is sent yet. Rejects with a UserError if there is none. */
export async function connect(options: ConnectOptions): Promise<Connection> {
  const { userAgent, timeoutMs = TIMEOUT_MS, requests, limit, ...where } = options;
  const { cluster, user, namespace } = await resolveCluster(where);
  const { server, serverName } = cluster;
  const { host } = new URL(server);
  // Nobody shows who they are where everybody could listen.
  const credentialsOf = createCredentials(server.startsWith('http:') ? undefined : user, cluster);
  const agents = createAgentKeeper(cluster, where.env);
  const count = (method: string, code: number | string): void => {
    if (requests) requests.cell({ code: String(code), method, host }).count++;
  };

  /** Calls the server with the credentials of now, and says in words what keeps it from answering in time. */
  const call = async <T>(
    request: ApiRequest,
    timeout: AbortSignal,
    exchange: (raw: RawRequest, agent: AgentConnect) => Promise<T>,
  ): Promise<T> => {
    await limit?.take(request.signal);
    const credentials = await credentialsOf();
    const agent = await agents.agentFor(credentials);
    const signal = request.signal ? AbortSignal.any([request.signal, timeout]) : timeout;
    const url = urlOf(server, request);
    const raw = rawRequest(request, { 'user-agent': userAgent, ...credentials.headers });
    return await exchange({ ...raw, url, signal }, agent).catch((error: unknown) => {
      if (request.signal?.aborted) throw error;
      count(request.method, '<error>');
      const reason = timeout.aborted
        ? `no answer from ${server} in ${timeoutMs / 1000} s`
        : networkError(error, serverName === undefined ? url.href : `https://${serverName}`);
      throw new UserError(`Unable to connect to the server: ${reason}`, { cause: error });
    });
  };

  const once = async (request: ApiRequest): Promise<JsonObject> => {
    const answer = await call(request, AbortSignal.timeout(timeoutMs), send);
    count(request.method, answer.code);
    if (request.onWarning) readWarnings(answer.warnings).forEach(request.onWarning);
    return readAnswer(answer, server);
  };

  return {
    server,
    namespace,
    async request(request) {
      let waited = 0;
      for (let retries = 0; ; retries++) {
        try {
          return await once(request);
        } catch (error) {
          const seconds = error instanceof ApiError ? retryAfter(error) : undefined;
          if (seconds === undefined || retries === MAX_RETRIES) throw error;
          waited += seconds;
          if (waited > MAX_WAIT_SECONDS) throw tooBusy(error, seconds);
          await pause(seconds * 1000, undefined, request.signal ? { signal: request.signal } : {});
        }
      }
    },
    async stream(request) {
      const opening = new AbortController();
      const timer = setTimeout(() => opening.abort(), timeoutMs);
      try {
        const response = await call(request, opening.signal, async (raw, agent) => {
          const answered = await open(raw, agent);
          return isSuccess(answered.statusCode) ? answered : await readWhole(answered);
        });
        const isOpen = !('body' in response);
        count(request.method, (isOpen ? response.statusCode : response.code) ?? 0);
        if (isOpen) return response;
        readAnswer(response, server);
        throw new UserError(`${server} answered something else than a stream`);
      } finally {
        clearTimeout(timer);
      }
    },
    close: () => agents.close(),
  };
}

const JSON_TYPE = 'application/json';

function rawRequest(
  { method, body, contentType = JSON_TYPE, accept = JSON_TYPE }: ApiRequest,
  headers: RawRequest['headers'],
): Pick<RawRequest, 'method' | 'headers' | 'body'> {
  const accepting = { accept, ...headers };
  if (body === undefined) return { method, headers: accepting, body };
  const text = JSON.stringify(body);
  const length = String(Buffer.byteLength(text));
  return { method, headers: { ...accepting, 'content-type': contentType, 'content-length': length }, body: text };
}

function isSuccess(code = 0): boolean {
  return code >= 200 && code < 300;
}

/** How long a server that is busy wants to be left alone, in seconds; `undefined` where asking again is of no use. */
function retryAfter({ status }: ApiError): number | undefined {
  return status.code === 429 || status.code === 503 ? status.details?.retryAfterSeconds : undefined;
}

/** What the server refused, and why it is not asked again. */
function tooBusy(error: unknown, seconds: number): unknown {
  if (!(error instanceof ApiError)) return error;
  const message = `${error.message} (it wants to be asked again in ${seconds} s; that is too long to wait)`;
  return new ApiError({ ...error.status, message });
}

/** The server may lie behind a path of its own. */
function urlOf(server: string, { path, query = {} }: ApiRequest): URL {
  const url = new URL(server);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${path}`;
  url.search = new URLSearchParams(query).toString();
  return url;
}

/** True if what has been missed cannot be told: it was forgotten, or cannot be understood. */
export function requiresRelist(error: unknown): boolean {
  if (error instanceof ApiError) return ![429, 503].includes(error.status.code);
  return !(error instanceof UserError);
}

/** The HTTP status code of what the server refused. */
export function httpStatusCode(error: unknown): number | undefined {
  return error instanceof ApiError ? error.status.code : undefined;
}

/** How long the server wants to be left alone, in milliseconds. */
export function retryAfterMs(error: unknown): number {
  return error instanceof ApiError ? (retryAfter(error) ?? 0) * 1000 : 0;
}
