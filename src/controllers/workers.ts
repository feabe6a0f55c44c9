import { ApiError } from '../kube/status.ts';
import type { Controller, ReconcileContext } from './controller.ts';
import { createRateLimit } from './rate-limit.ts';
import type { RuntimeOptions } from './runtime.ts';
import { createWorkQueue } from './work-queue.ts';

/** Those who reconcile the keys of a controller. */
export interface Workers {
  add(key: string): void;
  /** Resolves once nothing is to be done; what is due later, or to be tried again, does not count. */
  idle(): Promise<void>;
  /** Begins nothing more; resolves when what runs has come to its end. */
  stop(): Promise<void>;
}

/** For so long they keep the thread to themselves, all together, before reviews get a turn. */
const TURN_MS = 10;

/** Makes workers for a controller; they begin with the first key. The logger is the controller's. */
export function createWorkers(controller: Controller, { cluster, logger, metrics, clock }: RuntimeOptions): Workers {
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
