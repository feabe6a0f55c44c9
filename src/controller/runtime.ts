/**
 * Runs controllers: sources → queue → reconcile → retry. Controllers write to the cluster and never answer a request;
 * none calls another.
 */
import type { Cluster } from '../cluster/port.ts';
import { ApiError } from '../kube/status.ts';
import type { Kind, Kinds } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Clock } from './clock.ts';
import type { Controller, ReconcileContext, Source } from './controller.ts';
import { createRateLimit } from './rate-limit.ts';
import { createWorkQueue } from './work-queue.ts';

export interface RuntimeOptions {
  /** Its store has been read completely. */
  readonly cluster: Cluster;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'workQueue' | 'reconcileErrors'>;
  readonly clock: Clock;
}

export interface RunningController {
  /** Resolves once nothing is to be done; what is due later, or to be tried again, does not count. */
  idle(): Promise<void>;
  /** Begins nothing more; resolves when what runs has come to its end. */
  stop(): Promise<void>;
}

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

/** For so long controllers keep the thread to themselves before reviews get a turn. */
const TURN_MS = 10;

/** Starts a controller, which may be started again after it was stopped. */
export function startController(controller: Controller, options: RuntimeOptions): RunningController {
  const { cluster, metrics, clock } = options;
  const { name, sources, resyncMs, concurrency = 1 } = controller;
  const logger = options.logger.child({ logger: 'controller', controller: name });
  const stopping = new AbortController();
  const pending = new Set<Promise<void>>();
  const limit = createRateLimit(clock, controller.maxRetryMs);
  const retries = metrics.workQueue.retries.cell({ name });
  const errors = metrics.reconcileErrors.cell({ controller: name });
  const queue = createWorkQueue({ name, clock, metrics: metrics.workQueue, onReady: () => work() });
  let workers = 0;

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
      const told = cluster.event({ ...note, reportingController: name });
      track(told.catch((err: unknown) => logger.debug({ err, reason: note.reason }, 'event not told')));
    },
  };

  const retry = (key: string, err: unknown): void => {
    const code = err instanceof ApiError ? err.status.code : undefined;
    if (stopping.signal.aborted || code === 404) {
      limit.forget(key);
      return;
    }
    retries.count++;
    if (code === 409) {
      const delayMs = limit.shortDelayOf(key);
      logger.debug({ key, err, delayMs }, 'changed meanwhile, it is tried again');
      queue.addAfter(key, delayMs);
      return;
    }
    const delayMs = limit.delayOf(key);
    errors.count++;
    logger.error({ key, err, delayMs }, 'reconcile failed, it is tried again');
    queue.addAfter(key, delayMs);
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
  const drain = async (): Promise<void> => {
    // Whoever has changed the store goes on first, and then those who wait for a turn of the thread.
    await nextTurn();
    let turnMs = clock.now();
    for (let key = queue.take(); key !== undefined; key = queue.take()) {
      await run(key);
      if (clock.now() - turnMs < TURN_MS) continue;
      await nextTurn();
      turnMs = clock.now();
    }
    workers--;
  };
  const work = (): void => {
    if (workers >= concurrency) return;
    workers++;
    track(drain());
  };

  const addKeysOf = (source: Source, object: Kinds[Kind]): void => {
    try {
      for (const key of source.keysOf(object, cluster.store)) queue.add(key);
    } catch (err) {
      // Whoever has changed the store is not to blame.
      logger.error({ err, kind: source.kind, name: object.metadata?.name }, 'object not looked at');
    }
  };
  const unsubscribe = cluster.store.subscribe(({ kind, object }) => {
    for (const source of sources) if (source.kind === kind) addKeysOf(source, object);
  });
  const addAll = (): void => {
    for (const source of sources) for (const object of cluster.store.list(source.kind)) addKeysOf(source, object);
  };
  let cancelResync: (() => void) | undefined;
  const resync = (everyMs: number): void => {
    cancelResync = clock.after(everyMs, () => {
      addAll();
      resync(everyMs);
    });
  };

  for (const key of controller.keys ?? []) queue.add(key);
  addAll();
  if (resyncMs !== undefined) resync(resyncMs);
  logger.info('controller started');
  const idle = async (): Promise<void> => {
    while (pending.size > 0) await Promise.all(pending);
  };
  return {
    idle,
    async stop() {
      stopping.abort();
      unsubscribe();
      cancelResync?.();
      queue.close();
      await idle();
      logger.info('controller stopped');
    },
  };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
