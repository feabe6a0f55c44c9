import { COMPONENT_LABEL, REPLICA, SERVING_CERTIFICATE_ANNOTATION } from '../kube/well-known.ts';
import type { Lease } from '../kube/types.ts';
import { createStopwatch, type Stopwatch } from './controller.ts';

/** A replica as its Lease shows it. */
export interface ReplicaSeen {
  readonly name: string;
  /** SHA-256 of what it serves; `''` if it does not say. */
  readonly serving: string;
  /** For how long it has not been heard of. */
  readonly silentMs: number;
  readonly state: 'live' | 'silent';
}

export interface ReplicaObserver {
  /** The replicas of now, by their Leases. */
  observe(leases: readonly Lease[], nowMs: number): readonly ReplicaSeen[];
}

/** How long a replica is taken to be there after it was last heard of; its Lease says so itself. */
export const REPLICA_LEASE_MS = 60_000;

/** True for the Lease of a replica. */
export function isReplicaLease({ metadata }: Lease): boolean {
  return metadata?.labels?.[COMPONENT_LABEL] === REPLICA;
}

/** Makes an observer. A replica is silent when its Lease has not changed for as long as that says: clocks of two machines are never compared. */
export function createReplicaObserver(): ReplicaObserver {
  let watches = new Map<string, Stopwatch>();
  return {
    observe(leases, nowMs) {
      const before = watches;
      watches = new Map();
      return leases.filter(isReplicaLease).map(({ metadata, spec }) => {
        const { name = '', annotations = {} } = metadata ?? {};
        const watch = before.get(name) ?? createStopwatch();
        watches.set(name, watch);
        const silentMs = watch.msOf(JSON.stringify(spec ?? {}), nowMs) ?? 0;
        const seconds = spec?.leaseDurationSeconds;
        // No Lease makes others wait for longer, whatever it says.
        const durationMs = Math.min(REPLICA_LEASE_MS, seconds == null ? REPLICA_LEASE_MS : seconds * 1000);
        const state = silentMs < durationMs ? 'live' : 'silent';
        return { name, serving: annotations[SERVING_CERTIFICATE_ANNOTATION] ?? '', silentMs, state };
      });
    },
  };
}
