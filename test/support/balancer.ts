/**
 * One address in front of several servers, as a Service is: a new connection goes to one of those that are ready, and
 * stays with it, whatever becomes of its readiness.
 */
import { request } from 'node:http';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** A server behind the address. */
export interface Backend {
  readonly port: number;
  /** Where its `/readyz` is, as `http://127.0.0.1:8081`. */
  readonly probes: string;
}

export interface Balancer {
  readonly port: number;
  /** From now on these are asked whether they are ready. */
  use(backends: readonly Backend[]): void;
  /** Those that get new connections. */
  ready(): readonly Backend[];
  /** Resolves when so many are ready. */
  until(count: number): Promise<void>;
  stop(): Promise<void>;
}

export interface BalancerOptions {
  /** Absent: a free one. */
  readonly port?: number;
  /** How often each is asked whether it is ready. */
  readonly periodMs?: number;
}

/** Starts a balancer; nobody is ready before having said so. */
export async function startBalancer(
  replicas: readonly Backend[] = [],
  { port = 0, periodMs = 200 }: BalancerOptions = {},
): Promise<Balancer> {
  let backends: readonly Backend[] = [];
  let ready: readonly Backend[] = [];
  let next = 0;
  const open = new Set<Socket>();
  const keep = (socket: Socket): void => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  };

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    keep(client);
    const backend = ready[next++ % Math.max(1, ready.length)];
    client.on('error', () => client.destroy());
    // No endpoint: what is left of a Service refuses.
    if (!backend) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect({ host: '127.0.0.1', port: backend.port, allowHalfOpen: true, noDelay: true });
    keep(upstream);
    upstream.on('error', () => client.resetAndDestroy());
    client.once('close', () => upstream.destroy());
    upstream.once('close', (failed) => {
      if (failed) client.resetAndDestroy();
      else client.end();
    });
    client.pipe(upstream);
    upstream.pipe(client);
  });

  const follow = async (backend: Backend): Promise<void> => {
    while (backends.includes(backend)) {
      const isNow = await isReady(backend);
      const others = ready.filter((one) => one !== backend);
      if (backends.includes(backend)) ready = isNow ? [...others, backend] : others;
      await pause(periodMs);
    }
  };
  const following = new Set<Promise<void>>();
  const use = (these: readonly Backend[]): void => {
    const fresh = these.filter((backend) => !backends.includes(backend));
    backends = these;
    // Who is gone gets nothing more; who is new has to say that it is ready.
    ready = ready.filter((backend) => these.includes(backend));
    for (const backend of fresh) {
      const followed = follow(backend).finally(() => following.delete(followed));
      following.add(followed);
    }
  };
  use(replicas);

  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    use,
    ready: () => ready,
    async until(count) {
      for (let tries = 0; ready.length !== count; tries++) {
        if (tries === 1200) throw new Error(`${ready.length} of ${backends.length} are ready, not ${count}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    async stop() {
      use([]);
      await Promise.all(following);
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** As the manifests have it: a probe that is not answered by then has failed. */
const TIMEOUT_MS = 5000;

function isReady({ probes }: Backend): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request(`${probes}/readyz`, { agent: false, timeout: TIMEOUT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    asked.once('timeout', () => asked.destroy());
    asked.once('error', () => resolve(false));
    asked.end();
  });
}
