/**
 * `node test/run.ts fuzz --time=60s --seed=1`: sends generated and mutated reviews to a server. For each failure, it
 * prints the command that reproduces it. `--only` selects one target, and `--round` its first round.
 */
import { parseArgs } from 'node:util';
import type { Outcome } from '../parts.ts';
import { findProblems, formatReport, fuzz } from './run.ts';

const UNITS_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };
/** Time after which the run continues with a new world and a new server. */
const WORLD_MS = 300_000;

export async function main(args: readonly string[]): Promise<Outcome> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      time: { type: 'string', default: '60s' },
      seed: { type: 'string' },
      only: { type: 'string' },
      round: { type: 'string' },
    },
  });
  const [, amount, unit = ''] = /^(\d+)([smh])$/.exec(values.time) ?? [];
  if (amount === undefined) throw new Error('--time must be a number of s, m or h, as in 60s');
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  const round = values.round === undefined ? undefined : Number(values.round);
  const endMs = performance.now() + Number(amount) * (UNITS_MS[unit] ?? 0);
  for (let world = seed; endMs - performance.now() > 1000; world++) {
    const timeMs = Math.min(WORLD_MS, endMs - performance.now());
    const report = await fuzz({ seed: world, timeMs, only: values.only, round });
    process.stdout.write(formatReport(report));
    if (report.failures.length + findProblems(report).length > 0) return { success: false };
  }
  return { success: true };
}
