/** Reduces large reviews in a worker thread, so they neither block the event loop nor fill the heap. */
import { getAsset, isSea } from 'node:sea';
import { Worker } from 'node:worker_threads';
import { errorCode } from '../kube/error-code.ts';
import type { ReducedReview } from './large-review.ts';

/** A message to the worker, to which the bytes are transferred. */
export interface LargeReview {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly isWhole: boolean;
}

/**
 * Heap limits of the worker in MiB. The limits are low because buffers are outside the heap, and scanning them creates
 * few values.
 */
const HEAP_LIMITS = { maxOldGenerationSizeMb: 48, maxYoungGenerationSizeMb: 8 };
/** The worker exits after this time without reviews, to free its memory. */
const IDLE_MS = 30_000;

/** Starts the worker. Its file is next to this file, or embedded in a single executable. */
export function startWorker(): Worker {
  const options = { resourceLimits: HEAP_LIMITS };
  if (isSea()) return new Worker(getAsset('review-worker.cjs', 'utf8'), { ...options, eval: true });
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./review-worker.${extension}`, import.meta.url), options);
}

/** True if the worker ran out of memory during a review. */
export function isOutOfMemory(error: unknown): boolean {
  return errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY';
}

export type ReviewReader = ReturnType<typeof createReviewReader>;

/** Creates the reader. It starts its worker for the first review and restarts it after a failure. */
export function createReviewReader(start = startWorker) {
  let worker: Worker | undefined;
  let pending: PromiseWithResolvers<ReducedReview> | undefined;
  let idle: NodeJS.Timeout | undefined;
  const open = (): Worker => {
    const created = start();
    created.unref();
    const fail = (error: Error): void => {
      if (worker !== created) return;
      worker = undefined;
      pending?.reject(error);
    };
    created.on('message', (reduced: ReducedReview) => pending?.resolve(reduced));
    created.on('error', fail);
    created.on('exit', () => fail(new Error('the worker ended')));
    return created;
  };
  const close = async (): Promise<void> => {
    clearTimeout(idle);
    const ended = worker;
    // The worker may be exiting when a review arrives. The review then needs a new worker.
    worker = undefined;
    pending?.reject(new Error('the worker ended'));
    await ended?.terminate();
  };
  return {
    close,
    /**
     * Reduces one review at a time. The bytes are transferred to the worker, which frees them, so the buffer is empty
     * afterwards.
     * @throws the error of a failed worker
     */
    async reduce(body: Buffer, isWhole: boolean): Promise<ReducedReview> {
      clearTimeout(idle);
      worker ??= open();
      pending = Promise.withResolvers<ReducedReview>();
      const bytes = ownBytes(body);
      worker.postMessage({ bytes, isWhole } satisfies LargeReview, [bytes.buffer]);
      try {
        return await pending.promise;
      } finally {
        pending = undefined;
        idle = setTimeout(() => void close(), IDLE_MS).unref();
      }
    },
  };
}

/** Returns transferable bytes. Copies them if other requests share the buffer. */
function ownBytes(body: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer, length } = body;
  return buffer instanceof ArrayBuffer && length === buffer.byteLength ? new Uint8Array(buffer) : Uint8Array.from(body);
}
