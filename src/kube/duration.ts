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

/**
 * A Go duration such as `5s` or `1m30s`, in milliseconds; `undefined` if it is none or not positive.
 * @see https://pkg.go.dev/time#ParseDuration
 */
export function parseDurationMs(text: string): number | undefined {
  if (!/^(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*$/.test(text))
    return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/([\d.]+)(ns|us|µs|μs|ms|s|m|h)/g)) {
    total += Number(amount) * (UNITS_MS[unit ?? ''] ?? Number.NaN);
  }
  return total > 0 && Number.isFinite(total) ? total : undefined;
}
