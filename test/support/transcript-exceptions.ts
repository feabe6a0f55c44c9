/** Where the embedded cluster answers otherwise than the recorded API server, and why that is right. */

interface Exception {
  readonly reason: string;
  /** Reduces both answers to what has to be equal. */
  reduce(answer: unknown): unknown;
}

const SAME: Exception = { reason: '', reduce: (answer) => answer };

const EXCEPTIONS: Readonly<Record<string, Exception>> = {};

export function exceptionFor(name: string): Exception {
  return Object.hasOwn(EXCEPTIONS, name) ? (EXCEPTIONS[name] ?? SAME) : SAME;
}
