import { setImmediate } from 'node:timers/promises';

/** Reviews share the thread: for so long they may have to wait. */
const TURN_MS = 5;

/**
 * Visits all items, and lets others go first whenever that has taken a while. What it visits may change in between.
 * Rejects with the reason of the signal if that is aborted.
 */
export async function inTurns<T>(
  items: Iterable<T>,
  visit: (item: T) => void,
  { now, signal }: { now(): number; readonly signal: AbortSignal },
): Promise<void> {
  let untilMs = now() + TURN_MS;
  for (const item of items) {
    visit(item);
    if (now() < untilMs) continue;
    await setImmediate();
    signal.throwIfAborted();
    untilMs = now() + TURN_MS;
  }
}
