/**
 * A TCP load balancer that behaves like a Service. It forwards new connections to ready servers, and keeps connections
 * to servers that become unready.
 */
import { request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** A server behind the address. */
export interface Backend {
  readonly port: number;
  /** URL for probes, such as `http://127.0.0.1:8081`. */
  readonly probes: string;
  /** True if the server receives connections even if it is not ready. */
  readonly isAlwaysReady?: boolean;
}

export interface Balancer {
  readonly port: number;
  /** Replaces the backends. */
  use(backends: readonly Backend[]): void;
  /** Returns the backends that receive new connections. */
  ready(): readonly Backend[];
  waitForReady(count: number): Promise<void>;
  stop(): Promise<void>;
}

export interface BalancerOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** Defaults to a free port. */
  readonly port?: number;
  /** Period of the readiness probe. */
  readonly periodMs?: number;
}

/** Starts a load balancer. Backends get connections once their first probe succeeds. */
export async function startBalancer(
  replicas: readonly Backend[] = [],
  { host = '127.0.0.1', port = 0, periodMs = 200 }: BalancerOptions = {},
): Promise<Balancer> {
  let backends: readonly Backend[] = [];
  let ready: readonly Backend[] = [];
  let turn = 0;
  const open = new Set<Socket>();
  const track = (socket: Socket): void => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  };

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    track(client);
    const backend = ready[turn++ % Math.max(1, ready.length)];
    client.on('error', () => client.destroy());
    // Like a Service, reject connections if there are no endpoints.
    if (!backend) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect({ host: '127.0.0.1', port: backend.port, allowHalfOpen: true, noDelay: true });
    track(upstream);
    upstream.on('error', () => client.resetAndDestroy());
    client.once('close', () => upstream.destroy());
    upstream.once('close', (failed) => {
      if (failed) client.resetAndDestroy();
      else client.end();
    });
    client.pipe(upstream);
    upstream.pipe(client);
  });

  const poll = async (backend: Backend): Promise<void> => {
    while (backends.includes(backend)) {
      const isUp = await isReady(backend);
      const others = ready.filter((other) => other !== backend);
      if (backends.includes(backend)) ready = isUp ? [...others, backend] : others;
      await pause(periodMs);
    }
  };
  const polling = new Set<Promise<void>>();
  const use = (next: readonly Backend[]): void => {
    const added = next.filter((backend) => !backends.includes(backend));
    backends = next;
    // A removed backend receives no connections. An added backend becomes ready once its probe succeeds.
    ready = ready.filter((backend) => next.includes(backend));
    for (const backend of added) {
      const polled = poll(backend).finally(() => polling.delete(polled));
      polling.add(polled);
    }
  };
  use(replicas);

  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    use,
    ready: () => ready,
    async waitForReady(count) {
      for (let tries = 0; ready.length !== count; tries++) {
        if (tries === 1200) throw new Error(`${ready.length} of ${backends.length} are ready, not ${count}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    async stop() {
      use([]);
      await Promise.all(polling);
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Probe timeout in the manifests. */
const TIMEOUT_MS = 5000;

function isReady({ probes, isAlwaysReady = false }: Backend): Promise<boolean> {
  if (isAlwaysReady) return Promise.resolve(true);
  return new Promise((resolve) => {
    const probe = request(`${probes}/readyz`, { agent: false, timeout: TIMEOUT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    probe.once('timeout', () => probe.destroy());
    probe.once('error', () => resolve(false));
    probe.end();
  });
}
