import type { Store } from './store.ts';

/** How long to wait: until the signal is aborted or the time is up, whichever comes first. */
export interface Patience {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/**
 * Gathers from the store: at once if all is there, else as soon as a change brings what is missing (`gather` gives
 * `undefined` until then). Without polling; resolves to `undefined` when patience ends.
 */
export function until<T>(
  store: Store,
  gather: () => T | undefined,
  { timeoutMs, signal }: Patience,
): T | Promise<T | undefined> {
  const found = gather();
  if (found !== undefined) return found;
  return new Promise((resolve, reject) => {
    const end = (outcome: () => void): void => {
      clearTimeout(timer);
      unsubscribe();
      signal?.removeEventListener('abort', giveUp);
      outcome();
    };
    const giveUp = (): void => end(() => resolve(undefined));
    const look = (): void => {
      try {
        const gathered = gather();
        if (gathered !== undefined) end(() => resolve(gathered));
      } catch (error) {
        end(() => reject(error instanceof Error ? error : new Error(String(error))));
      }
    };
    const timer = setTimeout(giveUp, timeoutMs);
    const unsubscribe = store.subscribe(look);
    signal?.addEventListener('abort', giveUp, { once: true });
    if (signal?.aborted) giveUp();
  });
}
