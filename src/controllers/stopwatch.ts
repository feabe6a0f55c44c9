/** Tells for how long something has stayed as it is. */
export interface Stopwatch {
  /** Milliseconds since it was first seen like this; 0 if it was otherwise just now. `undefined` stands for nothing to see. */
  msOf(state: string | undefined, nowMs: number): number | undefined;
}

/** Makes a stopwatch that has seen nothing yet. */
export function createStopwatch(): Stopwatch {
  let seen: { readonly state: string; readonly sinceMs: number } | undefined;
  return {
    msOf(state, nowMs) {
      if (state === undefined) seen = undefined;
      else if (seen?.state !== state) seen = { state, sinceMs: nowMs };
      return seen && nowMs - seen.sinceMs;
    },
  };
}
