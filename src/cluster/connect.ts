/**
 * A cluster that is reached by its API server. Requests are raw JSON, so that no field is lost that this program does
 * not know; nothing here writes credentials anywhere.
 */
import type { Agent } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../config/user-error.ts';
import { ApiError } from '../kube/status.ts';
import type { JsonObject } from '../kube/types.ts';
import type { Tally } from '../telemetry/hot.ts';
import { networkError } from './network-error.ts';
import { createAgentKeeper } from './agent.ts';
import { readAnswer } from './answer.ts';
import { createCredentials } from './credentials.ts';
import { findCluster, type Whereabouts } from './find-cluster.ts';
import type { TokenBucket } from './token-bucket.ts';
import { readWarnings } from './warning.ts';
import { open, readWhole, send, type RawRequest } from './transport.ts';

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

export interface ConnectOptions extends Whereabouts {
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
  const { cluster, user, namespace } = await findCluster(where);
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
    exchange: (raw: RawRequest, agent: Agent) => Promise<T>,
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
export function retryAfter({ status }: ApiError): number | undefined {
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
