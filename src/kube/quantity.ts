/** What the suffixes of quantities stand for, as powers: of 10 or, with an `i`, of 2. */
const DECIMAL: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY: Readonly<Record<string, bigint>> = { Ki: 10n, Mi: 20n, Gi: 30n, Ti: 40n, Pi: 50n, Ei: 60n };

const QUANTITY = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE])([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]?))$/;

/** Everything is counted in billionths, the smallest unit that there is. */
const SCALE = 9;

/**
 * A quantity such as `100m`, `1.5Gi` or `2e3` in billionths, rounded up; `undefined` for what is none.
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
