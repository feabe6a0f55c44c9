import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Command, type CommandEntry, defineCommand, type Io, VERSION } from '../../src/cli/command.ts';
import {
  durationMs,
  flag,
  flagOn,
  integer,
  list,
  mapped,
  oneOf,
  option,
  text,
  withEnvironment,
} from '../../src/cli/options.ts';
import { COMMANDS } from '../../src/cli/program.ts';
import { UserError } from '../../src/kube/user-error.ts';
import { runProgram } from '../support/memory-io.ts';

/** Prints its options and operands. */
const paint = defineCommand({
  operands: '<thing...>',
  details: 'Examples:\n  portcullis paint door\n',
  options: withEnvironment('PAINT', {
    color: option('COLOR', oneOf(['red', 'blue']), 'red', { short: 'c', help: 'Color of the paint' }),
    layers: option('N', integer(1, 9), 1, { help: 'Number of layers' }),
    'drying-time': option('DURATION', durationMs, undefined, { help: 'Pause between layers' }),
    tool: list('TOOL', text, { help: 'Tools' }),
    room: mapped(option('ROOM', text, 'hall', { help: 'Room' }), (room: string) => room.toUpperCase()),
    'dry-run': flag({ short: 'd', help: 'Do not paint', conflicts: ['drying-time'] }),
    'no-ladder': flag({ help: 'Work without a ladder' }),
    primer: flagOn({ help: 'Apply a primer first' }),
  }),
  run(values, operands, io) {
    io.stdout.write(JSON.stringify([values, operands]));
    return Promise.resolve(0);
  },
});

const build = defineCommand({
  operands: '<stone...>',
  options: { high: flag({ help: 'Higher than usual' }) },
  run(values, operands, io) {
    io.stdout.write(JSON.stringify([values, operands]));
    return Promise.resolve(1);
  },
});

function failing(error: Error): Command {
  return defineCommand({ options: {}, run: () => Promise.reject(error) });
}

function entry(name: string, group: string, summary: string, command: Command): CommandEntry {
  return { name, group, summary, load: () => Promise.resolve({ command }) };
}

const ENTRIES = [
  entry('paint', 'Paint:', 'Paint things', paint),
  entry('wall build', 'Walls:', 'Build a wall', build),
  entry(
    'wall raze',
    'Walls:',
    'Tear a wall down',
    failing(new UserError('the wall cannot be removed\n- \u001b[2Jit is old')),
  ),
  entry('fail', 'Other:', 'Fail', failing(new UserError('the wall does not exist'))),
  entry('bug', 'Other:', 'Fail with a defect', failing(new TypeError('bug'))),
];

const PROGRAM_HELP = `Usage: portcullis COMMAND [options]

Pod security admission server for Kubernetes

Options:
  --version   Show the version
  -h, --help  Show this help

Paint:
  paint       Paint things

Walls:
  wall build  Build a wall
  wall raze   Tear a wall down

Other:
  fail        Fail
  bug         Fail with a defect

Use "portcullis COMMAND --help" for more information about a command.
`;

const PAINT_HELP = `Usage: portcullis paint [options] <thing...>

Paint things.

Options:
  -c, --color <color>       Color of the paint (choices: "red", "blue", default: red)
  --layers <n>              Number of layers (default: 1)
  --drying-time <duration>  Pause between layers
  --tool <tool,...>         Tools
  --room <room>             Room (default: hall)
  -d, --dry-run             Do not paint
  --no-ladder               Work without a ladder
  --primer                  Apply a primer first (default: true)
  -h, --help                Show this help

Examples:
  portcullis paint door
`;

const WALL_HELP = `Usage: portcullis wall [options] [command]

Options:
  -h, --help  Show this help

Walls:
  build       Build a wall
  raze        Tear a wall down
`;

const BUILD_HELP = `Usage: portcullis wall build [options] <stone...>

Build a wall.

Options:
  --high      Higher than usual
  -h, --help  Show this help
`;

const runWith = (args: readonly string[], env: Io['env'] = {}) => runProgram(args, { env, commands: ENTRIES });

const HELP: readonly (readonly [args: readonly string[], stdout: string])[] = [
  [[], PROGRAM_HELP],
  [['--help'], PROGRAM_HELP],
  [['-h'], PROGRAM_HELP],
  [['help'], PROGRAM_HELP],
  [['--version'], `portcullis v${VERSION}\n`],
  [['help', 'paint'], PAINT_HELP],
  [['paint', '--help'], PAINT_HELP],
  [['paint', '--unknown', '-h'], PAINT_HELP],
  [['wall', '--help'], WALL_HELP],
  [['help', 'wall'], WALL_HELP],
  [['wall', 'build', '--help'], BUILD_HELP],
  [['help', 'wall', 'build'], BUILD_HELP],
];

const DEFAULTS = {
  color: 'red',
  layers: 1,
  tool: [],
  room: 'HALL',
  'dry-run': false,
  'no-ladder': false,
  primer: true,
};

const VALUES: readonly (readonly [
  name: string,
  args: readonly string[],
  env: Io['env'],
  values: Readonly<Record<string, unknown>>,
  operands?: readonly string[],
])[] = [
  ['defaults', ['door'], {}, {}],
  ['a value after a space', ['--color', 'blue', 'door'], {}, { color: 'blue' }],
  ['a value after an equal sign', ['--color=blue', 'door'], {}, { color: 'blue' }],
  ['a short option', ['-c', 'blue', 'door'], {}, { color: 'blue' }],
  ['a short option with an attached value', ['-cblue', 'door'], {}, { color: 'blue' }],
  ['a short option with an equal sign', ['-c=blue', 'door'], {}, { color: 'blue' }],
  ['combined short options', ['-dc', 'blue', 'door'], {}, { color: 'blue', 'dry-run': true }],
  ['a list', ['--tool=brush,roll', '--tool', 'spray', 'door'], {}, { tool: ['brush', 'roll', 'spray'] }],
  ['a flag', ['--dry-run', 'door'], {}, { 'dry-run': true }],
  ['a flag that is true', ['--dry-run=true', 'door'], {}, { 'dry-run': true }],
  ['a flag that is false', ['--dry-run=false', 'door'], {}, { 'dry-run': false }],
  ['a flag with a negative name', ['--no-ladder', 'door'], {}, { 'no-ladder': true }],
  ['a flag with a negative name that is false', ['--no-ladder=false', 'door'], {}, {}],
  ['a negated flag', ['--no-primer', 'door'], {}, { primer: false }],
  ['a value with the form of an option', ['--room', '--dry-run', 'door'], {}, { room: '--DRY-RUN' }],
  ['a value with the form of an assignment', ['--room', '--layers=2', 'door'], {}, { room: '--LAYERS=2' }],
  ['an empty value', ['--room=', 'door'], {}, { room: '' }],
  ['operands between options', ['a', '--layers', '2', '-', 'b'], {}, { layers: 2 }, ['a', '-', 'b']],
  ['operands after two dashes', ['--', '--layers', '-h'], {}, {}, ['--layers', '-h']],
  ['a duration', ['--drying-time=1m30s', 'door'], {}, { 'drying-time': 90_000 }],
  [
    'environment variables',
    ['door'],
    { PAINT_COLOR: 'blue', PAINT_DRY_RUN: 'true', PAINT_TOOL: 'a,b' },
    { color: 'blue', 'dry-run': true, tool: ['a', 'b'] },
  ],
  [
    'an argument instead of its environment variable',
    ['--color=red', 'door'],
    { PAINT_COLOR: 'blue' },
    { color: 'red' },
  ],
  [
    'an argument even if its environment variable is invalid',
    ['--layers=2', 'door'],
    { PAINT_LAYERS: 'x' },
    { layers: 2 },
  ],
];

/** The arguments, separated by spaces, the message, and the environment. */
const MISTAKES: readonly (readonly [args: string, message: string, env?: Io['env']])[] = [
  ['pant', "unknown command 'pant'\n(Did you mean paint?)"],
  ['--paint', "unknown option '--paint'"],
  ['paint', "missing required argument 'thing'"],
  ['paint --colour=red door', "unknown option '--colour'\n(Did you mean --color?)"],
  ['paint -x door', "unknown option '-x'"],
  ['paint --constructor door', "unknown option '--constructor'"],
  ['paint door --color', "option '-c, --color <color>' argument missing"],
  ['paint --color=red -c pink door', '"-c, --color" flag takes one value, not 2: "red", "pink"'],
  ['paint --layers=2 --layers 2 door', '"--layers" flag takes one value, not 2: "2", "2"'],
  [
    'paint door',
    'invalid argument "x\\n" for environment variable PAINT_LAYERS: must be a whole number from 1 to 9',
    { PAINT_LAYERS: 'x\n' },
  ],
  [
    'paint --drying-time=5 door',
    'invalid argument "5" for "--drying-time" flag: must be a duration such as 5s or 1m30s',
  ],
  ['paint --dry-run=perhaps door', 'invalid argument "perhaps" for "-d, --dry-run" flag: must be true or false'],
  [
    'paint --dry-run --drying-time=5s door',
    "option '-d, --dry-run' cannot be used with option '--drying-time <duration>'",
  ],
  ['wall burn', "unknown command 'burn'"],
  ['wall --high', "unknown option '--high'"],
  ['wall build', "missing required argument 'stone'"],
  ['fail now', "too many arguments for 'fail'. Expected 0 arguments but got 1: now."],
];

/** Returns the command whose help the message about these arguments recommends. */
function helpedCommand(args: string): string {
  const command = ['paint', 'wall build', 'wall', 'fail'].find((name) => `${args} `.startsWith(`${name} `));
  return command === undefined ? 'portcullis' : `portcullis ${command}`;
}

describe('run', () => {
  for (const [args, stdout] of HELP) {
    test(`shows help for ${JSON.stringify(args)}`, async () => {
      assert.deepEqual(await runWith(args), { code: 0, stdout, stderr: '' });
    });
  }
  for (const [name, args, env, values, operands = ['door']] of VALUES) {
    test(`reads ${name}`, async () => {
      const { code, stdout, stderr } = await runWith(['paint', ...args], env);
      assert.deepEqual([code, stderr], [0, '']);
      assert.deepEqual(JSON.parse(stdout), [{ ...DEFAULTS, ...values }, operands]);
    });
  }
  for (const [args, message, env] of MISTAKES) {
    test(`rejects ${args}`, async () => {
      const stderr = `error: ${message}\nSee '${helpedCommand(args)} --help' for usage.\n`;
      assert.deepEqual(await runWith(args.split(' '), env), { code: 2, stdout: '', stderr });
    });
  }

  const others: readonly (readonly [args: readonly string[], stderr: string])[] = [
    [['wall build'], "error: unknown command 'wall build'\nSee 'portcullis --help' for usage.\n"],
    [['wall'], WALL_HELP],
    [['wall', 'raze'], 'error: the wall cannot be removed\n- \\u001b[2Jit is old\n'],
    [['fail'], 'error: the wall does not exist\n'],
  ];
  for (const [args, stderr] of others) {
    test(`fails for ${JSON.stringify(args)}`, async () => {
      assert.deepEqual(await runWith(args), { code: 2, stdout: '', stderr });
    });
  }

  test('runs a subcommand and returns its exit code', async () => {
    const stdout = '[{"high":true},["build","wall"]]';
    assert.deepEqual(await runWith(['wall', 'build', '--high', 'build', 'wall']), { code: 1, stdout, stderr: '' });
  });

  const NEXT = `Next: portcullis scc plan; or "portcullis doctor" (portcullis rollout plan)
  kubectl -n portcullis rollout status deployment/portcullis
`;
  const calls: readonly (readonly [file: string, args: readonly string[], expected: string])[] = [
    ['portcullis', ['scc', 'next'], NEXT],
    ['kubectl-portcullis', ['scc', 'next'], NEXT.replaceAll(/portcullis (?=scc|doctor|rollout plan)/g, 'kubectl $&')],
    ['kubectl-scc', ['next'], NEXT.replace('portcullis scc', 'kubectl scc')],
  ];
  for (const [file, args, text] of calls) {
    test(`prints the name ${file} in commands in text, but not in data`, async () => {
      const command = defineCommand({
        options: {},
        run(_values, _operands, io) {
          io.stdout.write(NEXT);
          io.text.write(NEXT);
          io.stderr.write(NEXT);
          return Promise.resolve(0);
        },
      });
      const entry = { name: 'scc next', group: 'Test', summary: 'Print', load: () => Promise.resolve({ command }) };
      const outcome = await runProgram(args, { file, commands: [entry] });
      assert.deepEqual(outcome, { code: 0, stdout: NEXT + text, stderr: text });
    });
  }

  test('rethrows unexpected errors', async () => {
    await assert.rejects(runWith(['bug']), TypeError);
  });
});

test('every command shows its help', async () => {
  const { stdout } = await runProgram(['--help']);
  const commands = [...stdout.matchAll(/^ {2}((?:[a-z][a-z-]* ?){1,2}?) {2,}\S/gm)].map(([, name = '']) => name.trim());
  assert.deepEqual(
    commands,
    COMMANDS.map(({ name }) => name),
  );
  for (const name of commands) {
    const help = await runProgram([...name.split(' '), '--help']);
    assert.equal(help.code, 0);
    assert.ok(help.stdout.startsWith(`Usage: portcullis ${name} [options]`), help.stdout);
  }
});
