/** A time as objects hold it: RFC 3339 in UTC, in whole seconds. */
export function timestampOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Milliseconds since 1970; `undefined` for what is absent or no time. */
export function readTimestamp(text: string | null | undefined): number | undefined {
  const ms = text == null ? NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}
