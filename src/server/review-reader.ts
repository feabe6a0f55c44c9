/** Reads large reviews in a worker thread, so that their size neither blocks the event loop nor fills the heap. */
import { getAsset, isSea } from 'node:sea';
import { Worker } from 'node:worker_threads';
import type { Envelope } from './envelope.ts';

/** A message to the worker. The worker owns the bytes until it responds. */
export interface LargeReview {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly isWhole: boolean;
}

interface ReadReview {
  readonly envelope: Envelope;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Limits of the heap of the worker in MiB. Reviews that need more than half of it are rejected before they are parsed, since V8
 * may end the process if the heap of a worker is exhausted.
 */
const HEAP_LIMITS = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 16 };
/** The worker ends after this time without reviews, so that its memory is free. */
const IDLE_MS = 30_000;

/** Starts the worker. Its file is in the folder of this file; a single executable contains it. */
export function startWorker(): Worker {
  const options = { resourceLimits: HEAP_LIMITS };
  if (isSea()) return new Worker(getAsset('review-worker.cjs', 'utf8'), { ...options, eval: true });
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./review-worker.${extension}`, import.meta.url), options);
}

export type ReviewReader = ReturnType<typeof createReviewReader>;

/** Creates the reader. Its worker starts with the first review, and again after a failure. */
export function createReviewReader(start = startWorker) {
  let worker: Worker | undefined;
  let pending: PromiseWithResolvers<ReadReview> | undefined;
  let idle: NodeJS.Timeout | undefined;
  const open = (): Worker => {
    const created = start();
    created.unref();
    const fail = (error: Error): void => {
      if (worker !== created) return;
      worker = undefined;
      pending?.reject(error);
    };
    created.on('message', (read: ReadReview) => pending?.resolve(read));
    created.on('error', fail);
    created.on('exit', () => fail(new Error('the worker ended')));
    return created;
  };
  const close = async (): Promise<void> => {
    clearTimeout(idle);
    const ended = worker;
    // A review that arrives before the worker has ended requires another worker.
    worker = undefined;
    pending?.reject(new Error('the worker ended'));
    await ended?.terminate();
  };
  return {
    close,
    /**
     * Reads a review. Reviews are read one after another. The bytes are moved to the worker and back, so that the buffer is empty
     * afterwards and the result has another one.
     * @throws the error of a worker that failed
     */
    async read(body: Buffer, isWhole: boolean): Promise<{ readonly envelope: Envelope; readonly body: Buffer }> {
      clearTimeout(idle);
      worker ??= open();
      pending = Promise.withResolvers<ReadReview>();
      const bytes = ownBytes(body);
      worker.postMessage({ bytes, isWhole } satisfies LargeReview, [bytes.buffer]);
      try {
        const read = await pending.promise;
        return { envelope: read.envelope, body: Buffer.from(read.bytes.buffer) };
      } finally {
        pending = undefined;
        idle = setTimeout(() => void close(), IDLE_MS).unref();
      }
    },
  };
}

/** Returns bytes that can be moved. The bytes of a chunk that is shared with other requests are copied. */
function ownBytes(body: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer, length } = body;
  return buffer instanceof ArrayBuffer && length === buffer.byteLength ? new Uint8Array(buffer) : Uint8Array.from(body);
}
