import type { Lease } from '../kube/types.ts';

type LeaseSpec = NonNullable<Lease['spec']>;

/** The one who holds the lease; `''` if nobody does. */
export function holderOf(lease: Lease): string {
  return lease.spec?.holderIdentity ?? '';
}

/** A time as leases have it: RFC 3339 in UTC, with six digits behind the second. */
export function microTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}

/** What the holder writes. */
interface Holding {
  readonly identity: string;
  readonly durationMs: number;
  readonly date: Date;
}

/** The API server takes no more; there the count stays. */
const MOST_TRANSITIONS = 2 ** 31 - 1;

/** The lease, taken or renewed; another holder makes one more transition. Without a lease: its first holder's. */
export function heldSpec(lease: Lease | undefined, { identity, durationMs, date }: Holding): LeaseSpec {
  const renewTime = nextTime(lease?.spec?.renewTime, microTime(date));
  const isRenewed = lease !== undefined && holderOf(lease) === identity;
  const transitions = lease?.spec?.leaseTransitions ?? 0;
  return {
    ...lease?.spec,
    holderIdentity: identity,
    leaseDurationSeconds: Math.ceil(durationMs / 1000),
    acquireTime: isRenewed ? (lease.spec?.acquireTime ?? renewTime) : renewTime,
    renewTime,
    leaseTransitions: lease === undefined || isRenewed ? transitions : Math.min(transitions + 1, MOST_TRANSITIONS),
  };
}

/** The lease given back: held by nobody, so that the next one need not wait. */
export function releasedSpec(lease: Lease, date: Date): LeaseSpec {
  const time = microTime(date);
  return { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: time, renewTime: time };
}

/**
 * The time, a microsecond on if it is the same millisecond again: others see that a lease is renewed by its change alone,
 * which a clock that stands still must not hide.
 */
function nextTime(before: string | undefined, time: string): string {
  const toMillisecond = time.slice(0, -'000Z'.length);
  if (before?.startsWith(toMillisecond) !== true) return time;
  const micros = (Number(before.slice(toMillisecond.length, -1)) + 1) % 1000;
  return `${toMillisecond}${String(micros).padStart(3, '0')}Z`;
}
