import { UserError } from '../config/user-error.ts';

/** How long the parts of an election may take; by default 15, 10 and 2 s, as everywhere in Kubernetes. */
export interface LeaseTimes {
  /** Others wait for so long, after they last saw the lease change, before they take it. */
  readonly leaseDurationMs?: number;
  /** The leader stops so long after it asked for the last renewal that it was granted. */
  readonly renewDeadlineMs?: number;
  /** From one attempt to the next; for those who do not lead a little more, at random. */
  readonly retryPeriodMs?: number;
}

/** Others wait for up to so many times the retry period longer. */
export const JITTER = 1.2;

/** Returns all times. Throws a UserError if they do not go together. */
export function checkedTimes({
  leaseDurationMs = 15_000,
  renewDeadlineMs = 10_000,
  retryPeriodMs = 2_000,
}: LeaseTimes): Required<LeaseTimes> {
  if (!(retryPeriodMs > 0)) throw new UserError('the retry period must be greater than zero');
  if (!(renewDeadlineMs > retryPeriodMs * JITTER)) {
    throw new UserError(`the renew deadline must be greater than ${JITTER} times the retry period`);
  }
  if (!(leaseDurationMs > renewDeadlineMs)) {
    throw new UserError('the lease duration must be greater than the renew deadline');
  }
  return { leaseDurationMs, renewDeadlineMs, retryPeriodMs };
}
