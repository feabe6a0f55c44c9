import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import type { WebhookExchange } from './transcripts.ts';

/** A received call. */
export interface ReceivedCall {
  readonly url: string;
  readonly review: { readonly request: { readonly uid: string } };
}

/** A webhook that replays recorded responses. */
export interface RecordedWebhook {
  readonly port: number;
  readonly caBundle: string;
  /** Replaces the recorded responses and clears the received calls. */
  play(calls: readonly WebhookExchange[]): void;
  received(): readonly ReceivedCall[];
  close(): Promise<void>;
}

export async function startRecordedWebhook(): Promise<RecordedWebhook> {
  const validity = { now: new Date(), days: 1 };
  const authority = createAuthority(validity);
  const serving = createServing(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }, validity);
  let waiting: WebhookExchange[] = [];
  let received: ReceivedCall[] = [];
  const take = (url: string): WebhookExchange | undefined => {
    const index = waiting.findIndex((call) => call.url === url);
    return index < 0 ? undefined : waiting.splice(index, 1)[0];
  };

  const server = createServer(serving, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const url = request.url ?? '';
      const review = JSON.parse(Buffer.concat(chunks).toString()) as ReceivedCall['review'];
      received.push({ url, review });
      const call = take(url);
      if (!call?.answer) {
        // Without a recorded response the connection is reset, or the call times out.
        if (!url.startsWith('/slow')) request.socket.destroy();
        return;
      }
      const { status, body } = call.answer;
      const text = typeof body === 'string' ? body : JSON.stringify(withUid(call, review.request.uid));
      response.writeHead(status, { 'content-type': status === 200 ? 'application/json' : 'text/plain' });
      response.end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    caBundle: Buffer.from(authority.cert).toString('base64'),
    play(calls) {
      waiting = [...calls];
      received = [];
    },
    received: () => received,
    close() {
      server.closeAllConnections();
      return new Promise((resolve, reject) => server.close((error) => (error ? reject(error) : resolve())));
    },
  };
}

/** Returns the recorded response with the uid of the current review in place of the recorded uid. */
function withUid(call: WebhookExchange, uid: string): unknown {
  const recordedUid = call.request?.uid ?? (call.body as { request: { uid: string } }).request.uid;
  const answer = call.answer?.body as { response?: { uid?: string } };
  if (answer.response?.uid !== recordedUid) return answer;
  return { ...answer, response: { ...answer.response, uid } };
}
