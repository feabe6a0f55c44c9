import { setTimeout as pause } from 'node:timers/promises';
import type { JsonObject } from '../../../src/kube/types.ts';
import { startBalancer, type Balancer } from '../balancer.ts';
import { apply, localObjects, replicaArguments } from './installation.ts';
import { freePorts } from './process.ts';
import { startReplica, type Replica, type ReplicaOptions } from './replica.ts';
import type { ControlPlane } from './index.ts';

/** An installation: its objects in a control plane, and replicas behind one address, as a Service would have it. */
export interface System {
  readonly plane: ControlPlane;
  /** Where API servers send reviews; nobody listens there before the first replica. */
  readonly port: number;
  /** What is, or is to be, installed. */
  readonly objects: readonly JsonObject[];
  readonly replicas: readonly Replica[];
  /** Applies all objects; returns the paths of those that changed. */
  install(): Promise<readonly string[]>;
  /** Starts so many replicas beside those that run; they may not be ready yet. */
  start(more: number, options?: ReplicaOptions): Promise<readonly Replica[]>;
  /** The same, and waits until reviews are sent to all. */
  scale(more: number, options?: ReplicaOptions): Promise<readonly Replica[]>;
  /** Ends a replica as a rollout does: it gets no more reviews before it ends. */
  retire(replica: Replica): Promise<void>;
  /** Waits until reviews are sent to so many replicas. */
  settled(count: number): Promise<void>;
  stop(): Promise<void>;
}

/** What shortens the waits of a test, not what happens. */
const QUICK = [
  '--leader-elect-lease-duration=3s',
  '--leader-elect-renew-deadline=2s',
  '--leader-elect-retry-period=500ms',
  '--shutdown-delay-duration=1s',
];

export interface SystemOptions {
  /** Of reviews; absent: a free one. */
  readonly port?: number;
  /** For each replica, behind those of the Deployment. */
  readonly args?: readonly string[];
  /** From the port of reviews; absent: the manifests of this version for an API server without a service network. */
  objectsFor?(port: number): readonly JsonObject[];
}

/** Makes an installation of which nothing is there yet. The control plane is left to whoever has started it. */
export async function createSystem(plane: ControlPlane, options: SystemOptions = {}): Promise<System> {
  const port = options.port ?? (await freePorts(1))[0] ?? 0;
  const objects = (options.objectsFor ?? localObjects)(port);
  const args = [...(await replicaArguments(objects, plane.folder)), ...(options.args ?? QUICK)];
  let balancer: Balancer | undefined;
  let replicas: readonly Replica[] = [];
  const use = (these: readonly Replica[]): void => {
    replicas = these;
    balancer?.use(these);
  };
  const settled = async (count: number): Promise<void> => {
    await Promise.all(replicas.map((replica) => replica.ready()));
    await balancer?.waitForReady(count);
  };
  const start: System['start'] = async (more, given = {}) => {
    balancer ??= await startBalancer([], { port });
    const all = { ...given, args: [...args, ...(given.args ?? [])] };
    const started = await Promise.all(Array.from({ length: more }, () => startReplica(plane, all)));
    use([...replicas, ...started]);
    return started;
  };
  return {
    plane,
    port,
    objects,
    get replicas() {
      return replicas;
    },
    install: () => apply(plane.admin, objects),
    start,
    async scale(more, given) {
      const started = await start(more, given);
      await settled(replicas.length);
      return started;
    },
    async retire(replica) {
      const ended = replica.stop('SIGTERM');
      await ended;
      use(replicas.filter((other) => other !== replica));
      // Connections to it are gone by now; the next review goes to another one.
      await pause(50);
    },
    settled,
    async stop() {
      await Promise.all(replicas.map((replica) => replica.stop()));
      await balancer?.stop();
    },
  };
}
