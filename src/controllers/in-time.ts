import type { Clock } from '../cluster/clock.ts';

/**
 * Resolves with what the call gives. Rejects when that takes longer, and aborts the signal: what the call still does
 * then, it does for nobody.
 */
export async function inTime<T>(clock: Clock, limitMs: number, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController();
  const tooLate = new Promise<never>((_resolve, reject) => {
    late.signal.addEventListener('abort', () => reject(late.signal.reason as Error));
  });
  const cancel = clock.after(limitMs, () => late.abort(new Error(`no answer within ${limitMs / 1000} s`)));
  try {
    return await Promise.race([call(late.signal), tooLate]);
  } finally {
    cancel();
  }
}
