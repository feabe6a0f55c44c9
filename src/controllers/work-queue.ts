import type { WorkQueueMetrics } from '../telemetry/work-queue.ts';
import type { Clock } from '../cluster/clock.ts';

/**
 * Keys to work on, the first come first: a key waits once however often it is added, and is worked on by one at a time.
 * @see https://github.com/kubernetes/client-go/blob/v0.36.0/util/workqueue/queue.go
 */
export interface WorkQueue {
  /** A key that is being worked on comes again after it is done. */
  add(key: string): void;
  /** Adds the key later; of several delays of a key the shortest counts. */
  addAfter(key: string, delayMs: number): void;
  /** The next key, which is to be given back with `done`; `undefined` if none waits. */
  take(): string | undefined;
  done(key: string): void;
  /** Forgets all that waits and takes nothing more. */
  close(): void;
}

export interface WorkQueueOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly metrics: WorkQueueMetrics;
  /** Called whenever a key has come that can be taken. */
  readonly onReady: () => void;
}

interface Delayed {
  readonly dueMs: number;
  readonly cancel: () => void;
}

/** Makes an empty queue. */
export function createWorkQueue({ name, clock, metrics, onReady }: WorkQueueOptions): WorkQueue {
  let ready: string[] = [];
  /** Keys to work on, with the time since when; those that are being worked on come again. */
  const wanted = new Map<string, number>();
  const running = new Map<string, number>();
  const delayed = new Map<string, Delayed>();
  const adds = metrics.adds.cell({ name });
  const queueDuration = metrics.queueDuration(name);
  const workDuration = metrics.workDuration(name);
  const secondsSince = (startMs: number): number => (clock.now() - startMs) / 1000;
  const unfollow = metrics.follow(name, () => ({
    depth: ready.length,
    runningSeconds: Array.from(running.values(), secondsSince),
  }));
  let closed = false;

  const makeReady = (key: string): void => {
    ready.push(key);
    onReady();
  };
  const add = (key: string): void => {
    if (closed || wanted.has(key)) return;
    adds.count++;
    wanted.set(key, clock.now());
    if (!running.has(key)) makeReady(key);
  };
  return {
    add,
    addAfter(key, delayMs) {
      if (closed) return;
      const dueMs = clock.now() + delayMs;
      const earlier = delayed.get(key);
      if (earlier && earlier.dueMs <= dueMs) return;
      earlier?.cancel();
      const cancel = clock.after(delayMs, () => {
        delayed.delete(key);
        add(key);
      });
      delayed.set(key, { dueMs, cancel });
    },
    take() {
      const key = ready.shift();
      if (key === undefined) return undefined;
      queueDuration.observe(secondsSince(wanted.get(key) ?? clock.now()));
      wanted.delete(key);
      running.set(key, clock.now());
      return key;
    },
    done(key) {
      workDuration.observe(secondsSince(running.get(key) ?? clock.now()));
      running.delete(key);
      if (wanted.has(key)) makeReady(key);
    },
    close() {
      closed = true;
      for (const { cancel } of delayed.values()) cancel();
      delayed.clear();
      wanted.clear();
      ready = [];
      unfollow();
    },
  };
}
