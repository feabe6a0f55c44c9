/**
 * `npm run bench [-- --only evaluate|assign|serve|scale|rollout|controllers|api-server] [--peers FOLDER]
 * [--peer URL [--peer-pid PID]] [--previous FILE] [--json FILE]` runs benchmarks.
 */
import { writeFile } from 'node:fs/promises';
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { benchApiServer } from './api-server.ts';
import { benchAssign } from './assign.ts';
import { benchControllers } from './controllers.ts';
import { benchEvaluate } from './evaluate.ts';
import { benchRollout } from './rollout.ts';
import { formatTable, isWithinTarget, type Row } from './row.ts';
import { benchScale } from './scale.ts';
import { benchServe } from './serve.ts';

/** Load average above which other programs may affect the results. */
const MAX_LOAD = 0.5;

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    peers: { type: 'string' },
    peer: { type: 'string' },
    'peer-pid': { type: 'string' },
    previous: { type: 'string' },
    json: { type: 'string' },
  },
});

const parts: Readonly<Record<string, () => Row[] | Promise<Row[]>>> = {
  evaluate: benchEvaluate,
  assign: benchAssign,
  serve: () =>
    benchServe({
      peer: values.peer,
      peerPid: values['peer-pid'] ? Number(values['peer-pid']) : undefined,
      previous: values.previous,
    }),
  scale: benchScale,
  rollout: benchRollout,
  controllers: benchControllers,
  'api-server': () => benchApiServer({ peers: values.peers, previous: values.previous }),
};
const names = values.only === undefined ? Object.keys(parts) : values.only.split(',');
const rows: Row[] = [];
process.stdout.write(`${process.version} on ${cpus().length} × ${cpus()[0]?.model ?? 'an unknown processor'}\n`);
const [load = 0] = loadavg();
if (load > MAX_LOAD) {
  process.stdout.write(
    `The machine is not idle: its load average is ${load.toFixed(1)}. Only ratios are comparable.\n`,
  );
}
for (const name of names) {
  const part = parts[name];
  if (!part) throw new Error(`--only: must be among ${Object.keys(parts).join(', ')}`);
  const measured = await part();
  process.stdout.write(`\n${name}\n${formatTable(measured)}\n`);
  rows.push(...measured);
}
if (values.json !== undefined) {
  const results = rows.map((row) => ({ ...row, ok: isWithinTarget(row) }));
  await writeFile(values.json, `${JSON.stringify({ node: process.version, load, results }, undefined, 2)}\n`);
}
