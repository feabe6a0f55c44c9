/** Reduces large reviews in a worker thread, so they neither block the event loop nor fill the heap. */
import type { Worker } from 'node:worker_threads';
import { createWorkerClient, ownBytes, startWorker } from '../cluster/worker-client.ts';
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

export function startReviewWorker(): Worker {
  return startWorker('review-worker', import.meta.url, HEAP_LIMITS);
}

export type ReviewReader = ReturnType<typeof createReviewReader>;

export function createReviewReader(start = startReviewWorker) {
  const { close, send } = createWorkerClient<LargeReview, ReducedReview>(start);
  return {
    close,
    /**
     * Reduces a review. The bytes are transferred to the worker, which frees them, so the buffer is empty afterwards.
     * @throws the error of a failed worker
     */
    async reduce(body: Buffer, isWhole: boolean): Promise<ReducedReview> {
      const bytes = ownBytes(body);
      return await send({ bytes, isWhole }, [bytes.buffer]);
    },
  };
}
