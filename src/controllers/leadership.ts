import { FORMER_LEADER_ANNOTATION, PART_OF, PART_OF_LABEL } from '../api/names.ts';
import { ignoreNotFound } from '../cluster/client.ts';
import { type Clock, sleep, withTimeout } from '../cluster/clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { httpStatusCode } from '../cluster/connection.ts';
import type { Lease, ObjectMeta } from '../kube/types.ts';
import { formatMicroTime } from '../kube/units.ts';
import { UserError } from '../kube/user-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Controller } from './controller.ts';
import { createControllerRecorder } from './events.ts';
import { type RunningControllers, type RuntimeOptions, startControllers } from './runtime.ts';

type LeaseSpec = NonNullable<Lease['spec']>;

const LABELS = { [PART_OF_LABEL]: PART_OF };

/** Returns the holder of the Lease, or an empty string if there is none. */
function getHolder(lease: Lease): string {
  return lease.spec?.holderIdentity ?? '';
}

interface Holding {
  readonly identity: string;
  readonly durationMs: number;
  readonly date: Date;
}

/** Maximum value that the API server accepts. */
const MAX_TRANSITIONS = 2 ** 31 - 1;

/** Returns the Lease spec after acquiring or renewing the Lease. A change of holder counts as a transition. */
export function acquiredSpec(lease: Lease | undefined, { identity, durationMs, date }: Holding): LeaseSpec {
  const renewTime = nextTime(lease?.spec?.renewTime, formatMicroTime(date));
  const isRenewed = lease !== undefined && getHolder(lease) === identity;
  const transitions = lease?.spec?.leaseTransitions ?? 0;
  return {
    ...lease?.spec,
    holderIdentity: identity,
    leaseDurationSeconds: Math.ceil(durationMs / 1000),
    acquireTime: isRenewed ? (lease.spec?.acquireTime ?? renewTime) : renewTime,
    renewTime,
    leaseTransitions: lease === undefined || isRenewed ? transitions : Math.min(transitions + 1, MAX_TRANSITIONS),
  };
}

/**
 * Returns the Lease spec after releasing the Lease. The spec has no holder, so the next candidate does not have to
 * wait.
 */
function releasedSpec({ spec }: Lease, date: Date): LeaseSpec {
  const time = formatMicroTime(date);
  return { ...spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: time, renewTime: time };
}

/** Returns the time of the last write according to the API server's clock, which also sets creation timestamps. */
function lastWriteTime({ metadata, spec }: Lease): string {
  const times = (metadata?.managedFields ?? []).flatMap(({ time }) => time ?? []).sort();
  return times.at(-1) ?? spec?.renewTime ?? '';
}

/**
 * Returns the time or, if its millisecond is that of the previous time, the previous time plus one microsecond.
 * Candidates detect a renewal only if the Lease changes.
 */
function nextTime(before: string | undefined, time: string): string {
  const toMillisecond = time.slice(0, -'000Z'.length);
  if (before?.startsWith(toMillisecond) !== true) return time;
  const micros = (Number(before.slice(toMillisecond.length, -1)) + 1) % 1000;
  return `${toMillisecond}${String(micros).padStart(3, '0')}Z`;
}

/** Leader election timing. Defaults to 15, 10 and 2 seconds, as in Kubernetes. */
export interface LeaseTimes {
  /** Time for which the Lease must be unchanged before another candidate acquires it. */
  readonly leaseDurationMs?: number;
  /** Time after the leader sent its last successful renewal at which it stops leading. */
  readonly renewDeadlineMs?: number;
  /** Interval between attempts to acquire or renew the Lease. Candidates add a random delay. */
  readonly retryPeriodMs?: number;
}

/** Maximum delay between candidates' attempts, as a multiple of the retry period. */
const JITTER = 1.2;

/** Returns the timing with defaults. Throws a UserError if the values are inconsistent. */
function checkLeaseTimes({
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

/**
 * Records the last observed Lease, and the time at which it last changed according to this process's clock. A Lease
 * expires if it does not change for its duration. The clocks of different machines are never compared.
 */
function createLeaseObserver(clock: Clock, defaultDurationMs: number) {
  let observed: { readonly lease: Lease; readonly printed: string; readonly sinceMs: number } | undefined;
  return {
    /** The Lease, or `undefined` if it does not exist. */
    lease: () => observed?.lease,
    holder: () => (observed ? getHolder(observed.lease) : ''),
    isValid(nowMs: number): boolean {
      if (!observed) return false;
      const seconds = observed.lease.spec?.leaseDurationSeconds;
      return observed.sinceMs + (seconds == null ? defaultDurationMs : seconds * 1000) > nowMs;
    },
    observe(lease: Lease | undefined): void {
      const printed = JSON.stringify(lease?.spec ?? {});
      const sinceMs = observed?.printed === printed ? observed.sinceMs : clock.now();
      observed = lease && { lease, printed, sinceMs };
    },
  };
}

/**
 * Records the time of the former leader's last renewal. If an earlier time is recorded, keeps it, because no leader has
 * reported the pods that were admitted since then.
 */
function withFormerLeader(metadata: ObjectMeta = {}, time: string | undefined): ObjectMeta {
  if (time === undefined || metadata.annotations?.[FORMER_LEADER_ANNOTATION] !== undefined) return metadata;
  return { ...metadata, annotations: { ...metadata.annotations, [FORMER_LEADER_ANNOTATION]: time } };
}

/**
 * Creates a lock that is based on a Lease, which may not exist yet. Every write contains the resource version that was
 * read, so one of two concurrent writes fails. After its signal is aborted, a call neither writes nor updates the
 * observed Lease.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/tools/leaderelection/leaderelection.go
 */
function createLeaseLock(options: LeaderElectionOptions, leaseDurationMs: number, logger: Logger) {
  const { cluster, name, namespace, identity, clock, date = () => new Date(), isEnded = () => false } = options;
  const by = { fieldManager: name };
  const observed = createLeaseObserver(clock, leaseDurationMs);
  /**
   * Time of the last renewal before this candidate tried to acquire the Lease. This process may itself be the
   * former leader, for example if it was suspended or could not reach the API server.
   */
  let formerTime: string | undefined;

  const isReleased = (holder: string): boolean => holder === '' || holder === identity || isEnded(holder);
  const read = async (signal: AbortSignal): Promise<Lease | undefined> => {
    const lease = await ignoreNotFound(cluster.get('Lease', name, namespace));
    signal.throwIfAborted();
    observed.observe(lease);
    return lease;
  };
  const hold = async (lease: Lease | undefined, isLeading: boolean, signal: AbortSignal): Promise<number> => {
    const sentMs = clock.now();
    if (isLeading) formerTime = undefined;
    else if (lease) formerTime ??= lastWriteTime(lease);
    const spec = acquiredSpec(lease, { identity, durationMs: leaseDurationMs, date: date() });
    const written = await (lease
      ? cluster.update('Lease', { ...lease, metadata: withFormerLeader(lease.metadata, formerTime), spec }, by)
      : cluster.create('Lease', { metadata: { name, namespace, labels: LABELS }, spec }, by));
    signal.throwIfAborted();
    observed.observe(written);
    return sentMs;
  };

  return {
    /** Returns the holder of the last observed Lease. */
    holder: observed.holder,
    /**
     * Acquires or renews the Lease. Resolves to the time when the request was sent, or to `undefined` while another
     * candidate holds the Lease.
     */
    async acquireOrRenew(isLeading: boolean, signal: AbortSignal): Promise<number | undefined> {
      const startMs = clock.now();
      const known = observed.lease();
      if (observed.holder() === identity && observed.isValid(startMs)) {
        try {
          return await hold(known, isLeading, signal);
        } catch (err) {
          signal.throwIfAborted();
          logger.debug({ err }, 'failed to renew the lease, reading it again');
        }
      }
      const lease = await read(signal);
      const isHeld = !isReleased(observed.holder()) && observed.isValid(startMs);
      if (!isHeld) return await hold(lease, isLeading, signal);
      formerTime = undefined;
      return undefined;
    },
    /** Releases the Lease if this candidate holds it. */
    async release(signal: AbortSignal): Promise<void> {
      const lease = await read(signal);
      if (!lease || getHolder(lease) !== identity) return;
      observed.observe(await cluster.update('Lease', { ...lease, spec: releasedSpec(lease, date()) }, by));
    },
  };
}

export interface LeaderElectionOptions extends LeaseTimes {
  readonly cluster: Pick<Cluster, 'get' | 'create' | 'update' | 'recordEvent'>;
  /** Name of the Lease and of the field manager. */
  readonly name: string;
  readonly namespace: string;
  /** Identity of this process. It must differ after a restart. */
  readonly identity: string;
  /** Returns true if the identity belongs to a terminated process, whose Lease can be acquired without waiting. */
  readonly isEnded?: (identity: string) => boolean;
  readonly clock: Clock;
  /** Clock for the Lease's timestamps. Decisions do not depend on it. */
  readonly date?: () => Date;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random?: () => number;
  onStarted(): void;
  /** Stops the leader's work. The Lease is neither released nor acquired again until this resolves. */
  onStopped(): Promise<void>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'leading'>;
}

export interface LeaderElection {
  start(): void;
  /**
   * Returns true while no other candidate can lead. If the deadline has passed, for example because the process was
   * suspended, ends leadership.
   */
  isLeading(): boolean;
  /** Ends leadership and releases the lease. */
  stop(): Promise<void>;
}

const TOO_LATE = 'the lease was not renewed in time';
/** Maximum number of attempts to release the Lease. A pending renewal can cause a conflict. */
const RELEASE_ATTEMPTS = 3;

/**
 * Creates the state of a candidate's leadership, which ends when the renew deadline after the last renewal has passed.
 */
function createTerm(options: LeaderElectionOptions, renewDeadlineMs: number, logger: Logger) {
  const { cluster, name, namespace, identity, clock, metrics } = options;
  let leading: { readonly untilMs: number; readonly cancel: () => void } | undefined;
  let workEnded = Promise.resolve();
  const recordEvent = createControllerRecorder(cluster, name, logger);
  const record = (message: string, value: 0 | 1): void => {
    metrics.leading.set({ name }, value);
    const event = { type: 'Normal', reason: 'LeaderElection', action: 'LeaderElection' } as const;
    recordEvent('Lease', { metadata: { name, namespace } }, { ...event, message: `${identity} ${message}` });
  };
  const lose = (reason: string): void => {
    if (!leading) return;
    leading.cancel();
    leading = undefined;
    logger.info({ reason }, 'leadership ended');
    workEnded = ended(options.onStopped, logger);
    record('stopped leading', 0);
  };
  const isLeading = (): boolean => {
    if (leading && clock.now() >= leading.untilMs) lose(TOO_LATE);
    return leading !== undefined;
  };
  metrics.leading.set({ name }, 0);
  return {
    isLeading,
    lose,
    /** Resolves when the last term's work has ended. */
    workEnded: () => workEnded,
    /**
     * Starts or extends leadership after a renewal that was sent at the given time, unless the candidate has stopped.
     */
    async lead(sinceMs: number, isStopped: () => boolean): Promise<void> {
      const untilMs = sinceMs + renewDeadlineMs;
      // If the response arrived after leadership had ended, waits until the previous work has ended.
      if (!isLeading()) await workEnded;
      if (clock.now() >= untilMs || isStopped()) return;
      const wasLeading = leading !== undefined;
      leading?.cancel();
      leading = { untilMs, cancel: clock.after(untilMs - clock.now(), () => lose(TOO_LATE)) };
      if (wasLeading) return;
      logger.info('leadership begins');
      record('became leader', 1);
      try {
        options.onStarted();
      } catch (err) {
        logger.error({ err }, 'the leader controllers failed to start');
        lose('the leader controllers failed to start');
      }
    },
  };
}

/**
 * Creates a candidate for a Lease. At most one candidate leads at a time, because the leader measures from the time of
 * the request rather than the response, and stops before another candidate can take over. Throws a UserError if the
 * times are inconsistent.
 */
export function createLeaderElection(options: LeaderElectionOptions): LeaderElection {
  const { name, namespace, identity, clock, random = Math.random } = options;
  const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = checkLeaseTimes(options);
  const logger = options.logger.child({ logger: 'leader-election', lease: `${namespace}/${name}`, identity });
  const lock = createLeaseLock(options, leaseDurationMs, logger);
  const term = createTerm(options, renewDeadlineMs, logger);
  const { isLeading, lose } = term;
  const stopping = new AbortController();
  const { signal } = stopping;
  let campaign = Promise.resolve();
  let stopped: Promise<void> | undefined;
  const known = { leader: '', problem: '' };

  const attempt = async (): Promise<void> => {
    try {
      const sinceMs = await withTimeout(clock, renewDeadlineMs / 2, (limit) => lock.acquireOrRenew(isLeading(), limit));
      known.problem = '';
      if (sinceMs === undefined) lose('another candidate acquired the lease');
      else await term.lead(sinceMs, () => signal.aborted);
    } catch (err) {
      const { message } = err as Error;
      logger[message === known.problem ? 'debug' : 'warn']({ err }, 'failed to acquire or renew the lease, retrying');
      known.problem = message;
    }
    if (lock.holder() !== known.leader) logger.info({ leader: lock.holder() }, 'the leader has changed');
    known.leader = lock.holder();
  };
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      const startMs = clock.now();
      isLeading();
      await term.workEnded();
      if (signal.aborted) return;
      await attempt();
      const renewMs = startMs + retryPeriodMs - clock.now();
      await sleep(clock, isLeading() ? Math.max(0, renewMs) : retryPeriodMs * (1 + JITTER * random()), signal);
    }
  };
  const release = async (attempts = RELEASE_ATTEMPTS): Promise<void> => {
    try {
      await withTimeout(clock, renewDeadlineMs / 2, lock.release);
      if (lock.holder() === '') logger.info('lease released');
    } catch (err) {
      if (attempts > 1 && httpStatusCode(err) === 409) return release(attempts - 1);
      logger.warn({ err }, 'failed to release the lease, which will expire');
    }
  };
  const stop = async (): Promise<void> => {
    stopping.abort();
    lose('this replica stops');
    await Promise.all([campaign, term.workEnded()]);
    if (lock.holder() === identity) await release();
  };
  return {
    start: () => void (campaign = run()),
    isLeading,
    stop: () => (stopped ??= stop()),
  };
}

async function ended(stop: () => Promise<void>, logger: Logger): Promise<void> {
  try {
    await stop();
  } catch (err) {
    logger.error({ err }, 'the leader controllers failed to stop');
  }
}

interface LeadershipOptions
  extends RuntimeOptions, LeaseTimes, Pick<LeaderElectionOptions, 'name' | 'namespace' | 'identity' | 'isEnded'> {
  readonly metrics: RuntimeOptions['metrics'] & Pick<Metrics, 'leading'>;
}

export type Leadership = Pick<LeaderElection, 'isLeading' | 'stop'> & Pick<RunningControllers, 'update'>;

/**
 * Runs the controllers of a replica. Replica controllers run until the replica stops, and leader controllers run while
 * it leads.
 */
export function runWithLeadership(controllers: readonly Controller[], options: LeadershipOptions): Leadership {
  let current = controllers;
  const which = (runs: Controller['runsOn']) => current.filter((controller) => controller.runsOn === runs);
  const own = startControllers(which('replica'), options);
  let led: RunningControllers | undefined;
  const election = createLeaderElection({
    ...options,
    onStarted() {
      led = startControllers(which('leader'), { ...options, cluster: fence(options.cluster, election.isLeading) });
    },
    async onStopped() {
      await led?.stop();
      led = undefined;
    },
  });
  election.start();
  return {
    isLeading: election.isLeading,
    update(next) {
      current = next;
      own.update(which('replica'));
      led?.update(which('leader'));
    },
    async stop() {
      await Promise.all([own.stop(), election.stop()]);
    },
  };
}

/**
 * Wraps the cluster so writes fail while this replica is not the leader. Otherwise, a process that was suspended for
 * longer than its Lease could resume just before a write.
 */
function fence(cluster: Cluster, isLeading: () => boolean): Cluster {
  const asLeader = async <T>(write: () => Promise<T>): Promise<T> => {
    if (!isLeading()) throw new Error('this replica is not the leader');
    return write();
  };
  return {
    store: cluster.store,
    serves: cluster.serves,
    get: cluster.get,
    recordEvent: cluster.recordEvent,
    reviewAccess: cluster.reviewAccess,
    create: (kind, object, options) => asLeader(() => cluster.create(kind, object, options)),
    update: (kind, object, options) => asLeader(() => cluster.update(kind, object, options)),
    patch: (kind, key, patch, options) => asLeader(() => cluster.patch(kind, key, patch, options)),
    apply: (kind, object, options) => asLeader(() => cluster.apply(kind, object, options)),
    applyStatus: (kind, object, options) => asLeader(() => cluster.applyStatus(kind, object, options)),
    remove: (kind, name, namespace) => asLeader(() => cluster.remove(kind, name, namespace)),
  };
}
