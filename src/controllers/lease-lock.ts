import type { Cluster } from '../cluster/port.ts';
import { ApiError } from '../kube/status.ts';
import type { Lease } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Clock } from '../cluster/clock.ts';
import { heldSpec, holderOf, releasedSpec } from './lease-spec.ts';

export interface LeaseLockOptions {
  readonly cluster: Pick<Cluster, 'get' | 'create' | 'update'>;
  readonly name: string;
  readonly namespace: string;
  /** No two processes have the same, nor has one after its restart. */
  readonly identity: string;
  /** Measures how long a lease has not changed. */
  readonly clock: Clock;
  /** What is written for people to read; no decision depends on it. */
  readonly date: () => Date;
  readonly leaseDurationMs: number;
  readonly logger: Logger;
}

/**
 * A Lease as a lock. What is called with a signal does nothing more, and learns nothing, once that is aborted. Every
 * write names the version that was read: of two who write, one fails.
 */
export interface LeaseLock {
  /** Takes the lease or keeps it; returns when that was asked for, or `undefined` while another holds it. */
  acquireOrRenew(signal: AbortSignal): Promise<number | undefined>;
  /** Gives the lease back, if it is ours. */
  release(signal: AbortSignal): Promise<void>;
  /** Who held the lease when it was last seen. */
  holder(): string;
}

/** The lease as it was last seen, and since when it has been so, by the clock of this process. */
interface Observed {
  readonly lease: Lease;
  readonly printed: string;
  readonly sinceMs: number;
}

/**
 * Makes the lock of a lease, which need not exist.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/tools/leaderelection/leaderelection.go
 */
export function createLeaseLock(options: LeaseLockOptions): LeaseLock {
  const { cluster, name, namespace, identity, clock, date, leaseDurationMs, logger } = options;
  const by = { fieldManager: name };
  let observed: Observed | undefined;

  const observe = (lease: Lease): void => {
    const printed = JSON.stringify(lease.spec);
    observed = { lease, printed, sinceMs: observed?.printed === printed ? observed.sinceMs : clock.now() };
  };
  /** A lease runs out when it has not changed for as long as it says: clocks of two machines are never compared. */
  const isValid = ({ lease, sinceMs }: Observed, nowMs: number): boolean => {
    const seconds = lease.spec?.leaseDurationSeconds;
    return sinceMs + (seconds == null ? leaseDurationMs : seconds * 1000) > nowMs;
  };
  const read = async (signal: AbortSignal): Promise<Lease | undefined> => {
    const lease = await orMissing(cluster.get('Lease', name, namespace));
    signal.throwIfAborted();
    if (lease) observe(lease);
    else observed = undefined;
    return lease;
  };
  const hold = async (lease: Lease | undefined, signal: AbortSignal): Promise<number> => {
    const sentMs = clock.now();
    const spec = heldSpec(lease, { identity, durationMs: leaseDurationMs, date: date() });
    const written = await (lease
      ? cluster.update('Lease', { ...lease, spec }, by)
      : cluster.create('Lease', { metadata: { name, namespace }, spec }, by));
    signal.throwIfAborted();
    observe(written);
    return sentMs;
  };

  return {
    holder: () => (observed ? holderOf(observed.lease) : ''),
    async acquireOrRenew(signal) {
      const startMs = clock.now();
      if (observed && holderOf(observed.lease) === identity && isValid(observed, startMs)) {
        try {
          return await hold(observed.lease, signal);
        } catch (err) {
          signal.throwIfAborted();
          logger.debug({ err }, 'lease not renewed as it was last seen, it is read again');
        }
      }
      const lease = await read(signal);
      const isFree = !observed || ['', identity].includes(holderOf(observed.lease)) || !isValid(observed, startMs);
      return isFree ? hold(lease, signal) : undefined;
    },
    async release(signal) {
      const lease = await read(signal);
      if (!lease || holderOf(lease) !== identity) return;
      observe(await cluster.update('Lease', { ...lease, spec: releasedSpec(lease, date()) }, by));
    },
  };
}

async function orMissing<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return undefined;
    throw error;
  }
}
