/**
 * `npm run test:fuzz -- --time=60s --seed=1`: generated and changed reviews against a real server. A failure tells how to see
 * it again; `--only` tries one target, from `--round` on.
 */
import { parseArgs } from 'node:util';
import { fuzz } from './run.ts';
import { printReport, problemsOf } from './print-report.ts';

const { values } = parseArgs({
  options: {
    time: { type: 'string', default: '60s' },
    seed: { type: 'string' },
    only: { type: 'string' },
    round: { type: 'string' },
  },
});

const found = /^(\d+)(s|m|h)$/.exec(values.time);
if (!found) throw new Error('--time must be a number of s, m or h, as in 60s');
const timeMs = Number(found[1]) * { s: 1000, m: 60_000, h: 3_600_000 }[found[2] as 's' | 'm' | 'h'];
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
const round = values.round === undefined ? undefined : Number(values.round);

/** After that long another world is tried, with a server of its own. */
const WORLD_MS = 300_000;

const endMs = performance.now() + timeMs;
for (let world = seed; endMs - performance.now() > 1000 && process.exitCode === undefined; world++) {
  const report = await fuzz({
    seed: world,
    timeMs: Math.min(WORLD_MS, endMs - performance.now()),
    only: values.only,
    round,
  });
  process.stdout.write(printReport(report));
  if (report.failures.length + problemsOf(report).length > 0) process.exitCode = 1;
}
