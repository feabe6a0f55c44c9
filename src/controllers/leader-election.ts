import type { Cluster } from '../cluster/port.ts';
import { apiVersionOf } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Clock } from '../cluster/clock.ts';
import { inTime } from './in-time.ts';
import { createLeaseLock } from './lease-lock.ts';
import { checkedTimes, JITTER, type LeaseTimes } from './lease-times.ts';

export interface LeaderElectionOptions extends LeaseTimes {
  readonly cluster: Pick<Cluster, 'get' | 'create' | 'update' | 'event'>;
  /** Of the lease, and as field manager. */
  readonly name: string;
  readonly namespace: string;
  /** No two processes have the same, nor has one after its restart. */
  readonly identity: string;
  readonly clock: Clock;
  readonly date?: () => Date;
  /** At least 0, less than 1. */
  readonly random?: () => number;
  onStarted(): void;
  /** Resolves when all that a leader does has come to its end: the lease is not given back, nor tried for, before. */
  onStopped(): Promise<void>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'leading'>;
}

export interface LeaderElection {
  start(): void;
  /** True while no other may lead. Whoever asks too late, since the process stood still, makes it stop to lead. */
  isLeading(): boolean;
  /** Stops to lead, and gives the lease back. */
  stop(): Promise<void>;
}

const TOO_LATE = 'the lease was not renewed in time';
/** A conflict on release comes from a renewal that was still on its way. */
const RELEASES = 3;

/**
 * Makes a candidate for a Lease: of all candidates at most one leads at a time. Time counts from when the leader asked,
 * and not from when it was answered, so that it stops before others take over, however slow the API server is.
 * Throws a UserError if the times do not go together.
 */
export function createLeaderElection(options: LeaderElectionOptions): LeaderElection {
  const { cluster, name, namespace, identity, clock, metrics, random = Math.random } = options;
  const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = checkedTimes(options);
  const logger = options.logger.child({ logger: 'leader-election', lease: `${namespace}/${name}`, identity });
  const lock = createLeaseLock({ date: () => new Date(), ...options, leaseDurationMs, logger });
  let leading: { readonly untilMs: number; readonly cancel: () => void } | undefined;
  let isStopped = false;
  let wake = (): void => undefined;
  let campaign = Promise.resolve();
  let workEnded = Promise.resolve();
  let stopped: Promise<void> | undefined;
  let leader = '';
  let problem = '';

  const tell = (note: string): void => {
    const regarding = { apiVersion: apiVersionOf('Lease'), kind: 'Lease', metadata: { name, namespace } };
    const about = { type: 'Normal', reason: 'LeaderElection', action: 'LeaderElection' } as const;
    const told = cluster.event({ ...about, regarding, note: `${identity} ${note}`, reportingController: name });
    told.catch((err: unknown) => logger.debug({ err }, 'event not told'));
  };
  const lose = (reason: string): void => {
    if (!leading) return;
    leading.cancel();
    leading = undefined;
    metrics.leading.set({ name }, 0);
    logger.info({ reason }, 'leadership ended');
    workEnded = ended(options.onStopped, logger);
    tell('stopped leading');
  };
  const isLeading = (): boolean => {
    if (leading && clock.now() >= leading.untilMs) lose(TOO_LATE);
    return leading !== undefined;
  };
  const lead = async (sinceMs: number): Promise<void> => {
    const untilMs = sinceMs + renewDeadlineMs;
    // Maybe the answer came just after leadership had ended.
    if (!isLeading()) await workEnded;
    if (clock.now() >= untilMs || isStopped) return;
    const wasLeading = leading !== undefined;
    leading?.cancel();
    leading = { untilMs, cancel: clock.after(untilMs - clock.now(), () => lose(TOO_LATE)) };
    if (wasLeading) return;
    metrics.leading.set({ name }, 1);
    logger.info('leadership begins');
    tell('became leader');
    try {
      options.onStarted();
    } catch (err) {
      logger.error({ err }, 'what a leader does did not begin');
      lose('what a leader does did not begin');
    }
  };

  const attempt = async (): Promise<void> => {
    try {
      const sinceMs = await inTime(clock, renewDeadlineMs / 2, lock.acquireOrRenew);
      problem = '';
      if (sinceMs === undefined) lose('another has taken the lease');
      else await lead(sinceMs);
    } catch (err) {
      const { message } = err as Error;
      logger[message === problem ? 'debug' : 'warn']({ err }, 'lease neither taken nor renewed, it is tried again');
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
  const release = async (tries = RELEASES): Promise<void> => {
    try {
      await inTime(clock, renewDeadlineMs / 2, lock.release);
      if (lock.holder() === '') logger.info('lease released');
    } catch (err) {
      if (tries > 1 && err instanceof ApiError && err.status.code === 409) return release(tries - 1);
      logger.warn({ err }, 'lease not released, others wait until it has run out');
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
    logger.error({ err }, 'what a leader does did not end well');
  }
}
