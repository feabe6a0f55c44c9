import type { FuzzReport } from './run.ts';

/** A heap that is not full yet grows by less, a leak by more: the server may use 256 MiB of heap. */
const GROWTH_MIB = 128;

/** What is wrong with the server as a whole. */
export function problemsOf({ residentMiB: [middle, end], serverErrors, exitCode }: FuzzReport): readonly string[] {
  return [
    ...(exitCode === 0 ? [] : [`the server ended with ${exitCode}`]),
    ...(end - middle <= GROWTH_MIB ? [] : [`the server grew from ${middle} MiB to ${end} MiB in the second half`]),
    ...serverErrors.slice(0, 20).map((line) => `the server said: ${line}`),
  ];
}

/** The report as people read it: how many answers were judged, and each failure with the way to see it again. */
export function printReport(report: FuzzReport): string {
  const { seed, answers, failures, residentMiB } = report;
  const [middle, end] = residentMiB;
  const lines = [`seed ${seed}: ${answers} answers judged; the server used ${middle} MiB, at the end ${end} MiB`];
  for (const { target, round, counterexample, error } of failures) {
    lines.push(
      '',
      `FAILED: ${target}`,
      error,
      JSON.stringify(counterexample, undefined, 1),
      `again: npm run test:fuzz -- --seed=${seed} --only='${target}' --round=${round}`,
    );
  }
  return `${[...lines, ...problemsOf(report)].join('\n')}\n`;
}
