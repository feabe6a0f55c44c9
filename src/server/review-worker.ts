/** The worker thread that reads large reviews. */
import { parentPort } from 'node:worker_threads';
import { readLargeReview } from './large-review.ts';
import type { LargeReview } from './review-reader.ts';

parentPort?.on('message', ({ bytes, isWhole }: LargeReview) => {
  const { buffer, byteOffset, length } = bytes;
  const envelope = readLargeReview(Buffer.from(buffer, byteOffset, length), isWhole);
  parentPort?.postMessage({ envelope, bytes }, [buffer]);
});
