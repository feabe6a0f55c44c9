import { Agent, request, type RequestOptions } from 'node:https';
import { quote } from '../../../kube/text.ts';
import type { CallWebhook } from './call.ts';
import { networkError } from '../../../cluster/network-error.ts';
import { readReply, type HttpReply } from './reply.ts';
import { targetOf, type ResolveService, type Target } from './target.ts';

export interface HttpsCaller {
  readonly call: CallWebhook;
  /** Ends the connections that are kept. */
  close(): void;
}

/** Calls webhooks over HTTPS, as the API server does: keep-alive, server certificates checked, deadlines told. */
export function createHttpsCaller(resolveService: ResolveService): HttpsCaller {
  const agents = new Map<string, Agent>();
  const agentOf = ({ key }: Target): Agent => {
    const agent = agents.get(key) ?? new Agent({ keepAlive: true });
    agents.set(key, agent);
    return agent;
  };

  return {
    async call({ clientConfig, review, timeoutMs, signal }) {
      const target = targetOf(clientConfig, timeoutMs, resolveService);
      const failed = (cause: string) => ({ ok: false as const, error: `Post ${quote(target.url)}: ${cause}` });
      if ('error' in target) return failed(target.error);
      const timeout = AbortSignal.timeout(timeoutMs);
      const abort = AbortSignal.any([signal, timeout]);
      try {
        const connection = { ...target.connection, agent: agentOf(target) };
        return readReply(await post(connection, target.url, JSON.stringify(review), abort));
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

const HEADERS = {
  accept: 'application/json, */*',
  'content-type': 'application/json',
  'user-agent': 'kube-apiserver-admission',
};

/**
 * Rejects with what Node says of the connection. Nothing is sent twice, not even over a kept connection that is closed
 * just as it is used again: like the API server, it cannot know whether the webhook has seen the review.
 */
function post(connection: RequestOptions, url: string, body: string, signal: AbortSignal): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    // The name of the service, wherever that is reached.
    const [, , host = ''] = url.split(/[/?]/);
    const headers = { ...HEADERS, host, 'content-length': Buffer.byteLength(body) };
    const sent = request(url, { ...connection, method: 'POST', headers, signal }, (response) => {
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
