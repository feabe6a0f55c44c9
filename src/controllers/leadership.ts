import type { Cluster } from '../cluster/port.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Controller } from './controller.ts';
import { createLeaderElection, type LeaderElection } from './leader-election.ts';
import type { LeaseTimes } from './lease-times.ts';
import { startControllers, type RunningController, type RuntimeOptions } from './runtime.ts';

export interface LeadershipOptions extends RuntimeOptions, LeaseTimes {
  readonly name: string;
  readonly namespace: string;
  /** No two processes have the same, nor has one after its restart. */
  readonly identity: string;
  readonly metrics: RuntimeOptions['metrics'] & Pick<Metrics, 'leading'>;
}

export type Leadership = Pick<LeaderElection, 'isLeading' | 'stop'>;

/**
 * Runs the controllers of a replica: its own until it is stopped, those of the leader while it leads. One that has none
 * for a leader does not stand for election: it would keep the lease from those who have.
 */
export function runWithLeadership(controllers: readonly Controller[], options: LeadershipOptions): Leadership {
  const which = (runs: Controller['runs']) => controllers.filter((controller) => controller.runs === runs);
  const own = startControllers(which('replica'), options);
  const forLeader = which('leader');
  if (forLeader.length === 0) {
    options.metrics.leading.set({ name: options.name }, 0);
    return { isLeading: () => false, stop: () => own.stop() };
  }
  let led: RunningController | undefined;
  const election = createLeaderElection({
    ...options,
    onStarted() {
      led = startControllers(forLeader, { ...options, cluster: fence(options.cluster, election.isLeading) });
    },
    async onStopped() {
      await led?.stop();
      led = undefined;
    },
  });
  election.start();
  return {
    isLeading: election.isLeading,
    async stop() {
      await Promise.all([own.stop(), election.stop()]);
    },
  };
}

/**
 * The cluster as long as this replica leads, then its writes are refused: a process that stood still for longer than its
 * lease goes on where it was, maybe just before a write.
 */
function fence(cluster: Cluster, isLeading: () => boolean): Cluster {
  const asLeader = async <T>(write: () => Promise<T>): Promise<T> => {
    if (!isLeading()) throw new Error('this replica does not lead any more');
    return write();
  };
  return {
    store: cluster.store,
    get: cluster.get,
    event: cluster.event,
    reviewAccess: cluster.reviewAccess,
    create: (kind, object, options) => asLeader(() => cluster.create(kind, object, options)),
    update: (kind, object, options) => asLeader(() => cluster.update(kind, object, options)),
    updateStatus: (kind, object, options) => asLeader(() => cluster.updateStatus(kind, object, options)),
    patch: (kind, key, ops, options) => asLeader(() => cluster.patch(kind, key, ops, options)),
    apply: (kind, object, options) => asLeader(() => cluster.apply(kind, object, options)),
    applyStatus: (kind, object, options) => asLeader(() => cluster.applyStatus(kind, object, options)),
    remove: (kind, name, namespace) => asLeader(() => cluster.remove(kind, name, namespace)),
  };
}
