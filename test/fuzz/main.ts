/**
 * `npm run test:fuzz -- --time=60s --seed=1`: sends generated and mutated reviews to a server. For each failure, it
 * prints the command that reproduces it. `--only` selects one target, and `--round` its first round.
 */
import { parseArgs } from 'node:util';
import { findProblems, formatReport, fuzz } from './run.ts';

const { values } = parseArgs({
  options: {
    time: { type: 'string', default: '60s' },
    seed: { type: 'string' },
    only: { type: 'string' },
    round: { type: 'string' },
  },
});

const time = /^(\d+)(s|m|h)$/.exec(values.time);
if (!time) throw new Error('--time must be a number of s, m or h, as in 60s');
const timeMs = Number(time[1]) * { s: 1000, m: 60_000, h: 3_600_000 }[time[2] as 's' | 'm' | 'h'];
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
const round = values.round === undefined ? undefined : Number(values.round);

/** The time after which the run continues with a new world and a new server. */
const WORLD_MS = 300_000;

const endMs = performance.now() + timeMs;
for (let world = seed; endMs - performance.now() > 1000 && process.exitCode === undefined; world++) {
  const report = await fuzz({
    seed: world,
    timeMs: Math.min(WORLD_MS, endMs - performance.now()),
    only: values.only,
    round,
  });
  process.stdout.write(formatReport(report));
  if (report.failures.length + findProblems(report).length > 0) process.exitCode = 1;
}
