/** Reads the Leases in which replicas publish their state. */
import { COMPONENT_LABEL, REPLICA, SERVING_CERTIFICATE_ANNOTATION } from '../api/names.ts';
import type { Lease } from '../kube/types.ts';
import { createStateAge } from './controller.ts';

/** Lease duration of a replica, and the maximum duration accepted from other replicas. */
export const REPLICA_LEASE_MS = 60_000;

export function isReplicaLease({ metadata }: Lease): boolean {
  return metadata?.labels?.[COMPONENT_LABEL] === REPLICA;
}

/** Interval at which a replica renews its Lease. */
export const REPLICA_RENEW_MS = 15_000;

/**
 * Returns true if the holder has renewed the Lease in time according to this machine's clock. A renewal time in the
 * future does not count.
 */
export function isCurrentLease({ spec }: Lease, now: Date, toleranceMs: number): boolean {
  const ageMs = now.getTime() - Date.parse(spec?.renewTime ?? '');
  return ageMs <= (spec?.leaseDurationSeconds ?? 0) * 1000 + toleranceMs && ageMs >= -toleranceMs;
}

/**
 * Creates a function that reads the replicas' states from their Leases. It measures the time between Lease changes with
 * its own clock, so it never compares the clocks of different machines.
 */
export function createReplicaObserver() {
  let ages = new Map<string, ReturnType<typeof createStateAge>>();
  return (leases: readonly Lease[], nowMs: number) => {
    const known = ages;
    ages = new Map();
    return leases.filter(isReplicaLease).map((lease) => {
      const { name = '', annotations = {} } = lease.metadata ?? {};
      const age = known.get(name) ?? createStateAge();
      ages.set(name, age);
      // The time since the Lease last changed.
      const silentMs = age(JSON.stringify(lease.spec ?? {}), nowMs) ?? 0;
      const seconds = lease.spec?.leaseDurationSeconds;
      const durationMs = Math.min(REPLICA_LEASE_MS, seconds == null ? REPLICA_LEASE_MS : seconds * 1000);
      // SHA-256 fingerprint of the certificate that the replica serves. Empty if unknown.
      const serving = annotations[SERVING_CERTIFICATE_ANNOTATION] ?? '';
      const leftMs = durationMs - silentMs;
      return { lease, name, serving, silentMs, leftMs, isLive: leftMs > 0 };
    });
  };
}
