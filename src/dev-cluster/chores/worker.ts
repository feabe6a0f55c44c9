import type { StoredChange } from '../history.ts';
import type { Chore } from './chore.ts';

/** Does the chores that changes ask for, one after the other. */
export interface Worker {
  notice(change: StoredChange): void;
  add(chore: Chore, key: string): void;
  /** Resolves once nothing waits to be done; what is to be tried again later does not count. */
  idle(): Promise<void>;
  stop(): void;
}

interface Job {
  readonly chore: Chore;
  readonly key: string;
}

const FIRST_RETRY_MS = 10;
const LAST_RETRY_MS = 1000;

/** Makes a worker. A chore that fails is tried again, each time after a longer while. */
export function createWorker(
  chores: readonly Chore[],
  onError: (error: unknown, chore: string, key: string) => void,
): Worker {
  const waiting = new Map<string, Job>();
  const delays = new Map<string, number>();
  const timers = new Set<NodeJS.Timeout>();
  let running: Promise<void> | undefined;
  let stopped = false;

  const add = (chore: Chore, key: string): void => {
    if (stopped) return;
    waiting.set(`${chore.name} ${key}`, { chore, key });
    running ??= drain();
  };
  const later = (id: string, { chore, key }: Job): void => {
    const delayMs = delays.get(id) ?? FIRST_RETRY_MS;
    delays.set(id, Math.min(delayMs * 2, LAST_RETRY_MS));
    const timer = setTimeout(() => {
      timers.delete(timer);
      add(chore, key);
    }, delayMs);
    timers.add(timer.unref());
  };
  const run = async (id: string, job: Job): Promise<void> => {
    try {
      await job.chore.run(job.key);
      delays.delete(id);
    } catch (error) {
      onError(error, job.chore.name, job.key);
      if (!stopped) later(id, job);
    }
  };
  const drain = async (): Promise<void> => {
    // The change that asks for a chore is still being told to others.
    await Promise.resolve();
    for (let next = first(waiting); next && !stopped; next = first(waiting)) {
      waiting.delete(next[0]);
      await run(...next);
    }
    running = undefined;
  };

  return {
    notice(change) {
      for (const chore of chores) {
        const key = chore.keyOf(change);
        if (key !== undefined) add(chore, key);
      }
    },
    add,
    async idle() {
      while (running) await running;
    },
    stop() {
      stopped = true;
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
    },
  };
}

function first<T>(map: ReadonlyMap<string, T>): [string, T] | undefined {
  for (const entry of map) return entry;
  return undefined;
}
