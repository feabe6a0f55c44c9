/**
 * `npm test [-- [--install] PART...]`: runs parts of the tests, and prints the numbers of passed, failed and skipped
 * tests, and the reason of each skip. Without arguments, it runs the parts that need no other programs. With --install,
 * it installs the programs that the parts need (see `tools/index.ts`), and fails if it cannot. The argument `all` selects
 * the parts that CI runs, and sets --install.
 */
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { delimiter } from 'node:path';
import { parseArgs } from 'node:util';
import { PARTS } from './parts.ts';
import { type RunResults, runFiles } from './support/run-files.ts';
import { findTools } from './tools/index.ts';

/** The check of types, style and imports, which runs no tests. */
const CHECK = 'check';
const DEFAULT = [CHECK, 'main'];
/** `main` includes the conformance tests. */
const ALL = [...DEFAULT, 'e2e', 'matrix', 'kubectl', 'kubectl-1.32', 'helm-4', 'upstream', 'web', 'release'];

/** Result of a part. `undefined` if it runs no tests. */
type Outcome = { readonly success: boolean } & Partial<RunResults>;

async function runPart(name: string, installsTools: boolean): Promise<Outcome> {
  process.stdout.write(`\n${name}\n`);
  if (name === CHECK)
    return { success: spawnSync('npm', ['run', '--silent', 'check'], { stdio: 'inherit' }).status === 0 };
  const { files, concurrency = 1, environment = {}, tools = [] } = PARTS[name] ?? unknownPart(name);
  const folders = installsTools ? [...findTools(tools).values()] : [];
  const path = [...folders, process.env['PATH'] ?? ''].join(delimiter);
  const before = { ...process.env };
  Object.assign(process.env, environment, { PATH: path });
  try {
    return await runFiles(globSync([...files]).sort(), concurrency);
  } finally {
    process.env = before;
  }
}

function unknownPart(name: string): never {
  throw new Error(`there is no part "${name}": use all, ${[CHECK, ...Object.keys(PARTS)].join(', ')}`);
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
  const sum = (count: (outcome: Outcome) => number): number =>
    [...outcomes.values()].reduce((total, outcome) => total + count(outcome), 0);
  const total = [
    `${sum(({ passed = 0 }) => passed)} passed`,
    `${sum(({ failed = 0, success, passed }) => (passed === undefined && !success ? 1 : failed))} failed`,
    `${skipped.length} skipped`,
  ];
  const lines = [
    '',
    `${'part'.padEnd(14)}  passed  failed skipped`,
    ...rows,
    ...(skipped.length === 0 ? [] : ['', 'skipped:', ...skipped.map((line) => `  ${line}`)]),
    '',
    total.join(', '),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { install: { type: 'boolean', default: false } },
});
const isComplete = positionals.includes('all');
const names = isComplete ? ALL : positionals.length === 0 ? DEFAULT : positionals;
const outcomes = new Map<string, Outcome>();
for (const name of names) outcomes.set(name, await runPart(name, isComplete || values.install));
printSummary(outcomes);
if ([...outcomes.values()].some(({ success }) => !success)) process.exitCode = 1;
