/** Reviews at a steady rate, and what became of each of them. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Review } from './reviews.ts';
import type { WebhookClient } from './webhook-client.ts';

/** A review and its right answer. */
export interface Question {
  /** Of the webhook. */
  readonly path: string;
  readonly review: Review;
  readonly allowed: boolean;
}

export interface LoadOptions {
  readonly client: WebhookClient;
  /** Asked in turn. */
  readonly questions: readonly Question[];
  readonly perSecond: number;
}

export interface LoadReport {
  readonly sent: number;
  /** What was said of each review that failed, and when, in milliseconds from the start. */
  readonly failures: readonly { readonly atMs: number; readonly message: string }[];
  /** Of those, how many a second try, half a second later, did not help. */
  readonly failedAgain: number;
  /** Answers that were not right. */
  readonly wrong: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface Load {
  /** How it goes so far. */
  report(): LoadReport;
  /** Resolves when what was sent is answered. */
  stop(): Promise<LoadReport>;
}

const TICK_MS = 10;
const RETRY_MS = 500;
const MAX_PENDING = 20;

/**
 * Sends reviews until it is stopped; slow answers do not slow it down, as those who create pods do not wait for each
 * other, unless there are so many of them that it is the machine which has no time.
 */
export function startLoad({ client, questions, perSecond }: LoadOptions): Load {
  const startMs = performance.now();
  const failures: { atMs: number; message: string }[] = [];
  const latencies: number[] = [];
  const pending = new Set<Promise<void>>();
  let nextMs = startMs;
  let sent = 0;
  let wrong = 0;
  let failedAgain = 0;

  const ask = async ({ path, review, allowed }: Question): Promise<void> => {
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
        failedAgain++;
      }
    }
  };
  const timer = setInterval(() => {
    const nowMs = performance.now();
    while (nowMs >= nextMs) {
      nextMs += 1000 / perSecond;
      const question = questions[sent % questions.length];
      if (!question || pending.size >= MAX_PENDING) continue;
      sent++;
      const asked = ask(question).finally(() => pending.delete(asked));
      pending.add(asked);
    }
  }, TICK_MS);

  const report = (): LoadReport => {
    const sorted = latencies.toSorted((a, b) => a - b);
    return {
      sent,
      failures,
      failedAgain,
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

/** What the given share of sorted values does not exceed, rounded to tenths; 0 of none. */
function percentile(sorted: readonly number[], share: number): number {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return Math.round(value * 10) / 10;
}
