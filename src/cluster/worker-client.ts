/** Sends work to a worker thread, so large inputs neither block the event loop nor fill the heap. */
import { getAsset, isSea } from 'node:sea';
import { type ResourceLimits, type Transferable, Worker } from 'node:worker_threads';
import { errorCode } from '../kube/error-code.ts';

/** Time without work after which the worker exits to free its memory. */
const IDLE_MS = 30_000;
/**
 * Message size above which the worker exits after the message, because garbage in its heap would use several times as
 * much memory.
 */
const MAX_KEPT_BYTES = 8 * 1024 * 1024;

/**
 * Starts a worker. Its file is in the folder of the module with the given URL, or is embedded in a single executable.
 */
export function startWorker(name: string, moduleUrl: string, resourceLimits: ResourceLimits): Worker {
  if (isSea()) return new Worker(getAsset(`${name}.cjs`, 'utf8'), { resourceLimits, eval: true });
  const extension = moduleUrl.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./${name}.${extension}`, moduleUrl), { resourceLimits });
}

/** Returns true if a worker ran out of memory. */
export function isOutOfMemory(error: unknown): boolean {
  return errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY';
}

/** Creates the client of a worker, which is started for the first message and restarted after a failure. */
export function createWorkerClient<Message, Result>(start: () => Worker) {
  let worker: Worker | undefined;
  let pending: PromiseWithResolvers<Result> | undefined;
  let idle: NodeJS.Timeout | undefined;
  let ending: Promise<unknown> | undefined;
  const open = (): Worker => {
    const created = start();
    created.unref();
    const fail = (error: Error): void => {
      if (worker !== created) return;
      worker = undefined;
      pending?.reject(error);
    };
    created.on('message', (result: Result) => pending?.resolve(result));
    created.on('error', fail);
    created.on('exit', () => fail(new Error('the worker ended')));
    return created;
  };
  const close = async (): Promise<void> => {
    clearTimeout(idle);
    const ended = worker;
    // If a message is sent while the worker exits, it needs a new worker.
    worker = undefined;
    pending?.reject(new Error('the worker ended'));
    await (ending = ended?.terminate());
  };
  const exchange = async (message: Message, transferred: readonly Transferable[]): Promise<Result> => {
    clearTimeout(idle);
    const isLarge = transferred.some((value) => value instanceof ArrayBuffer && value.byteLength > MAX_KEPT_BYTES);
    pending = Promise.withResolvers<Result>();
    // Prevents an unhandled rejection if the worker is closed before the message is sent.
    pending.promise.catch(() => undefined);
    try {
      // Waits until the previous worker has ended, because otherwise two workers would use memory.
      await ending;
      worker ??= open();
      worker.postMessage(message, transferred);
      return await pending.promise;
    } finally {
      pending = undefined;
      if (isLarge) void close();
      else idle = setTimeout(() => void close(), IDLE_MS).unref();
    }
  };
  return {
    close,
    /** Processes one message at a time. Rejects with the error of a failed worker. */
    async send(message: Message, transferred: readonly Transferable[]): Promise<Result> {
      while (pending) await pending.promise.catch(() => undefined);
      return await exchange(message, transferred);
    },
  };
}
