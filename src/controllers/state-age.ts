/** Time after which API servers have observed a change to a policy or webhook configuration. They take about 1 s. */
export const OBSERVED_MS = 5_000;

/**
 * Creates a function that returns the milliseconds since a state was first observed. The result is 0 if the state has
 * just changed, and `undefined` if it is `undefined`.
 */
export function createStateAge() {
  let seen: { readonly state: string; readonly sinceMs: number } | undefined;
  return (state: string | undefined, nowMs: number): number | undefined => {
    if (state === undefined) seen = undefined;
    else if (seen?.state !== state) seen = { state, sinceMs: nowMs };
    return seen && nowMs - seen.sinceMs;
  };
}
