/**
 * Runs controllers: sources → queue → reconcile → retry. Controllers write to the cluster and never answer a request;
 * none calls another.
 */
import type { Clock } from '../cluster/clock.ts';
import type { WorkQueueMetrics } from '../telemetry/work-queue.ts';
import { ApiError } from '../kube/status.ts';
import type { Controller, ReconcileContext, Happened, Source } from './controller.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Kind, Kinds } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** How long to wait before a key is tried again. */
interface RateLimit {
  /** After a failure; in milliseconds, which count as waited for. */
  delayOf(key: string): number;
  /** After a conflict: as after a failure, but others do not wait for it. */
  shortDelayOf(key: string): number;
  /** The key is fine again: its next delay is the shortest. */
  forget(key: string): void;
}

const FIRST_MS = 5;
/** Retries of all keys together: so many at once, then so many in a second. */
const BURST = 100;
const PER_SECOND = 10;

/** The longest delay of a key by default: it grows no further. */
export const MAX_RETRY_MS = 1_000_000;

/**
 * Doubles the delay of a key with every failure, and holds back all keys together when many fail.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/util/workqueue/default_rate_limiters.go
 */
export function createRateLimit(clock: Clock, maxMs = MAX_RETRY_MS): RateLimit {
  const failures = new Map<string, number>();
  let tokens = BURST;
  let filledMs = clock.now();

  const takeToken = (): number => {
    const nowMs = clock.now();
    tokens = Math.min(BURST, tokens + ((nowMs - filledMs) / 1000) * PER_SECOND) - 1;
    filledMs = nowMs;
    return tokens >= 0 ? 0 : (-tokens / PER_SECOND) * 1000;
  };
  const shortDelayOf = (key: string): number => {
    const count = failures.get(key) ?? 0;
    failures.set(key, count + 1);
    return Math.min(FIRST_MS * 2 ** count, maxMs);
  };
  return {
    delayOf: (key) => Math.max(shortDelayOf(key), takeToken()),
    shortDelayOf,
    forget: (key) => failures.delete(key),
  };
}

/**
 * Keys to work on, the first come first: a key waits once however often it is added, and is worked on by one at a time.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/util/workqueue/queue.go
 */
export interface WorkQueue {
  /** A key that is being worked on comes again after it is done. */
  add(key: string): void;
  /** Adds the key later; of several delays of a key the shortest counts. */
  addAfter(key: string, delayMs: number): void;
  /** The next key, which is to be given back with `done`; `undefined` if none waits. */
  take(): string | undefined;
  done(key: string): void;
  /** Forgets all that waits and takes nothing more. */
  close(): void;
}

interface WorkQueueOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly metrics: WorkQueueMetrics;
  /** Called whenever a key has come that can be taken. */
  readonly onReady: () => void;
}

interface Delayed {
  readonly dueMs: number;
  readonly cancel: () => void;
}

/** Makes an empty queue. */
export function createWorkQueue({ name, clock, metrics, onReady }: WorkQueueOptions): WorkQueue {
  let ready: string[] = [];
  /** Keys to work on, with the time since when; those that are being worked on come again. */
  const wanted = new Map<string, number>();
  const running = new Map<string, number>();
  const delayed = new Map<string, Delayed>();
  const adds = metrics.adds.cell({ name });
  const queueDuration = metrics.queueDuration(name);
  const workDuration = metrics.workDuration(name);
  const secondsSince = (startMs: number): number => (clock.now() - startMs) / 1000;
  const unfollow = metrics.follow(name, () => ({
    depth: ready.length,
    runningSeconds: Array.from(running.values(), secondsSince),
  }));
  let closed = false;

  const makeReady = (key: string): void => {
    ready.push(key);
    onReady();
  };
  const add = (key: string): void => {
    if (closed || wanted.has(key)) return;
    adds.count++;
    wanted.set(key, clock.now());
    if (!running.has(key)) makeReady(key);
  };
  return {
    add,
    addAfter(key, delayMs) {
      if (closed) return;
      const dueMs = clock.now() + delayMs;
      const earlier = delayed.get(key);
      if (earlier && earlier.dueMs <= dueMs) return;
      earlier?.cancel();
      const cancel = clock.after(delayMs, () => {
        delayed.delete(key);
        add(key);
      });
      delayed.set(key, { dueMs, cancel });
    },
    take() {
      const key = ready.shift();
      if (key === undefined) return undefined;
      queueDuration.observe(secondsSince(wanted.get(key) ?? clock.now()));
      wanted.delete(key);
      running.set(key, clock.now());
      return key;
    },
    done(key) {
      workDuration.observe(secondsSince(running.get(key) ?? clock.now()));
      running.delete(key);
      if (wanted.has(key)) makeReady(key);
    },
    close() {
      closed = true;
      for (const { cancel } of delayed.values()) cancel();
      delayed.clear();
      wanted.clear();
      ready = [];
      unfollow();
    },
  };
}

/** Those who reconcile the keys of a controller. */
interface Workers {
  add(key: string): void;
  /** Resolves once nothing is to be done; what is due later, or to be tried again, does not count. */
  idle(): Promise<void>;
  /** Begins nothing more; resolves when what runs has come to its end. */
  stop(): Promise<void>;
}

/** For so long they keep the thread to themselves, all together, before reviews get a turn. */
const TURN_MS = 10;

/** Makes workers for a controller; they begin with the first key. The logger is the controller's. */
function createWorkers(controller: Controller, { cluster, logger, metrics, clock }: RuntimeOptions): Workers {
  const { name, concurrency = 1 } = controller;
  const stopping = new AbortController();
  const pending = new Set<Promise<void>>();
  const limit = createRateLimit(clock, controller.maxRetryMs);
  const retries = metrics.workQueue.retries.cell({ name });
  const errors = metrics.reconcileErrors.cell({ controller: name });
  const queue = createWorkQueue({ name, clock, metrics: metrics.workQueue, onReady: () => work() });
  let working = 0;

  const track = (promise: Promise<void>): void => {
    pending.add(promise);
    void promise.finally(() => pending.delete(promise));
  };
  const context: ReconcileContext = {
    cluster,
    logger,
    signal: stopping.signal,
    now: () => clock.now(),
    enqueue: (key, delayMs = 0) => (delayMs > 0 ? queue.addAfter(key, delayMs) : queue.add(key)),
    tell(note) {
      const told = cluster.recordEvent({ ...note, reportingController: name });
      track(told.catch((err: unknown) => logger.debug({ err, reason: note.reason }, 'event not told')));
    },
  };

  const retry = (key: string, err: unknown): void => {
    const code = err instanceof ApiError ? err.status.code : undefined;
    if (stopping.signal.aborted || code === 404) {
      limit.forget(key);
      return;
    }
    const delayMs = code === 409 ? limit.shortDelayOf(key) : limit.delayOf(key);
    retries.count++;
    queue.addAfter(key, delayMs);
    if (code === 409) {
      logger.debug({ key, err, delayMs }, 'changed meanwhile, it is tried again');
      return;
    }
    errors.count++;
    const level = isStarting(err) && delayMs < SOON_MS ? 'debug' : 'error';
    logger[level]({ key, err, delayMs }, 'reconcile failed, it is tried again');
  };
  const run = async (key: string): Promise<void> => {
    try {
      const result = await controller.reconcile(key, context);
      limit.forget(key);
      if (result) queue.addAfter(key, result.requeueAfterMs);
    } catch (error) {
      retry(key, error);
    } finally {
      queue.done(key);
    }
  };
  const turns = createTurns(clock);
  const drain = async (): Promise<void> => {
    // Whoever has changed the store goes on first, and then those who wait for a turn of the thread.
    await turns.next();
    for (;;) {
      while (turns.isOver()) await turns.next();
      const key = queue.take();
      if (key === undefined) break;
      await run(key);
    }
    working--;
  };
  const work = (): void => {
    if (working >= concurrency) return;
    working++;
    track(drain());
  };
  const idle = async (): Promise<void> => {
    while (pending.size > 0) await Promise.all(pending);
  };

  return {
    add: (key) => queue.add(key),
    idle,
    async stop() {
      stopping.abort();
      queue.close();
      await idle();
    },
  };
}

/** What fails for longer is told. */
const SOON_MS = 1000;

/** True where the API server cannot reach a webhook: that of this installation needs a moment after its start. */
function isStarting(err: unknown): boolean {
  return err instanceof ApiError && err.status.code === 500 && err.message.includes('failed calling webhook');
}

/** Turns of the thread, which all workers of a controller begin and end together. */
function createTurns(clock: RuntimeOptions['clock']): { next(): Promise<void>; isOver(): boolean } {
  let startMs = clock.now();
  let coming: Promise<void> | undefined;
  return {
    next() {
      coming ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
        coming = undefined;
        startMs = clock.now();
      });
      return coming;
    },
    isOver: () => clock.now() - startMs >= TURN_MS,
  };
}

export interface RuntimeOptions {
  /** Its store has been read completely. */
  readonly cluster: Cluster;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'workQueue' | 'reconcileErrors'>;
  readonly clock: Clock;
}

export type RunningController = Pick<Workers, 'idle' | 'stop'>;

/** Starts controllers; they end together. */
export function startControllers(controllers: readonly Controller[], options: RuntimeOptions): RunningController {
  const running = controllers.map((controller) => startController(controller, options));
  return {
    async idle() {
      await Promise.all(running.map((one) => one.idle()));
    },
    async stop() {
      await Promise.all(running.map((one) => one.stop()));
    },
  };
}

const AGAIN: Happened<Kind> = { type: 'again' };

/** Starts a controller, which may be started again after it was stopped. */
export function startController(controller: Controller, options: RuntimeOptions): RunningController {
  const { clock } = options;
  const { store } = options.cluster;
  const { name, sources, resyncMs } = controller;
  const logger = options.logger.child({ logger: 'controller', controller: name });
  const workers = createWorkers(controller, { ...options, logger });

  const addKeysOf = (source: Source, object: Kinds[Kind], happened: Happened<Kind>): void => {
    try {
      for (const key of source.keysOf(object, store, happened)) workers.add(key);
    } catch (err) {
      // Whoever has changed the store is not to blame.
      logger.error({ err, kind: source.kind, name: object.metadata?.name }, 'object not looked at');
    }
  };
  const unsubscribe = store.subscribe((change) => {
    const { kind, object } = change;
    for (const source of sources) if (source.kind === kind) addKeysOf(source, object, change);
  });
  const addAll = (): void => {
    for (const source of sources) {
      if (source.isNewsOnly === true) continue;
      for (const object of store.list(source.kind)) addKeysOf(source, object, AGAIN);
    }
  };
  let cancelResync: (() => void) | undefined;
  const resync = (everyMs: number): void => {
    cancelResync = clock.after(everyMs, () => {
      addAll();
      resync(everyMs);
    });
  };

  for (const key of controller.keys ?? []) workers.add(key);
  addAll();
  if (resyncMs !== undefined) resync(resyncMs);
  logger.info('controller started');
  return {
    idle: () => workers.idle(),
    async stop() {
      unsubscribe();
      cancelResync?.();
      await workers.stop();
      logger.info('controller stopped');
    },
  };
}
