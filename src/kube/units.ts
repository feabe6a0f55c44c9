/** Milliseconds of a day. */
export const DAY_MS = 86_400_000;

const UNITS_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

const DURATION = /^(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/;
const PART = /([\d.]+)(\D+)/y;
/** Longest duration in Go, which is 2^63 - 1 nanoseconds. */
const MAX_MS = 2 ** 63 / 1e6;

/**
 * Parses a Go duration such as `5s`, `1m30s` or `0` into milliseconds. Returns `undefined` for negative durations and
 * any other text.
 * @see https://pkg.go.dev/time#ParseDuration
 */
export function parseDurationMs(text: string): number | undefined {
  if (text === '0') return 0;
  if (!DURATION.test(text)) return undefined;
  let total = 0;
  // Not `matchAll`, which takes three times as long because it copies the expression.
  for (let part = PART.exec(text); part; part = PART.exec(text)) {
    total += Number(part[1]) * (UNITS_MS[part[2] ?? ''] ?? 0);
  }
  return total < MAX_MS ? total : undefined;
}

/** Formats a time in UTC in RFC 3339 format with second precision. */
export function formatTimestamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Formats a time as a Kubernetes MicroTime, which is RFC 3339 in UTC with microseconds. */
export function formatMicroTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}

/** Parses a time into milliseconds since the epoch. Returns `undefined` if the time is absent or malformed. */
export function parseTimestamp(text: string | null | undefined): number | undefined {
  const ms = text == null ? NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

/**
 * Parses a valid Kubernetes quantity such as `500m` or `1Gi`. Returns an approximate number.
 * @see https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
 */
export function parseQuantity(quantity: string): number {
  const [, number, prefix = '', binary] = /^(.*?)([numkKMGTPE]?)(i?)$/.exec(quantity.trim()) ?? [];
  const power = 'num kMGTPE'.indexOf(prefix.replace('K', 'k') || ' ') - 3;
  return Number(number) * (binary === 'i' ? 1024 : 1000) ** power;
}
