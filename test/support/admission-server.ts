/** Starts the admission server with TLS on a free loopback port. */
import type { AddressInfo } from 'node:net';
import { createParser, startParseWorker } from '../../src/cluster/parser.ts';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import { type AdmissionServer, createServer, type ServerDeps } from '../../src/server/server.ts';
import type { Webhook } from '../../src/server/webhook.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import type { KubeletScope } from '../../src/views/kubelet.ts';
import type { Endpoint } from './https.ts';
import { createRecorder, type Recorder } from './recorder.ts';

export interface TestServer extends Endpoint, AdmissionServer, Recorder {
  readonly store: WritableStore;
  readonly authority: KeyPair;
  stop(): Promise<void>;
}

export const NAMES = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] };

interface ServerOptions extends Partial<Pick<ServerDeps, 'maxConnections' | 'onDenied' | 'parser'>> {
  /** Defaults to an empty store. */
  readonly store?: WritableStore;
  readonly isSynced?: boolean;
  readonly createScope?: (store: WritableStore) => KubeletScope;
  readonly now?: () => number;
}

/** Starts a server with webhooks that read a store. */
export async function startAdmissionServer(
  webhooks: readonly Webhook[],
  {
    store = createStore(),
    isSynced = true,
    createScope,
    now = () => performance.now(),
    ...options
  }: ServerOptions = {},
): Promise<TestServer> {
  if (isSynced) store.markSynced();
  const validity = { now: new Date(), days: 1 };
  const authority = createAuthority(validity);
  const recorder = createRecorder('info');
  const server = createServer({
    webhooks,
    store,
    parser: createParser(startParseWorker),
    kubelet: createScope?.(store),
    ...recorder,
    now,
    ...options,
    tls: createServing(authority, NAMES, validity),
  });
  await server.app.listen({ host: '127.0.0.1', port: 0 });
  return {
    ...server,
    store,
    ...recorder,
    authority,
    ca: authority.cert,
    port: (server.app.server.address() as AddressInfo).port,
    stop: () => server.app.close(),
  };
}
