import type { Lease, ObjectMeta } from '../kube/types.ts';
import { FORMER_LEADER_ANNOTATION, PART_OF, PART_OF_LABEL } from '../kube/well-known.ts';
import { UserError } from '../config/files.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { ApiError } from '../kube/status.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Clock, withTimeout } from '../cluster/clock.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createEventRecorder, orUndefined, type Controller } from './controller.ts';
import { startControllers, type RunningControllers, type RuntimeOptions } from './runtime.ts';

type LeaseSpec = NonNullable<Lease['spec']>;

const LABELS = { [PART_OF_LABEL]: PART_OF };

/** The holder of the Lease; empty if it is not held. */
function getHolder(lease: Lease): string {
  return lease.spec?.holderIdentity ?? '';
}

/** Formats a time as Kubernetes' MicroTime: RFC 3339 in UTC with microseconds. */
export function microTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}

interface Holding {
  readonly identity: string;
  readonly durationMs: number;
  readonly date: Date;
}

/** The maximum that the API server accepts. */
const MAX_TRANSITIONS = 2 ** 31 - 1;

/** The spec after the Lease is acquired or renewed. A change of the holder counts as a transition. */
export function acquiredSpec(lease: Lease | undefined, { identity, durationMs, date }: Holding): LeaseSpec {
  const renewTime = nextTime(lease?.spec?.renewTime, microTime(date));
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

/** The time of the last write, by the clock of the API server, which also sets the creation times of objects. */
function lastWriteTime({ metadata, spec }: Lease): string {
  const times = (metadata?.managedFields ?? []).flatMap(({ time }) => time ?? []).sort();
  return times.at(-1) ?? spec?.renewTime ?? '';
}

/**
 * The time, advanced by a microsecond if the millisecond has not changed: candidates detect a renewal by the change of
 * the lease alone.
 */
function nextTime(before: string | undefined, time: string): string {
  const toMillisecond = time.slice(0, -'000Z'.length);
  if (before?.startsWith(toMillisecond) !== true) return time;
  const micros = (Number(before.slice(toMillisecond.length, -1)) + 1) % 1000;
  return `${toMillisecond}${String(micros).padStart(3, '0')}Z`;
}

/** The times of an election. The defaults of 15, 10 and 2 seconds are those of Kubernetes. */
export interface LeaseTimes {
  /** Candidates take the lease after it has not changed for this time. */
  readonly leaseDurationMs?: number;
  /** The leader stops this long after it sent its last successful renewal. */
  readonly renewDeadlineMs?: number;
  /** Interval between attempts. Candidates add a random delay. */
  readonly retryPeriodMs?: number;
}

/** Candidates add a random delay of up to this multiple of the retry period. */
const JITTER = 1.2;

/** Returns all times. Throws a UserError if they are inconsistent. */
export function checkLeaseTimes({
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

/** The last observed Lease, and since when it has not changed, by the clock of this process. */
interface Observed {
  readonly lease: Lease;
  readonly printed: string;
  readonly sinceMs: number;
}

/**
 * Creates a lock from a Lease, which may not exist yet. Every write contains the resource version that was read, so that one
 * of two concurrent writes fails. After its signal is aborted, a call neither writes nor observes.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/tools/leaderelection/leaderelection.go
 */
function createLeaseLock(options: LeaderElectionOptions, leaseDurationMs: number, logger: Logger) {
  const { cluster, name, namespace, identity, clock, date = () => new Date(), isEnded = () => false } = options;
  const by = { fieldManager: name };
  let observed: Observed | undefined;
  /**
   * Time of the last renewal before this candidate began to acquire the Lease. The former leader may be this process, whose
   * leadership ended while it was suspended or could not reach the API server.
   */
  let formerTime: string | undefined;

  const isReleased = (holder: string): boolean => holder === '' || holder === identity || isEnded(holder);
  const observe = (lease: Lease): void => {
    const printed = JSON.stringify(lease.spec);
    observed = { lease, printed, sinceMs: observed?.printed === printed ? observed.sinceMs : clock.now() };
  };
  /** A lease expires after it has not changed for its duration: clocks of two machines are never compared. */
  const isValid = ({ lease, sinceMs }: Observed, nowMs: number): boolean => {
    const seconds = lease.spec?.leaseDurationSeconds;
    return sinceMs + (seconds == null ? leaseDurationMs : seconds * 1000) > nowMs;
  };
  const read = async (signal: AbortSignal): Promise<Lease | undefined> => {
    const lease = await orUndefined(cluster.get('Lease', name, namespace));
    signal.throwIfAborted();
    if (lease) observe(lease);
    else observed = undefined;
    return lease;
  };
  const withFormerLeader = (metadata: ObjectMeta = {}): ObjectMeta =>
    formerTime === undefined
      ? metadata
      : { ...metadata, annotations: { ...metadata.annotations, [FORMER_LEADER_ANNOTATION]: formerTime } };
  const hold = async (lease: Lease | undefined, isLeading: boolean, signal: AbortSignal): Promise<number> => {
    const sentMs = clock.now();
    if (isLeading) formerTime = undefined;
    else if (lease) formerTime ??= lastWriteTime(lease);
    const spec = acquiredSpec(lease, { identity, durationMs: leaseDurationMs, date: date() });
    const written = await (lease
      ? cluster.update('Lease', { ...lease, metadata: withFormerLeader(lease.metadata), spec }, by)
      : cluster.create('Lease', { metadata: { name, namespace, labels: LABELS }, spec }, by));
    signal.throwIfAborted();
    observe(written);
    return sentMs;
  };

  return {
    /** The holder when the Lease was last observed. */
    holder: () => (observed ? getHolder(observed.lease) : ''),
    /** Acquires or renews the Lease. Resolves to the time of the request, or to `undefined` while another candidate holds it. */
    async acquireOrRenew(isLeading: boolean, signal: AbortSignal): Promise<number | undefined> {
      const startMs = clock.now();
      if (observed && getHolder(observed.lease) === identity && isValid(observed, startMs)) {
        try {
          return await hold(observed.lease, isLeading, signal);
        } catch (err) {
          signal.throwIfAborted();
          logger.debug({ err }, 'lease not renewed; it is read again');
        }
      }
      const lease = await read(signal);
      const isHeld = observed && !isReleased(getHolder(observed.lease)) && isValid(observed, startMs);
      if (!isHeld) return await hold(lease, isLeading, signal);
      formerTime = undefined;
      return undefined;
    },
    /** Releases the Lease if this candidate holds it. */
    async release(signal: AbortSignal): Promise<void> {
      const lease = await read(signal);
      if (!lease || getHolder(lease) !== identity) return;
      const time = microTime(date());
      const times = { leaseDurationSeconds: 1, acquireTime: time, renewTime: time };
      // Without a holder, the next candidate does not wait.
      const spec = { ...lease.spec, holderIdentity: '', ...times };
      observe(await cluster.update('Lease', { ...lease, spec }, by));
    },
  };
}

export interface LeaderElectionOptions extends LeaseTimes {
  readonly cluster: Pick<Cluster, 'get' | 'create' | 'update' | 'recordEvent'>;
  /** Name of the Lease and field manager. */
  readonly name: string;
  readonly namespace: string;
  /** Unique for each process. A restarted process has another identity. */
  readonly identity: string;
  /** True for the identity of an ended process, whose Lease can be acquired without waiting. */
  readonly isEnded?: (identity: string) => boolean;
  readonly clock: Clock;
  /** Writes the times of the Lease. No decision depends on it. */
  readonly date?: () => Date;
  /** Returns a number from 0 to less than 1. */
  readonly random?: () => number;
  onStarted(): void;
  /** Stops the work of the leader. The lease is neither released nor requested before it resolves. */
  onStopped(): Promise<void>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'leading'>;
}

export interface LeaderElection {
  start(): void;
  /**
   * True while no other candidate can lead. A call after the deadline, as after a suspension of the process, ends
   * leadership.
   */
  isLeading(): boolean;
  /** Ends leadership and releases the lease. */
  stop(): Promise<void>;
}

const TOO_LATE = 'the lease was not renewed in time';
/** A conflict on release is caused by a renewal that is still in flight. */
const RELEASE_ATTEMPTS = 3;

/**
 * Creates a candidate for a Lease. At most one candidate leads at a time: the leader counts from the time of the
 * request, not of the response, so that it stops before others take over. Throws a UserError if the times are
 * inconsistent.
 */
export function createLeaderElection(options: LeaderElectionOptions): LeaderElection {
  const { cluster, name, namespace, identity, clock, metrics, random = Math.random } = options;
  const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = checkLeaseTimes(options);
  const logger = options.logger.child({ logger: 'leader-election', lease: `${namespace}/${name}`, identity });
  const lock = createLeaseLock(options, leaseDurationMs, logger);
  let leading: { readonly untilMs: number; readonly cancel: () => void } | undefined;
  let isStopped = false;
  let wake = (): void => undefined;
  let campaign = Promise.resolve();
  let workEnded = Promise.resolve();
  let stopped: Promise<void> | undefined;
  let leader = '';
  let problem = '';

  const recordEvent = createEventRecorder(cluster, name, logger);
  const recordElection = (message: string): void => {
    const event = { type: 'Normal', reason: 'LeaderElection', action: 'LeaderElection' } as const;
    recordEvent('Lease', { metadata: { name, namespace } }, { ...event, message: `${identity} ${message}` });
  };
  const lose = (reason: string): void => {
    if (!leading) return;
    leading.cancel();
    leading = undefined;
    metrics.leading.set({ name }, 0);
    logger.info({ reason }, 'leadership ended');
    workEnded = ended(options.onStopped, logger);
    recordElection('stopped leading');
  };
  const isLeading = (): boolean => {
    if (leading && clock.now() >= leading.untilMs) lose(TOO_LATE);
    return leading !== undefined;
  };
  const lead = async (sinceMs: number): Promise<void> => {
    const untilMs = sinceMs + renewDeadlineMs;
    // The response may arrive after leadership has ended.
    if (!isLeading()) await workEnded;
    if (clock.now() >= untilMs || isStopped) return;
    const wasLeading = leading !== undefined;
    leading?.cancel();
    leading = { untilMs, cancel: clock.after(untilMs - clock.now(), () => lose(TOO_LATE)) };
    if (wasLeading) return;
    metrics.leading.set({ name }, 1);
    logger.info('leadership begins');
    recordElection('became leader');
    try {
      options.onStarted();
    } catch (err) {
      logger.error({ err }, 'the controllers of the leader failed to start');
      lose('the controllers of the leader failed to start');
    }
  };

  const attempt = async (): Promise<void> => {
    try {
      const sinceMs = await withTimeout(clock, renewDeadlineMs / 2, (signal) =>
        lock.acquireOrRenew(leading !== undefined, signal),
      );
      problem = '';
      if (sinceMs === undefined) lose('another candidate acquired the lease');
      else await lead(sinceMs);
    } catch (err) {
      const { message } = err as Error;
      logger[message === problem ? 'debug' : 'warn']({ err }, 'lease neither acquired nor renewed; it is retried');
      problem = message;
    }
    if (lock.holder() !== leader) logger.info({ leader: lock.holder() }, 'the leader has changed');
    leader = lock.holder();
  };
  const sleep = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const cancel = clock.after(ms, resolve);
      wake = () => {
        cancel();
        resolve();
      };
    });
  const run = async (): Promise<void> => {
    while (!isStopped) {
      const startMs = clock.now();
      isLeading();
      await workEnded;
      if (isStopped) return;
      await attempt();
      if (isStopped) return;
      await sleep(
        isLeading() ? Math.max(0, startMs + retryPeriodMs - clock.now()) : retryPeriodMs * (1 + JITTER * random()),
      );
    }
  };
  const release = async (attempts = RELEASE_ATTEMPTS): Promise<void> => {
    try {
      await withTimeout(clock, renewDeadlineMs / 2, lock.release);
      if (lock.holder() === '') logger.info('lease released');
    } catch (err) {
      if (attempts > 1 && err instanceof ApiError && err.status.code === 409) return release(attempts - 1);
      logger.warn({ err }, 'lease not released; it expires');
    }
  };

  const stop = async (): Promise<void> => {
    isStopped = true;
    wake();
    lose('this replica stops');
    await Promise.all([campaign, workEnded]);
    if (lock.holder() === identity) await release();
  };

  metrics.leading.set({ name }, 0);
  return {
    start() {
      campaign = run();
    },
    isLeading,
    stop: () => (stopped ??= stop()),
  };
}

async function ended(stop: () => Promise<void>, logger: Logger): Promise<void> {
  try {
    await stop();
  } catch (err) {
    logger.error({ err }, 'the controllers of the leader failed to stop');
  }
}

interface LeadershipOptions
  extends RuntimeOptions, LeaseTimes, Pick<LeaderElectionOptions, 'name' | 'namespace' | 'identity' | 'isEnded'> {
  readonly metrics: RuntimeOptions['metrics'] & Pick<Metrics, 'leading'>;
}

export type Leadership = Pick<LeaderElection, 'isLeading' | 'stop'> & Pick<RunningControllers, 'update'>;

/** Runs the controllers of a replica: its own until it stops, those of the leader while it leads. */
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
 * The cluster, with writes that fail when this replica does not lead: a process that was suspended for longer than its
 * lease may continue just before a write.
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
