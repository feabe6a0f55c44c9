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

const PART = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g;
const DURATION = new RegExp(`^(?:${PART.source})+$`);

/**
 * Parses a Go duration such as `5s`, `1m30s` or `0` into milliseconds. Returns `undefined` for negative durations and
 * any other text.
 * @see https://pkg.go.dev/time#ParseDuration /
 */
export function parseDurationMs(text: string): number | undefined {
  if (text === '0') return 0;
  if (!DURATION.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit = ''] of text.matchAll(PART)) total += Number(amount) * (UNITS_MS[unit] ?? 0);
  return Number.isFinite(total) ? total : undefined;
}

/** Exponents of the quantity suffixes. The base is 10, or 2 for suffixes with an `i`. */
const DECIMAL: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY: Readonly<Record<string, bigint>> = { Ki: 10n, Mi: 20n, Gi: 30n, Ti: 40n, Pi: 50n, Ei: 60n };

const QUANTITY = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE])([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]?))$/;

/** Quantities are parsed into billionths, the smallest unit that they can express. */
const SCALE = 9;

/**
 * Parses a quantity such as `100m`, `1.5Gi` or `2e3` into billionths, rounded up. Returns `undefined` for other values.
 * @see https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
 */
export function parseQuantity(value: unknown): bigint | undefined {
  const match = QUANTITY.exec(typeof value === 'number' ? String(value) : typeof value === 'string' ? value : '');
  if (!match) return undefined;
  const [, sign, digits = '', exponent, power = '0', suffix = ''] = match;
  const [whole = '', fraction = ''] = digits.split('.');
  const factor = BINARY[suffix];
  const shift = SCALE - fraction.length + (exponent === undefined ? (DECIMAL[suffix] ?? 0) : Number(power));
  const amount = scale(BigInt(`${whole}${fraction}` || '0') << (factor ?? 0n), shift);
  return sign === '-' ? -amount : amount;
}

function scale(amount: bigint, shift: number): bigint {
  if (shift >= 0) return amount * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  return (amount + divisor - 1n) / divisor;
}

/** Formats a time as RFC 3339 in UTC with a precision of seconds. */
export function formatTimestamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Parses a time into milliseconds since 1970. Returns `undefined` if the time is absent or malformed. */
export function parseTimestamp(text: string | null | undefined): number | undefined {
  const ms = text == null ? NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}
