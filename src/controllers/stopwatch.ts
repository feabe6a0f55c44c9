export type Stopwatch = ReturnType<typeof createStopwatch>;

/** Measures how long a state has lasted. */
export function createStopwatch() {
  let seen: { readonly state: string; readonly sinceMs: number } | undefined;
  return {
    /**
     * Returns the milliseconds since the state was first observed, which is 0 if it has just changed. Returns
     * `undefined` if the state is `undefined`.
     */
    elapsedMs(state: string | undefined, nowMs: number): number | undefined {
      if (state === undefined) seen = undefined;
      else if (seen?.state !== state) seen = { state, sinceMs: nowMs };
      return seen && nowMs - seen.sinceMs;
    },
  };
}
