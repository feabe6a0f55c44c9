/**
 * Calls webhooks as an API server does, over HTTP/1.1 with keep-alive connections and `?timeout=`, and without retries.
 */
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { isObject } from '../../src/kube/types.ts';
import type { Review } from './reviews.ts';

export interface WebhookClientOptions {
  readonly port: number;
  /** The expected name in the certificate, which is the DNS name of the Service. */
  readonly serverName: string;
  /** Returns the current caBundle in PEM, or `any` to accept every certificate. */
  readonly authority: 'any' | (() => string);
  readonly timeoutSeconds?: number;
}

export interface WebhookClient {
  /** Sends a review and resolves to `allowed`. Rejects if an API server would treat the call as failed. */
  call(path: string, review: Review): Promise<boolean>;
  close(): void;
}

/** Maximum number of idle connections that client-go keeps for each host. */
const IDLE_CONNECTIONS = 25;

export function createWebhookClient(options: WebhookClientOptions): WebhookClient {
  const { port, serverName, authority, timeoutSeconds = 5 } = options;
  const agents = new Map<string | undefined, Agent>();

  /**
   * API servers create a client for each caBundle. Existing connections keep the client with which they were opened.
   */
  const agentFor = (ca: string | undefined): Agent => {
    const existing = agents.get(ca);
    if (existing) return existing;
    const trust = ca === undefined ? { rejectUnauthorized: false } : { ca };
    const created = new Agent({
      keepAlive: true,
      maxFreeSockets: IDLE_CONNECTIONS,
      ALPNProtocols: ['http/1.1'],
      ...trust,
    });
    agents.set(ca, created);
    return created;
  };

  return {
    async call(path, review) {
      const ca = authority === 'any' ? undefined : authority();
      const body = JSON.stringify(review);
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        const sent = request(
          {
            host: '127.0.0.1',
            port,
            servername: serverName,
            path: `${path}?timeout=${timeoutSeconds}s`,
            method: 'POST',
            headers: {
              host: `${serverName}:443`,
              'content-type': 'application/json',
              'content-length': Buffer.byteLength(body),
              'user-agent': 'kube-apiserver-admission',
            },
            agent: agentFor(ca),
            signal: AbortSignal.timeout(timeoutSeconds * 1000),
          },
          resolve,
        );
        sent.once('error', (error) =>
          reject(new Error(`${error.message} (${sent.reusedSocket ? 'reused' : 'new'} connection)`)),
        );
        sent.end(body);
      });
      return readAllowed(response.statusCode ?? 0, await readText(response), review.request.uid);
    },
    close() {
      for (const agent of agents.values()) agent.destroy();
    },
  };
}

async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function readAllowed(status: number, text: string, uid: string): boolean {
  if (status !== 200) throw new Error(`HTTP status ${status}: ${text.trim()}`);
  const review: unknown = JSON.parse(text);
  const response = isObject(review) ? review['response'] : undefined;
  if (!isObject(response) || response['uid'] !== uid || typeof response['allowed'] !== 'boolean') {
    throw new Error(`no valid response: ${text.slice(0, 200)}`);
  }
  return response['allowed'];
}
