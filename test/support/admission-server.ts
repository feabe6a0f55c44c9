/** The admission server over TLS on a free port of loopback. */
import type { AddressInfo } from 'node:net';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createServer, type AdmissionServer } from '../../src/server/server.ts';
import type { Webhook } from '../../src/server/webhook.ts';
import type { Endpoint } from './https.ts';

export interface TestServer extends Endpoint, AdmissionServer {
  readonly store: WritableStore;
  readonly metrics: Metrics;
  readonly authority: KeyPair;
  /** The parsed log lines. */
  readonly log: Record<string, unknown>[];
  stop(): Promise<void>;
}

export const NAMES = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] };

/** Starts a server with webhooks over an empty synced store. */
export async function startAdmissionServer(webhooks: readonly Webhook[]): Promise<TestServer> {
  const store = createStore();
  store.markSynced();
  const metrics = createMetrics({ version: '0.0.0' });
  const validity = { now: new Date(), days: 1 };
  const authority = createAuthority(validity);
  const log: Record<string, unknown>[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  const server = createServer({
    webhooks,
    store,
    metrics,
    logger: pino({ base: null }, sink),
    now: () => performance.now(),
    tls: createServing(authority, NAMES, validity),
  });
  await server.app.listen({ host: '127.0.0.1', port: 0 });
  return {
    ...server,
    store,
    metrics,
    authority,
    log,
    ca: authority.cert,
    port: (server.app.server.address() as AddressInfo).port,
    stop: () => server.app.close(),
  };
}
