/** Sends reviews at a steady rate and reports failures, wrong decisions and latencies. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Review } from './reviews.ts';
import type { WebhookClient } from './webhook-client.ts';

export interface ExpectedReview {
  /** Path of the webhook. */
  readonly path: string;
  readonly review: Review;
  readonly allowed: boolean;
}

export interface LoadOptions {
  readonly client: WebhookClient;
  /** Reviews to send in rotation. */
  readonly reviews: readonly ExpectedReview[];
  readonly perSecond: number;
}

export interface LoadReport {
  readonly sent: number;
  /** The error of each failed review, and its time after the start in milliseconds. */
  readonly failures: readonly { readonly atMs: number; readonly message: string }[];
  /** Number of failed reviews whose retry after 500 ms also failed. */
  readonly failedRetries: number;
  readonly wrong: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface Load {
  /** Returns the report so far. */
  report(): LoadReport;
  /** Stops sending and waits for pending responses. */
  stop(): Promise<LoadReport>;
}

const TICK_MS = 10;
const RETRY_MS = 500;
const MAX_PENDING = 20;

/**
 * Sends reviews until it is stopped. The rate depends on the latency only while 20 reviews are pending, which indicates
 * a busy machine.
 */
export function startLoad({ client, reviews, perSecond }: LoadOptions): Load {
  const startMs = performance.now();
  const failures: { atMs: number; message: string }[] = [];
  const latencies: number[] = [];
  const pending = new Set<Promise<void>>();
  let nextMs = startMs;
  let sent = 0;
  let wrong = 0;
  let failedRetries = 0;

  const send = async ({ path, review, allowed }: ExpectedReview): Promise<void> => {
    const sentMs = performance.now();
    try {
      if ((await client.call(path, review)) !== allowed) wrong++;
      latencies.push(performance.now() - sentMs);
    } catch (error) {
      failures.push({ atMs: Math.round(sentMs - startMs), message: (error as Error).message });
      try {
        await pause(RETRY_MS);
        if ((await client.call(path, review)) !== allowed) wrong++;
      } catch {
        failedRetries++;
      }
    }
  };
  const timer = setInterval(() => {
    const nowMs = performance.now();
    while (nowMs >= nextMs) {
      nextMs += 1000 / perSecond;
      const next = reviews[sent % reviews.length];
      if (!next || pending.size >= MAX_PENDING) continue;
      sent++;
      const sending = send(next).finally(() => pending.delete(sending));
      pending.add(sending);
    }
  }, TICK_MS);

  const report = (): LoadReport => {
    const sorted = latencies.toSorted((a, b) => a - b);
    return {
      sent,
      failures,
      failedRetries,
      wrong,
      p50Ms: percentile(sorted, 0.5),
      p99Ms: percentile(sorted, 0.99),
      maxMs: percentile(sorted, 1),
    };
  };
  return {
    report,
    async stop() {
      clearInterval(timer);
      await Promise.all(pending);
      return report();
    },
  };
}

/** Returns a percentile of sorted values, rounded to tenths, or 0 if there are no values. */
function percentile(sorted: readonly number[], share: number): number {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return Math.round(value * 10) / 10;
}
