import { Agent, request, type RequestOptions } from 'node:https';
import { networkError } from '../../cluster/network-error.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { at, numberAt, nestedObject, textAt } from '../types.ts';

export interface WebhookCall {
  readonly clientConfig: JsonObject;
  readonly review: JsonObject;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The AdmissionReview that a webhook returned, or the error in the wording of the API server. */
export type WebhookReply =
  | { readonly ok: true; readonly review: JsonObject }
  | { readonly ok: false; readonly error: string };

/** Sends a review to a webhook. Never rejects. */
export type CallWebhook = (call: WebhookCall) => Promise<WebhookReply>;

/** Returns the address of a Service, or `undefined` if the Service does not exist. */
type ResolveService = (service: {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
}) => { readonly host: string; readonly port: number } | undefined;

export interface HttpsCaller {
  readonly call: CallWebhook;
  /** Closes idle connections. */
  close(): void;
}

/** Creates a client that calls webhooks over HTTPS. It reuses connections and verifies server certificates. */
export function createHttpsCaller(resolveService: ResolveService): HttpsCaller {
  const agents = new Map<string, Agent>();
  return {
    async call({ clientConfig, review, timeoutMs, signal }) {
      const target = resolveTarget(clientConfig, timeoutMs, resolveService);
      const failed = (cause: string) => ({ ok: false as const, error: `Post ${quote(target.url)}: ${cause}` });
      if ('error' in target) return failed(target.error);
      const agent = agents.get(target.key) ?? new Agent({ keepAlive: true });
      agents.set(target.key, agent);
      const timeout = AbortSignal.timeout(timeoutMs);
      try {
        const options = { ...target.connection, agent, signal: AbortSignal.any([signal, timeout]) };
        return parseReply(await post(target.url, options, JSON.stringify(review)));
      } catch (error) {
        if (timeout.aborted) return failed('context deadline exceeded');
        return failed(signal.aborted ? 'context canceled' : networkError(error, target.url));
      }
    },
    close() {
      for (const agent of agents.values()) agent.destroy();
      agents.clear();
    },
  };
}

interface Target {
  /** URL for messages, including the timeout. */
  readonly url: string;
  readonly connection: RequestOptions;
  /** Calls that have the same key share connections. */
  readonly key: string;
}

function resolveTarget(
  clientConfig: JsonObject,
  timeoutMs: number,
  resolveService: ResolveService,
): Target | { readonly url: string; readonly error: string } {
  const timeout = `timeout=${Math.ceil(timeoutMs / 1000)}s`;
  const bundle = textAt(clientConfig, 'caBundle');
  const trust = bundle === '' ? {} : { ca: Buffer.from(bundle, 'base64').toString('utf8') };
  const service = nestedObject(clientConfig, 'service');
  if (at(clientConfig, 'service') === undefined) {
    const base = textAt(clientConfig, 'url');
    const url = `${base}${base.includes('?') ? '&' : '?'}${timeout}`;
    return { url, connection: trust, key: `${URL.parse(base)?.origin ?? base} ${bundle}` };
  }
  const [namespace, name] = [textAt(service, 'namespace'), textAt(service, 'name')];
  const servername = `${name}.${namespace}.svc`;
  const port = numberAt(service, 'port') || 443;
  const url = `https://${servername}:${port}${textAt(service, 'path').replace(/^\/*/, '/')}?${timeout}`;
  const address = resolveService({ namespace, name, port });
  if (!address) return { url, error: `service ${quote(name)} not found` };
  const connection = { ...trust, hostname: address.host, port: address.port, servername };
  return { url, connection, key: `${servername} ${address.host}:${address.port} ${bundle}` };
}

interface HttpReply {
  readonly code: number;
  readonly contentType: string;
  readonly body: string;
}

const HEADERS = {
  accept: 'application/json, */*',
  'content-type': 'application/json',
  'user-agent': 'kube-apiserver-admission',
};

/** Sends a request once. Like the API server, it does not retry, because the webhook may have received the review. */
function post(url: string, options: RequestOptions, body: string): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    // The Host header contains the name of the Service instead of its address.
    const [, , host = ''] = url.split(/[/?]/);
    const headers = { ...HEADERS, host, 'content-length': Buffer.byteLength(body) };
    const sent = request(url, { ...options, method: 'POST', headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const contentType = response.headers['content-type'] ?? '';
        resolve({ code: response.statusCode ?? 0, contentType, body: Buffer.concat(chunks).toString('utf8') });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

export const REVIEW_VERSION = 'admission.k8s.io/v1';

/**
 * Parses the AdmissionReview in an HTTP response.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/rest/request.go
 */
function parseReply(reply: HttpReply): WebhookReply {
  const failed = (error: string): WebhookReply => ({ ok: false, error });
  const { code, contentType, body } = reply;
  if (code < 200 || code > 206) return failed(statusText(reply));
  if (body === '') return failed(`0-length response with status code: ${code} and content type: ${contentType}`);
  let review: unknown;
  try {
    review = JSON.parse(body);
  } catch (error) {
    return failed(`couldn't get version/kind; json parse error: ${String(error)}`);
  }
  if (!isObject(review))
    return failed("couldn't get version/kind; json parse error: json: cannot unmarshal the response");
  const kind = textAt(review, 'kind') || 'AdmissionReview';
  const version = textAt(review, 'apiVersion') || REVIEW_VERSION;
  if (kind === 'AdmissionReview' && version === REVIEW_VERSION) return { ok: true, review };
  const scheme = quote('k8s.io/apiserver/pkg/util/webhook/client.go:71');
  return failed(`no kind ${quote(kind)} is registered for version ${quote(version)} in scheme ${scheme}`);
}

/** client-go's error texts by status code. */
const STATUS_TEXTS: Readonly<Record<number, string>> = {
  400: 'the server rejected our request for an unknown reason',
  404: 'the server could not find the requested resource',
  429: 'the server has received too many requests and has asked us to try again later',
  503: 'the server is currently unable to handle the request',
  504: 'the server was unable to return a response in the time allotted, but may still be processing the request',
};

function statusText({ code, contentType, body }: HttpReply): string {
  const isText = contentType === '' || contentType.startsWith('text/');
  const message = isText ? body.slice(0, 2048).trim() : 'unknown';
  if (code === 403 || code === 415) return message;
  const text = STATUS_TEXTS[code];
  if (text !== undefined) return text;
  return code >= 500
    ? `an error on the server (${quote(message)}) has prevented the request from succeeding`
    : `the server responded with the status code ${code} but did not return more information`;
}
