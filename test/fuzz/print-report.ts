import type { FuzzReport } from './run.ts';

/** The report as people read it: how many answers were judged, and each failure with the way to see it again. */
export function printReport({ seed, answers, failures, residentMiB, serverErrors, exitCode }: FuzzReport): string {
  const [warm, end] = residentMiB.map(Math.round);
  const lines = [`seed ${seed}: ${answers} answers judged; the server used ${warm} MiB, at the end ${end} MiB`];
  for (const { target, round, counterexample, error } of failures) {
    lines.push(
      '',
      `FAILED: ${target}`,
      error,
      JSON.stringify(counterexample, undefined, 1),
      `again: npm run test:fuzz -- --seed=${seed} --only='${target}' --round=${round}`,
    );
  }
  if (exitCode !== 0) lines.push(`the server ended with ${exitCode}`);
  if (serverErrors.length > 0) lines.push('errors of the server:', ...serverErrors.slice(0, 20));
  return `${lines.join('\n')}\n`;
}
