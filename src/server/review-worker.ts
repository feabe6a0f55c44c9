/** Worker thread that reduces large reviews. */
import { parentPort } from 'node:worker_threads';
import { reduceReview } from './large-review.ts';
import type { LargeReview } from './review-reader.ts';

parentPort?.on('message', ({ bytes, isWhole }: LargeReview) => {
  const { buffer, byteOffset, length } = bytes;
  const reduced = reduceReview(Buffer.from(buffer, byteOffset, length), isWhole);
  // Frees the memory immediately instead of at the next garbage collection.
  buffer.transfer(0);
  parentPort?.postMessage(reduced, 'review' in reduced ? [reduced.review.buffer] : []);
});
