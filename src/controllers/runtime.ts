/** Runs controllers. Sources add keys to a work queue, and workers reconcile and retry these keys. */
import { type Clock, createTokenBucket } from '../cluster/clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { httpStatusCode } from '../cluster/connection.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { ApiError } from '../kube/status.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import {
  type Controller,
  forEachYielding,
  nextTurn,
  type ReconcileContext,
  type Reconciler,
  SLICE_MS,
  type Source,
  type YieldContext,
} from './controller.ts';
import { createControllerRecorder } from './events.ts';

const FIRST_RETRY_MS = 5;
/** Default for the maximum retry delay of a key. */
const MAX_RETRY_MS = 1_000_000;
/** Rate limit for the retries of all keys of a controller, excluding conflicts. */
const RETRY_RATE = { burst: 100, perSecond: 10 };

/**
 * Computes retry delays in milliseconds. A key's delay doubles with every failure. A token bucket limits the retry rate
 * across all keys.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/util/workqueue/default_rate_limiters.go
 */
function createRetryDelays(clock: Clock, maxMs = MAX_RETRY_MS) {
  const failures = new Map<string, number>();
  const bucket = createTokenBucket(RETRY_RATE, clock);
  return {
    next(key: string, isConflict: boolean): number {
      const count = failures.get(key) ?? 0;
      failures.set(key, count + 1);
      const delayMs = Math.min(FIRST_RETRY_MS * 2 ** count, maxMs);
      return isConflict ? delayMs : Math.max(delayMs, bucket.reserve());
    },
    /** Resets a key's delay after a success. */
    reset: (key: string) => failures.delete(key),
  };
}

interface WorkQueueOptions extends Pick<RuntimeOptions, 'clock' | 'metrics'> {
  readonly name: string;
  /** Called whenever a key becomes available. */
  readonly onReady: () => void;
}

/**
 * Creates a FIFO queue of keys. A key is queued at most once, and only one worker at a time processes it.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/util/workqueue/queue.go
 */
function createWorkQueue({ name, clock, metrics: { workQueue }, onReady }: WorkQueueOptions) {
  const ready = createFifo();
  /** Keys to process and keys that are being processed, with the time when each was added. */
  const added = new Map<string, number>();
  const processing = new Map<string, number>();
  /** Keys that rest after they were processed, with the functions that cancel the rest. */
  const resting = new Map<string, () => void>();
  const adds = workQueue.adds.cell({ name });
  const queueDuration = workQueue.queueDuration(name);
  const workDuration = workQueue.workDuration(name);
  const secondsSince = (startMs = clock.now()): number => (clock.now() - startMs) / 1000;
  const stopMetrics = workQueue.follow(name, () => ({
    depth: ready.size(),
    runningSeconds: Array.from(processing.values(), secondsSince),
  }));
  let isClosed = false;

  const makeReady = (key: string): void => {
    ready.push(key);
    onReady();
  };
  /** Adds a key. A key that is being processed is queued again after `done` and its rest. */
  const add = (key: string): void => {
    if (isClosed || added.has(key)) return;
    adds.count++;
    added.set(key, clock.now());
    if (!processing.has(key) && !resting.has(key)) makeReady(key);
  };
  const endRest = (key: string): void => {
    resting.delete(key);
    if (added.has(key)) makeReady(key);
  };
  const delayed = createDelayedKeys(clock, add);
  return {
    add,
    addAfter(key: string, delayMs: number): void {
      if (!isClosed) delayed.addAfter(key, delayMs);
    },
    /** Removes and returns the next key, and cancels its delay. Call `done` when the key has been processed. */
    take(): string | undefined {
      const key = ready.shift();
      if (key === undefined) return undefined;
      delayed.cancel(key);
      queueDuration.observe(secondsSince(added.get(key)));
      added.delete(key);
      processing.set(key, clock.now());
      return key;
    },
    /** Marks a key as processed. It is not processed again until its rest has ended. */
    done(key: string, restMs: number): void {
      workDuration.observe(secondsSince(processing.get(key)));
      processing.delete(key);
      if (restMs > 0 && !isClosed)
        resting.set(
          key,
          clock.after(restMs, () => endRest(key)),
        );
      else endRest(key);
    },
    /** Drops all keys and ignores new keys. */
    close(): void {
      isClosed = true;
      delayed.clear();
      for (const cancel of resting.values()) cancel();
      resting.clear();
      added.clear();
      ready.clear();
      stopMetrics();
    },
  };
}

/** Creates a FIFO list of keys that removes the first key without moving all other keys. */
function createFifo() {
  let keys: string[] = [];
  let first = 0;
  const clear = (): void => {
    keys = [];
    first = 0;
  };
  return {
    clear,
    size: () => keys.length - first,
    push: (key: string) => keys.push(key),
    shift(): string | undefined {
      const key = keys[first++];
      if (first >= keys.length) clear();
      return key;
    },
  };
}

/** Creates the set of keys to add after a delay. If a key has several delays, the shortest delay applies. */
function createDelayedKeys(clock: Clock, add: (key: string) => void) {
  const delayed = new Map<string, { readonly dueMs: number; readonly cancel: () => void }>();
  return {
    addAfter(key: string, delayMs: number): void {
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
    cancel(key: string): void {
      delayed.get(key)?.cancel();
      delayed.delete(key);
    },
    clear(): void {
      for (const { cancel } of delayed.values()) cancel();
      delayed.clear();
    },
  };
}

export interface RuntimeOptions {
  /** The cluster, whose store must have synced. */
  readonly cluster: Cluster;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'workQueue' | 'reconcileErrors'>;
  readonly clock: Clock;
}

export interface RunningController {
  /** Resolves once no key is ready or being processed. Ignores delayed keys. */
  idle(): Promise<void>;
  /** Starts no further reconciles. Resolves when the running reconciles have ended. */
  stop(): Promise<void>;
}

/** A set of controllers that can be changed at run time and that stop together. */
export interface RunningControllers extends RunningController {
  /** Stops running controllers that are not in the list, then starts the others. */
  update(controllers: readonly Controller[]): void;
}

export function startControllers(controllers: readonly Controller[], options: RuntimeOptions): RunningControllers {
  const running = new Map<Controller, RunningController>();
  const start = (controller: Controller): void => void running.set(controller, startController(controller, options));
  const replace = async (next: readonly Controller[]): Promise<void> => {
    const removed = [...running].filter(([controller]) => !next.includes(controller));
    for (const [controller] of removed) running.delete(controller);
    await Promise.all(removed.map(([, started]) => started.stop()));
    next.filter((controller) => !running.has(controller)).forEach(start);
  };
  let last = Promise.resolve();
  let isStopped = false;
  controllers.forEach(start);
  return {
    update(next) {
      const update = (): Promise<void> => (isStopped ? Promise.resolve() : replace(next));
      last = last
        .then(update)
        .catch((err: unknown) => options.logger.error({ err }, 'failed to replace the controllers'));
    },
    async idle() {
      await last;
      await Promise.all([...running.values()].map((started) => started.idle()));
    },
    async stop() {
      isStopped = true;
      await last;
      await replace([]);
    },
  };
}

/** Starts a controller. A stopped controller can be started again. */
export function startController({ name, create }: Controller, options: RuntimeOptions): RunningController {
  const { cluster, clock } = options;
  const reconciler = create(cluster.store);
  const { sources, resyncMs } = reconciler;
  const logger = options.logger.child({ logger: 'controller', controller: name });
  const workers = createWorkers({ ...reconciler, name }, { ...options, logger });
  const { add, signal } = workers;
  const startedSources = sources.map((source) =>
    startSource(source, { cluster, logger, add, now: () => clock.now(), signal }),
  );
  const syncAll = (): void => {
    const sync = async (): Promise<void> => {
      for (const source of startedSources) await source.sync();
    };
    // Errors are ignored, because the promise rejects only if the controller stops.
    workers.track(sync().catch(() => undefined));
  };
  let cancelResync: (() => void) | undefined;
  const resyncEvery = (everyMs: number): void => {
    cancelResync = clock.after(everyMs, () => {
      syncAll();
      resyncEvery(everyMs);
    });
  };

  for (const key of reconciler.initialKeys ?? []) workers.add(key);
  syncAll();
  if (resyncMs !== undefined) resyncEvery(resyncMs);
  logger.info('controller started');
  return {
    idle: workers.idle,
    async stop() {
      for (const { stop } of startedSources) stop();
      cancelResync?.();
      await workers.stop();
      await reconciler.onStop?.({ cluster, logger, clock });
      logger.info('controller stopped');
    },
  };
}

interface SourceOptions extends Pick<RuntimeOptions, 'cluster' | 'logger'>, YieldContext {
  add(key: string): void;
}

/** Subscribes to a source. `sync` adds the keys of all existing objects. */
function startSource(source: Source, { cluster: { store }, logger, add, ...context }: SourceOptions) {
  if ('subscribe' in source) {
    return { sync: () => Promise.resolve(), stop: source.subscribe((keys) => keys.forEach(add)) };
  }
  const { kind, isChangesOnly } = source;
  const addKeys = (object: Kinds[Kind], event: Parameters<typeof source.keys>[2]): void => {
    try {
      source.keys(object, store, event).forEach(add);
    } catch (err) {
      // The error is logged instead of thrown, because the caller is writing to the store.
      logger.error({ err, kind, name: object.metadata?.name }, 'failed to compute keys for an object');
    }
  };
  return {
    async sync() {
      if (isChangesOnly) return;
      await forEachYielding(store.list(kind), (object) => addKeys(object, { type: 'sync' }), context);
    },
    stop: store.subscribe((change) => {
      if (change.kind === kind) addKeys(change.object, change);
    }),
  };
}

/**
 * Multiple of its processing time for which a key rests if its processing took long enough to yield. As a result, the
 * events of one namespace use at most a tenth of the thread's time.
 */
const REST_FACTOR = 9;
const MAX_REST_MS = 60_000;

interface NamedReconciler extends Reconciler, Pick<Controller, 'name'> {}

/** Creates a controller's workers, which start when the first key arrives. */
function createWorkers(controller: NamedReconciler, { cluster, logger, metrics, clock }: RuntimeOptions) {
  const { name, concurrency = 1 } = controller;
  const stopping = new AbortController();
  const pending = createPending();
  const queue = createWorkQueue({ name, clock, metrics, onReady: () => startWorker() });
  let workers = 0;

  const context: ReconcileContext = {
    cluster,
    logger,
    signal: stopping.signal,
    now: () => clock.now(),
    enqueue: (key, delayMs = 0) => (delayMs > 0 ? queue.addAfter(key, delayMs) : queue.add(key)),
    recordEvent: createControllerRecorder(cluster, name, logger, pending.add),
  };

  const retry = createRetry(controller, queue, { logger, metrics, clock });
  const process = async (key: string): Promise<void> => {
    let busyMs = 0;
    const onSlice = (ms: number): void => void (busyMs += ms);
    try {
      const result = await controller.reconcile(key, { ...context, onSlice });
      retry.reset(key);
      if (result) queue.addAfter(key, result.requeueAfterMs);
    } catch (error) {
      if (stopping.signal.aborted) retry.reset(key);
      else retry.add(key, error);
    } finally {
      queue.done(key, busyMs < SLICE_MS ? 0 : Math.min(busyMs * REST_FACTOR, MAX_REST_MS));
    }
  };
  const work = async (): Promise<void> => {
    // First yields to the code that changed the store and to other waiting work.
    await nextTurn();
    let startMs = clock.now();
    for (;;) {
      if (clock.now() - startMs >= SLICE_MS) {
        await nextTurn();
        startMs = clock.now();
      }
      const key = queue.take();
      if (key === undefined) break;
      await process(key);
    }
    workers--;
  };
  const startWorker = (): void => {
    if (workers >= concurrency) return;
    workers++;
    pending.add(work());
  };
  return {
    add: queue.add,
    track: pending.add,
    signal: stopping.signal,
    idle: pending.ended,
    async stop(): Promise<void> {
      stopping.abort();
      queue.close();
      await pending.ended();
    },
  };
}

/** Creates the set of unfinished work. */
function createPending() {
  const pending = new Set<Promise<void>>();
  return {
    add(promise: Promise<void>): void {
      pending.add(promise);
      void promise.finally(() => pending.delete(promise));
    },
    async ended(): Promise<void> {
      while (pending.size > 0) await Promise.all(pending);
    },
  };
}

/**
 * Creates the retry state for failed keys. A key is retried even if the API server responds with 404, because load
 * balancers without a backend do so too. If the object was deleted, the retry does nothing once the store has received
 * the deletion.
 */
function createRetry(
  { name, maxRetryMs }: NamedReconciler,
  queue: Pick<ReturnType<typeof createWorkQueue>, 'addAfter'>,
  { logger, metrics, clock }: Omit<RuntimeOptions, 'cluster'>,
) {
  const delays = createRetryDelays(clock, maxRetryMs);
  const retries = metrics.workQueue.retries.cell({ name });
  const errors = metrics.reconcileErrors.cell({ controller: name });
  return {
    reset: delays.reset,
    add(key: string, err: unknown): void {
      const code = httpStatusCode(err);
      const delayMs = delays.next(key, code === 409);
      retries.count++;
      queue.addAfter(key, delayMs);
      if (code === 404 || code === 409) {
        logger.debug({ key, err, delayMs }, `${code === 404 ? 'object not found' : 'conflict'}, retrying`);
        return;
      }
      errors.count++;
      const level = isWebhookStarting(err) && delayMs < WEBHOOK_START_MS ? 'debug' : 'error';
      logger[level]({ key, err, delayMs }, 'failed to reconcile, retrying');
    },
  };
}

/** Time after the first failure in which an unreachable webhook is not logged as an error. */
const WEBHOOK_START_MS = 1000;

/**
 * Returns true if the API server cannot reach a webhook. This is normal at first, because the installation's webhooks
 * may start after its controllers.
 */
function isWebhookStarting(err: unknown): boolean {
  return err instanceof ApiError && err.status.code === 500 && err.message.includes('failed calling webhook');
}
