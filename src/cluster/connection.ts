/**
 * The connection to an API server. Requests and responses are raw JSON, because client-node's typed clients drop
 * unknown fields, and a decision about an incomplete object would fail open.
 */
import { X509Certificate } from 'node:crypto';
import { Agent as HttpAgent, type IncomingMessage, type OutgoingHttpHeaders, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, type AgentOptions, request as httpsRequest, type RequestOptions } from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';
import { checkServerIdentity, createSecureContext, getCACertificates } from 'node:tls';
import { defined } from '../kube/defined.ts';
import { LIMITS } from '../kube/limits.ts';
import { ApiError, ConnectionError, createStatus, type Status } from '../kube/status.ts';
import { withoutTrailingSlashes } from '../kube/text.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import type { Tally } from '../telemetry/counters.ts';
import { createBytes } from './bytes.ts';
import { type Clock, systemClock } from './clock.ts';
import { type ClusterSource, type ClusterTarget, type Credentials, resolveCluster } from './cluster-source.ts';
import { parseJson, TooLargeError } from './json.ts';
import { networkError } from './network-error.ts';
import { isWithoutProxy, withoutBrackets } from './no-proxy.ts';

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path of the request, such as `/api/v1/pods`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Content type of the body. Defaults to `application/json`. */
  readonly contentType?: string;
  /** Accepted content types of the response. Defaults to `application/json`. */
  readonly accept?: string;
  /** Multiplier for the connection's time limit. */
  readonly timeoutFactor?: number;
  readonly signal?: AbortSignal | undefined;
  /**
   * Address of a specific API server behind the connection's URL, such as `10.0.0.1:6443`. Its certificate must be
   * valid for the URL's host. The request rejects with a ConnectionError if the connection does not verify
   * certificates.
   */
  readonly address?: string | undefined;
}

export interface Connection {
  /** URL of the API server, such as `https://127.0.0.1:6443`. */
  readonly server: string;
  /** Namespace of objects that do not set one. */
  readonly namespace: string;
  /**
   * Sends a request and resolves to the object in the response. Retries if the response has a `Retry-After` header.
   * Rejects with an ApiError for an error status, and with a ConnectionError if the server cannot be reached.
   */
  request(request: ApiRequest): Promise<JsonObject>;
  /**
   * Sends a request like `request`, but resolves to the result of `collect`, which reads the bytes of a successful
   * response.
   */
  read<T>(request: ApiRequest, collect: (body: AsyncIterable<Buffer>) => Promise<T>): Promise<T>;
  /**
   * Sends a request and yields the bytes of the response as they arrive, until the connection breaks or the signal is
   * aborted. Rejects with the same errors as `request`, but never retries.
   */
  stream(request: ApiRequest): Promise<AsyncIterable<Buffer>>;
  close(): void;
}

export interface ConnectOptions extends ClusterSource {
  readonly userAgent: string;
  /** Time limit for one request and its response. */
  readonly timeoutMs?: number;
  /** Clock for the time limit. */
  readonly clock?: Clock;
  /** Counts responses by status code. Failed connections count as `<error>`. */
  readonly requests?: Tally<'code' | 'method' | 'host'>;
}

const TIMEOUT_MS = 30_000;
/** Maximum number of retries, as in client-go. */
const MAX_RETRIES = 10;
/** Maximum total delay between the retries of a request. */
const MAX_WAIT_SECONDS = 60;

/**
 * Creates a connection to a cluster, which is opened by the first request.
 * @throws {UserError} if the source does not identify a cluster
 */
export async function connect(options: ConnectOptions): Promise<Connection> {
  const { userAgent, timeoutMs = TIMEOUT_MS, clock = systemClock, requests, ...source } = options;
  const target = await resolveCluster(source);
  const { server, namespace } = target;
  const { host } = new URL(server);
  const agents = createAgentCache(target, source.env);
  const count = (method: string, code: number | string): void => {
    if (requests) requests.cell({ code: String(code), method, host }).count++;
  };

  /** Sends a request and passes the response to a function. */
  const exchange = async <T>(request: ApiRequest, timeout: Timeout, handle: Handler<T>): Promise<T> => {
    const credentials = await target.credentials();
    const signal = request.signal ? AbortSignal.any([request.signal, timeout.signal]) : timeout.signal;
    const raw = rawRequest(request, target, { 'user-agent': userAgent, ...credentials.headers });
    const agent = agents.get(credentials);
    try {
      const response = await open({ ...raw, signal, agent });
      const { statusCode: code = 0 } = response;
      const error = code >= 200 && code < 300 ? undefined : responseError(response, await readBytes(response));
      const result = error ?? (await handle(response));
      count(request.method, code);
      if (result instanceof ApiError) throw result;
      return result;
    } catch (error) {
      if (request.signal?.aborted || error instanceof TooLargeError || error instanceof ApiError) throw error;
      count(request.method, '<error>');
      throw unreachable(error, target, request, timeout);
    }
  };
  const exchangeInTime = async <T>(request: ApiRequest, handle: Handler<T>): Promise<T> => {
    const timeout = startTimeout(clock, timeoutMs * (request.timeoutFactor ?? 1));
    return await exchange(request, timeout, handle).finally(timeout.clear);
  };
  const read: Connection['read'] = (request, collect) => withRetries(request, (once) => exchangeInTime(once, collect));

  return {
    server,
    namespace,
    read,
    async request(request) {
      const value = parseUnlessInvalid(await read(request, readBytes));
      if (isObject(value)) return value;
      throw new ConnectionError(`the response of ${server} is not JSON: is it a Kubernetes API server?`);
    },
    stream: (request) => exchangeInTime(request, (response) => response),
    close: () => agents.close(),
  };
}

/**
 * Processes a successful response. The time limit does not apply to bytes that are read after the returned promise
 * resolves.
 */
type Handler<T> = (response: IncomingMessage) => T | Promise<T>;

function unreachable(
  error: unknown,
  { server, serverName }: ClusterTarget,
  { address = server }: ApiRequest,
  timeout: Timeout,
): ConnectionError {
  const timedOut = timeout.signal.aborted;
  const reason = timedOut
    ? `no response from ${address} within ${timeout.ms / 1000} s`
    : networkError(error, serverName === undefined ? server : `https://${serverName}`);
  return new ConnectionError(`Unable to connect to the server: ${reason}`, { cause: error, timedOut });
}

/** Repeats a request while responses ask for a retry and the limits permit it. */
async function withRetries<T>(request: ApiRequest, send: (request: ApiRequest) => Promise<T>): Promise<T> {
  let waitedSeconds = 0;
  for (let retries = 0; ; retries++) {
    try {
      return await send(request);
    } catch (error) {
      const seconds = retryAfterSeconds(error);
      if (seconds === undefined || retries === MAX_RETRIES) throw error;
      waitedSeconds += seconds;
      if (waitedSeconds > MAX_WAIT_SECONDS) throw tooBusy(error, seconds);
      await pause(seconds * 1000, undefined, request.signal ? { signal: request.signal } : {});
    }
  }
}

interface Timeout {
  readonly ms: number;
  readonly signal: AbortSignal;
  clear(): void;
}

/** Starts a timeout, which aborts the signal after the given time unless it is cleared. */
function startTimeout(clock: Clock, ms: number): Timeout {
  const controller = new AbortController();
  return { ms, signal: controller.signal, clear: clock.after(ms, () => controller.abort()) };
}

function requestUrl(server: string, { path, query = {} }: ApiRequest): URL {
  const url = new URL(server);
  // Appends the request path, because the server URL may include a path.
  url.pathname = `${withoutTrailingSlashes(url.pathname)}${path}`;
  url.search = new URLSearchParams(query).toString();
  return url;
}

/** Connects to another address, but requires the certificate for the URL's host. */
function socketOptions({ server, serverName, skipVerification }: ClusterTarget, address: string): SocketOptions {
  const { protocol, hostname } = new URL(server);
  if (protocol === 'http:' || skipVerification) {
    throw new ConnectionError(
      `no request was sent to ${address}, because the connection to ${server} does not verify certificates`,
    );
  }
  const { hostname: host, port } = new URL(`https://${address}`);
  const name = serverName ?? withoutBrackets(hostname);
  return {
    hostname: withoutBrackets(host),
    port: port || '443',
    checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
  };
}

const JSON_TYPE = 'application/json';

function rawRequest(
  request: ApiRequest,
  target: ClusterTarget,
  credentials: OutgoingHttpHeaders,
): Omit<RawRequest, 'signal' | 'agent'> {
  const { method, body: value, contentType = JSON_TYPE, accept = JSON_TYPE, address } = request;
  const url = requestUrl(target.server, request);
  const body = value === undefined ? undefined : JSON.stringify(value);
  const sent =
    body === undefined ? {} : { 'content-type': contentType, 'content-length': String(Buffer.byteLength(body)) };
  return {
    method,
    url,
    // The `Host` header is set, because Node derives the TLS server name from it.
    headers: { accept, host: url.host, ...credentials, ...sent },
    body,
    socket: address === undefined ? {} : socketOptions(target, address),
  };
}

/** Returns the HTTP status code of an ApiError, or `undefined` for other errors. */
export function httpStatusCode(error: unknown): number | undefined {
  return error instanceof ApiError ? error.status.code : undefined;
}

/** Returns the delay that the response requests before a retry, or `undefined` if the request must not be retried. */
export function retryAfterSeconds(error: unknown): number | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const { code, details } = error.status;
  const seconds: unknown = details?.retryAfterSeconds;
  const isDelay = (code === 429 || code === 503) && Number.isSafeInteger(seconds) && Number(seconds) >= 0;
  return isDelay ? Number(seconds) : undefined;
}

function tooBusy(error: unknown, seconds: number): unknown {
  if (!(error instanceof ApiError)) return error;
  const message = `${error.message} (Retry-After is ${seconds} s, which exceeds the limit)`;
  return new ApiError({ ...error.status, message });
}

/** Creates a cache that reuses an agent and its connections while the CA and the client certificate remain the same. */
function createAgentCache(target: ClusterTarget, env: ClusterSource['env']) {
  const base: AgentOptions = { keepAlive: true, proxyEnv: proxyEnvironment(target, env) };
  const isPlain = target.server.startsWith('http:');
  let current: { readonly credentials: Credentials; readonly agent: HttpAgent } | undefined;
  const isCurrent = ({ ca, cert, key }: Credentials): boolean =>
    current?.credentials.ca === ca && current?.credentials.cert === cert && current?.credentials.key === key;
  return {
    /**
     * Returns the agent for the credentials.
     * @throws {UserError} for certificates or keys that TLS cannot use
     */
    get(credentials: Credentials): HttpAgent {
      if (current && isCurrent(credentials)) return current.agent;
      if (current) retire(current.agent);
      const agent = isPlain ? new HttpAgent(base) : new HttpsAgent({ ...base, ...tlsOptions(target, credentials) });
      current = { credentials, agent };
      return agent;
    },
    close: () => current?.agent.destroy(),
  };
}

/** Closes idle connections immediately, and busy connections after their responses. */
function retire(agent: HttpAgent): void {
  agent.maxFreeSockets = 0;
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/;

/**
 * Returns the kubeconfig's proxy, or the proxies in the environment, which are not used for loopback addresses and for
 * servers in `NO_PROXY`. Omits this variable, because Node interprets it differently.
 */
function proxyEnvironment({ proxyUrl, server }: ClusterTarget, env: ClusterSource['env']): ClusterSource['env'] {
  if (proxyUrl !== undefined) return { HTTPS_PROXY: proxyUrl, HTTP_PROXY: proxyUrl };
  const isDirect =
    LOOPBACK.test(new URL(server).hostname) || isWithoutProxy(server, env['NO_PROXY'] || env['no_proxy'] || '');
  return isDirect ? {} : { ...env, NO_PROXY: undefined, no_proxy: undefined };
}

function tlsOptions({ server, serverName, skipVerification }: ClusterTarget, credentials: Credentials): AgentOptions {
  const { ca = systemAuthorities(), cert, key } = credentials;
  const pems = {
    ...defined({ ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
  try {
    // Checks the CA, because `createSecureContext` silently ignores a CA that is not a certificate.
    if (credentials.ca !== undefined) new X509Certificate(credentials.ca);
    createSecureContext(pems);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UserError(`the certificates for ${server} cannot be used: ${reason}`, { cause: error });
  }
  return {
    ...pems,
    rejectUnauthorized: !skipVerification,
    ...defined({ servername: serverName }),
  };
}

/** Returns the system's CAs. If there are none, Node uses its bundled CAs. */
function systemAuthorities(): string[] | undefined {
  const authorities = getCACertificates('system');
  return authorities.length === 0 ? undefined : authorities;
}

interface RawRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | undefined;
  readonly signal: AbortSignal;
  readonly agent: HttpAgent;
  /** Overrides for the URL's host and port, and for the certificate check. */
  readonly socket: SocketOptions;
}

type SocketOptions = Pick<RequestOptions, 'hostname' | 'port' | 'checkServerIdentity'>;

/**
 * Sends a request. Resolves when the response headers arrive. Rejects with Node's error. If the server closes a
 * kept-alive connection just as it is reused, repeats a GET request, which is safe. This cannot happen on a new
 * connection.
 */
function open(request: RawRequest): Promise<IncomingMessage> {
  const { method, url, headers, body, signal, agent, socket } = request;
  const send = url.protocol === 'http:' ? httpRequest : httpsRequest;
  return new Promise((resolve, reject) => {
    const sent = send(url, { ...socket, method, headers, agent, signal }, resolve);
    sent.on('error', (error: NodeJS.ErrnoException) => {
      const isStale = sent.reusedSocket && error.code === 'ECONNRESET' && method === 'GET' && !signal.aborted;
      if (isStale) resolve(open(request));
      else reject(error);
    });
    sent.end(body);
  });
}

async function readBytes(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const bytes = createBytes(LIMITS.responseBytes);
  for await (const chunk of body) {
    if (bytes.length() + chunk.length > LIMITS.responseBytes)
      throw new TooLargeError('responseBytes', `the response has more than ${LIMITS.responseBytes} bytes`);
    bytes.add(chunk);
  }
  return bytes.take();
}

function responseError({ statusCode: code = 0, headers }: IncomingMessage, body: Buffer): ApiError {
  const status = errorStatus(code, parseUnlessInvalid(body), body.toString('utf8'));
  const { 'retry-after': retryAfter } = headers;
  const retryAfterSeconds = /^\d{1,5}$/.test(retryAfter ?? '') ? Number(retryAfter) : undefined;
  const details = retryAfterSeconds === undefined ? {} : { details: { ...status.details, retryAfterSeconds } };
  return new ApiError({ ...status, ...details });
}

function parseUnlessInvalid(bytes: Buffer): unknown {
  try {
    return parseJson(bytes);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Maximum length of a quoted response in an error message, if the response is not a Status. */
const MAX_TEXT = 200;

const REASONS: ReadonlyMap<number, string> = new Map([
  [401, 'Unauthorized'],
  [403, 'Forbidden'],
  [404, 'NotFound'],
  [410, 'Gone'],
  [429, 'TooManyRequests'],
  [500, 'InternalError'],
  [503, 'ServiceUnavailable'],
]);

function errorStatus(code: number, value: unknown, body: string): Status {
  if (isObject(value) && value['kind'] === 'Status' && typeof value['message'] === 'string') {
    return { ...(value as unknown as Status), code };
  }
  const text = body.trim().replaceAll(/\s+/g, ' ').slice(0, MAX_TEXT);
  return createStatus(code, REASONS.get(code) ?? 'Unknown', text === '' ? `HTTP status ${code}` : text);
}
