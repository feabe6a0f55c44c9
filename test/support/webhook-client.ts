/** Calls a webhook as an API server does: HTTP/1.1, connections kept and used again, `?timeout=`, no second try of its own. */
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { isObject } from '../../src/kube/types.ts';
import type { Review } from './reviews.ts';

export interface WebhookClientOptions {
  readonly port: number;
  /** The name that the certificate has to have: that of the service. */
  readonly serverName: string;
  /** In PEM, as the webhook configuration holds it now; `any`: whatever certificate is shown is good. */
  readonly authority: 'any' | (() => string);
  /** As in the webhook configuration. */
  readonly timeoutSeconds?: number;
}

export interface WebhookClient {
  /** Asks at a path as `/psa/validate` and resolves to `allowed`; rejects with an Error for whatever an API server takes for a failed webhook. */
  call(path: string, review: Review): Promise<boolean>;
  /** Connections opened until now. */
  dials(): number;
  close(): void;
}

/** As many as client-go keeps for each host. */
const IDLE_CONNECTIONS = 25;

export function createWebhookClient(options: WebhookClientOptions): WebhookClient {
  const { port, serverName, authority, timeoutSeconds = 5 } = options;
  const agents = new Map<string | undefined, Agent>();
  let dials = 0;

  /** An API server makes a new client for each configuration that it has not seen; connections of others stay with those. */
  const agentFor = (ca: string | undefined): Agent => {
    const known = agents.get(ca);
    if (known) return known;
    const trust = ca === undefined ? { rejectUnauthorized: false } : { ca };
    const made = new Agent({
      keepAlive: true,
      maxFreeSockets: IDLE_CONNECTIONS,
      ALPNProtocols: ['http/1.1'],
      ...trust,
    });
    agents.set(ca, made);
    return made;
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
        sent.once('socket', () => {
          if (!sent.reusedSocket) dials++;
        });
        sent.once('error', (error) =>
          reject(new Error(`${error.message} (connection used ${sent.reusedSocket ? 'again' : 'first'})`)),
        );
        sent.end(body);
      });
      return readVerdict(response.statusCode ?? 0, await readText(response), review.request.uid);
    },
    dials: () => dials,
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

function readVerdict(status: number, text: string, uid: string): boolean {
  if (status !== 200) throw new Error(`HTTP status ${status}: ${text.trim()}`);
  const review: unknown = JSON.parse(text);
  const response = isObject(review) ? review['response'] : undefined;
  if (!isObject(response) || response['uid'] !== uid || typeof response['allowed'] !== 'boolean') {
    throw new Error(`no answer to the review: ${text.slice(0, 200)}`);
  }
  return response['allowed'];
}
