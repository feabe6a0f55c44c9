import { setTimeout as pause } from 'node:timers/promises';

/** Repeats an attempt until it succeeds. Rejects with the last error after the timeout. */
export async function eventually<T>(attempt: () => T | Promise<T>, timeoutMs = 15_000): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await pause(50);
    }
  }
}
