/** One case of the conformance data. */
export interface Case {
  readonly area: string;
  readonly name: string;
  readonly input: unknown;
  readonly expect: unknown;
}

/** An inner step of the original, and what decides it here. */
export interface Area {
  readonly by: string;
  check(given: Case): void;
}

/** Cases of each area have members of their own. */
export function area<Input, Expect>(by: string, check: (input: Input, expect: Expect) => void): Area {
  return { by, check: ({ input, expect }) => check(input as Input, expect as Expect) };
}
