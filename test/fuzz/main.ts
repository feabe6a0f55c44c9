/** `npm run test:fuzz -- --time=60s --seed=1`: generated and changed reviews against a real server. */
import { parseArgs } from 'node:util';
import { fuzz } from './run.ts';
import { printReport } from './print-report.ts';

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
const report = await fuzz({ seed, timeMs, only: values.only, round });
process.stdout.write(printReport(report));
process.exitCode = report.failures.length === 0 && report.exitCode === 0 && report.serverErrors.length === 0 ? 0 : 1;
