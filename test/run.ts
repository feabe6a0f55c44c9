/**
 * `npm test [-- [--install] PART...]` or `node test/run.ts [--install] PART...`: runs parts of the tests, and prints
 * the numbers of passed, failed and skipped tests, the message of each failure, and the reason of each skip. A part is
 * a name in `parts.ts`, a folder of test/ or a file. Without arguments, it runs the parts that need no other programs.
 * With --install, it installs the programs that the parts need (see `tools/index.ts`), and fails if it cannot. The
 * argument `all` (`npm run test:all`) selects the parts that CI runs, and sets --install. If the first part accepts
 * arguments, all following arguments are passed to it.
 */
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { ALL, DEFAULT, findPart, type Outcome } from './parts.ts';
import { runFiles } from './support/run-files.ts';
import { formatTables } from './support/tables.ts';
import { findTools } from './tools/index.ts';

/** Folder of the programs of npm packages. */
const PACKAGES = join(import.meta.dirname, '../node_modules/.bin');

/** Number of lines of each failure in the summary. The complete message is in the output of its part. */
const MAX_MESSAGE_LINES = 20;

async function runPart(name: string, args: readonly string[], installsTools: boolean): Promise<Outcome> {
  process.stdout.write(`\n${name}\n`);
  const { commands = [], files = [], main, concurrency = 1, timeoutMs, environment = {}, tools = [] } = findPart(name);
  const folders = installsTools ? [...findTools(tools).values()] : [];
  const path = [...folders, PACKAGES, process.env['PATH'] ?? ''].join(delimiter);
  const before = { ...process.env };
  Object.assign(process.env, environment, { PATH: path });
  try {
    const statuses = commands.map(([program, ...rest]) => spawnSync(program, rest, { stdio: 'inherit' }).status);
    const outcome = main ? await main(args) : await runFiles(globSync([...files]).sort(), concurrency, timeoutMs);
    return { ...outcome, success: outcome.success && statuses.every((status) => status === 0) };
  } finally {
    process.env = before;
  }
}

function printSummary(outcomes: ReadonlyMap<string, Outcome>): void {
  const rows = [...outcomes].map(([name, { success, passed = 0, failed = 0, skips = [] }]) =>
    [name.padEnd(14), passed, failed, skips.length, success ? 'ok' : 'FAILED']
      .map((cell) => String(cell).padStart(7))
      .join(' '),
  );
  const skipped = [...outcomes].flatMap(([part, { skips = [] }]) =>
    skips.map(({ file, name, reason }) => `${part}: ${file}: ${name}: ${reason}`),
  );
  const failed = [...outcomes].flatMap(([part, { failures = [] }]) =>
    failures.map(({ file, name, message }) => {
      const lines = message.trim().split('\n').slice(0, MAX_MESSAGE_LINES);
      return `${part}: ${file}: ${name}: ${lines.join('\n    ')}`;
    }),
  );
  const sum = (count: (outcome: Outcome) => number): number =>
    [...outcomes.values()].reduce((total, outcome) => total + count(outcome), 0);
  const total = [
    `${sum(({ passed = 0 }) => passed)} passed`,
    // A part can fail even if no test has failed.
    `${sum(({ failed = 0, success }) => (success ? failed : Math.max(failed, 1)))} failed`,
    `${skipped.length} skipped`,
  ];
  const lines = [
    '',
    ...[...outcomes.values()].flatMap(({ rows = [] }) => formatTables(rows)),
    `${'part'.padEnd(14)}  passed  failed skipped`,
    ...rows,
    ...(failed.length === 0 ? [] : ['', 'failed:', ...failed.map((line) => `  ${line}`)]),
    ...(skipped.length === 0 ? [] : ['', 'skipped:', ...skipped.map((line) => `  ${line}`)]),
    '',
    total.join(', '),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

const args = process.argv.slice(2).filter((argument) => argument !== '--install');
const isComplete = args.includes('all');
const installsTools = isComplete || process.argv.includes('--install');
const outcomes = new Map<string, Outcome>();
const [first, ...rest] = args;
if (first !== undefined && !isComplete && findPart(first).main !== undefined) {
  outcomes.set(first, await runPart(first, rest, installsTools));
} else {
  const names = isComplete ? ALL : first === undefined ? DEFAULT : args;
  for (const name of names) outcomes.set(name, await runPart(name, [], installsTools));
}
printSummary(outcomes);
if ([...outcomes.values()].some(({ success }) => !success)) process.exitCode = 1;
