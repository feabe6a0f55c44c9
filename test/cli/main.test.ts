import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { UserError } from '../../src/config/files.ts';
import { defineCommand, type Io } from '../../src/cli/command.ts';
import { run } from '../../src/cli/main.ts';
import { flag, list, mapped, option, withEnvironment } from '../../src/cli/options.ts';
import { durationMs, integer, oneOf, text } from '../../src/cli/values.ts';
import { VERSION } from '../../src/cli/version.ts';

/** Tells what it was given. */
const paint = defineCommand({
  name: 'paint',
  summary: 'Paint things',
  operands: 'THING...',
  details: 'Examples:\n  portcullis paint door\n',
  options: withEnvironment('PAINT', {
    colour: option('COLOUR', oneOf(['red', 'blue']), 'red', {
      short: 'c',
      aliases: ['color'],
      help: 'Colour to paint in',
    }),
    layers: option('N', integer(1, 9), 1, { help: 'How many layers' }),
    'drying-time': option('DURATION', durationMs, undefined, { help: 'Pause between layers' }),
    tool: list('TOOL', text, { help: 'What to paint with\nmay be repeated' }),
    room: mapped(option('ROOM', text, 'hall', { help: 'Where' }), (room) => room.toUpperCase()),
    'dry-run': flag({ short: 'd', help: 'Do not paint' }),
    secret: flag({ help: 'Not shown', visibility: 'hidden' }),
  }),
  run(values, operands, io) {
    io.stdout.write(JSON.stringify([values, operands]));
    return Promise.resolve(0);
  },
});

const fail = defineCommand({
  name: 'fail',
  summary: 'Fail',
  options: {},
  run: () => Promise.reject(new UserError('the wall is missing')),
});

const build = defineCommand({
  name: 'wall build',
  summary: 'Build a wall',
  operands: 'STONE...',
  options: { high: flag({ help: 'Higher than usual' }) },
  run(values, operands, io) {
    io.stdout.write(JSON.stringify([values, operands]));
    return Promise.resolve(0);
  },
});

const raze = defineCommand({
  name: 'wall raze',
  summary: 'Tear it down',
  options: {},
  run: () => Promise.reject(new UserError('it is too high')),
});

const PROGRAM_HELP = `portcullis is a pod security admission server for Kubernetes.

Usage:
  portcullis COMMAND [options]

Commands:
  paint       Paint things
  wall build  Build a wall
  wall raze   Tear it down
  fail        Fail

Options:
  -h, --help     Show this help
      --version  Show the version

Use "portcullis COMMAND --help" for the options of a command.
`;

const PAINT_HELP = `Paint things.

Usage:
  portcullis paint [options] THING...

Options:
  -c, --colour COLOUR         Colour to paint in (default "red", $PAINT_COLOUR)
      --layers N              How many layers (default 1, $PAINT_LAYERS)
      --drying-time DURATION  Pause between layers ($PAINT_DRYING_TIME)
      --tool TOOL,...         What to paint with
                              may be repeated ($PAINT_TOOL)
      --room ROOM             Where (default "hall", $PAINT_ROOM)
  -d, --dry-run               Do not paint ($PAINT_DRY_RUN)
  -h, --help                  Show this help

Examples:
  portcullis paint door
`;

const WALL_HELP = `Usage:
  portcullis wall COMMAND [options]

Commands:
  build  Build a wall
  raze   Tear it down

Use "portcullis wall COMMAND --help" for the options of a command.
`;

const BUILD_HELP = `Build a wall.

Usage:
  portcullis wall build [options] STONE...

Options:
      --high  Higher than usual
  -h, --help  Show this help
`;

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function runWith(args: readonly string[], env: Io['env'] = {}): Promise<Outcome> {
  const written = { stdout: '', stderr: '' };
  const io: Io = {
    stdin: Readable.from([]),
    stdout: { write: (text) => void (written.stdout += text) },
    stderr: { write: (text) => void (written.stderr += text) },
    env,
    signal: new AbortController().signal,
  };
  return { code: await run(args, [paint, build, raze, fail], io), ...written };
}

const helps: readonly (readonly [args: readonly string[], stdout: string])[] = [
  [[], PROGRAM_HELP],
  [['--help'], PROGRAM_HELP],
  [['-h'], PROGRAM_HELP],
  [['help'], PROGRAM_HELP],
  [['--version'], `portcullis v${VERSION}\n`],
  [['help', 'paint'], PAINT_HELP],
  [['paint', '--help'], PAINT_HELP],
  [['paint', '--unknown', '-h'], PAINT_HELP],
  [['wall'], WALL_HELP],
  [['wall', '--help'], WALL_HELP],
  [['wall', '-h', 'build'], WALL_HELP],
  [['wall', 'burn', '--help'], WALL_HELP],
  [['help', 'wall'], WALL_HELP],
  [['wall', 'build', '--help'], BUILD_HELP],
  [['help', 'wall', 'build'], BUILD_HELP],
];

const DEFAULTS = { colour: 'red', layers: 1, tool: [], room: 'HALL', 'dry-run': false, secret: false };

const given: readonly (readonly [
  name: string,
  args: readonly string[],
  env: Io['env'],
  values: Readonly<Record<string, unknown>>,
  operands?: readonly string[],
])[] = [
  ['nothing', ['door'], {}, {}],
  ['a value after a space', ['--colour', 'blue', 'door'], {}, { colour: 'blue' }],
  ['a value after an equals sign', ['--colour=blue', 'door'], {}, { colour: 'blue' }],
  ['another name of the option', ['--color=blue', 'door'], {}, { colour: 'blue' }],
  ['a short option', ['-c', 'blue', 'door'], {}, { colour: 'blue' }],
  ['a short option, its value beside it', ['-cblue', 'door'], {}, { colour: 'blue' }],
  ['a short option with an equals sign', ['-c=blue', 'door'], {}, { colour: 'blue' }],
  ['short options together', ['-dc', 'blue', 'door'], {}, { colour: 'blue', 'dry-run': true }],
  ['the last of several', ['--layers=2', '--layers', '3', 'door'], {}, { layers: 3 }],
  ['several values', ['--tool=brush,roll', '--tool', 'spray', 'door'], {}, { tool: ['brush', 'roll', 'spray'] }],
  ['a flag', ['--dry-run', 'door'], {}, { 'dry-run': true }],
  ['a flag that is off', ['--dry-run=false', 'door'], {}, { 'dry-run': false }],
  ['a hidden flag', ['--secret', 'door'], {}, { secret: true }],
  ['a value that looks like an option', ['--room', '--dry-run', 'door'], {}, { room: '--DRY-RUN' }],
  ['an empty value', ['--room=', 'door'], {}, { room: '' }],
  ['operands between options', ['a', '--layers', '2', '-', 'b'], {}, { layers: 2 }, ['a', '-', 'b']],
  ['operands after two dashes', ['--', '--layers', '-h'], {}, {}, ['--layers', '-h']],
  ['a duration', ['--drying-time=1m30s', 'door'], {}, { 'drying-time': 90_000 }],
  [
    'the environment',
    ['door'],
    { PAINT_COLOUR: 'blue', PAINT_DRY_RUN: 'true', PAINT_TOOL: 'a,b' },
    { colour: 'blue', 'dry-run': true, tool: ['a', 'b'] },
  ],
  ['an option before the environment', ['--colour=red', 'door'], { PAINT_COLOUR: 'blue' }, { colour: 'red' }],
  [
    'the environment, unused if it is wrong but not needed',
    ['--layers=2', 'door'],
    { PAINT_LAYERS: 'x' },
    { layers: 2 },
  ],
];

const SEE_WALL = "See 'portcullis wall --help' for usage.\n";

const mistakes: readonly (readonly [args: readonly string[], env: Io['env'], stderr: string])[] = [
  [['pant'], {}, 'error: unknown command "pant" for "portcullis"\nSee \'portcullis --help\' for usage.\n'],
  [['--paint'], {}, "error: unknown flag: --paint\nSee 'portcullis --help' for usage.\n"],
  [['help', 'x'], {}, 'error: unknown command "x" for "portcullis"\nSee \'portcullis --help\' for usage.\n'],
  [['wall', 'burn'], {}, `error: unknown command "burn" for "portcullis wall"\n${SEE_WALL}`],
  [
    ['help', 'wall', 'burn'],
    {},
    'error: unknown command "burn" for "portcullis wall"\nSee \'portcullis --help\' for usage.\n',
  ],
  [['wall', '--high'], {}, `error: unknown flag: --high\n${SEE_WALL}`],
  [['build'], {}, 'error: unknown command "build" for "portcullis"\nSee \'portcullis --help\' for usage.\n'],
  [['wall build'], {}, 'error: unknown command "wall build" for "portcullis"\nSee \'portcullis --help\' for usage.\n'],
  [['wal'], {}, 'error: unknown command "wal" for "portcullis"\nSee \'portcullis --help\' for usage.\n'],
  [['pant', '--help'], {}, 'error: unknown command "pant" for "portcullis"\nSee \'portcullis --help\' for usage.\n'],
  [['wall', 'build'], {}, "error: wall build needs STONE...\nSee 'portcullis wall build --help' for usage.\n"],
  [['wall', 'raze'], {}, 'error: it is too high\n'],
  [['paint'], {}, "error: paint needs THING...\nSee 'portcullis paint --help' for usage.\n"],
  [['paint', '--clour=red', 'door'], {}, "error: unknown flag: --clour\nSee 'portcullis paint --help' for usage.\n"],
  [['paint', '-x', 'door'], {}, "error: unknown shorthand flag: -x\nSee 'portcullis paint --help' for usage.\n"],
  [
    ['paint', '--constructor', 'door'],
    {},
    "error: unknown flag: --constructor\nSee 'portcullis paint --help' for usage.\n",
  ],
  [
    ['paint', 'door', '--colour'],
    {},
    "error: flag needs an argument: --colour\nSee 'portcullis paint --help' for usage.\n",
  ],
  [
    ['paint', '--colour=pink', 'door'],
    {},
    'error: invalid argument "pink" for "-c, --colour" flag: must be one of red, blue\nSee \'portcullis paint --help\' for usage.\n',
  ],
  [
    ['paint', '--colour=red', '--colour=pink', 'door'],
    {},
    'error: invalid argument "pink" for "-c, --colour" flag: must be one of red, blue\nSee \'portcullis paint --help\' for usage.\n',
  ],
  [
    ['paint', 'door'],
    { PAINT_LAYERS: 'x\n' },
    'error: invalid argument "x\\n" for environment variable PAINT_LAYERS: must be a whole number from 1 to 9\n' +
      "See 'portcullis paint --help' for usage.\n",
  ],
  [
    ['paint', '--layers=10', 'door'],
    {},
    'error: invalid argument "10" for "--layers" flag: must be a whole number from 1 to 9\nSee \'portcullis paint --help\' for usage.\n',
  ],
  [
    ['paint', '--drying-time=5', 'door'],
    {},
    'error: invalid argument "5" for "--drying-time" flag: must be a duration such as 5s or 1m30s\n' +
      "See 'portcullis paint --help' for usage.\n",
  ],
  [
    ['paint', '--dry-run=perhaps', 'door'],
    {},
    'error: invalid argument "perhaps" for "-d, --dry-run" flag: must be true or false\nSee \'portcullis paint --help\' for usage.\n',
  ],
  [['fail', 'now'], {}, 'error: unexpected argument "now"\nSee \'portcullis fail --help\' for usage.\n'],
  [['fail'], {}, 'error: the wall is missing\n'],
];

describe('run', () => {
  test('reads the operands and options of a command of two words', async () => {
    const stdout = '[{"high":true},["build","wall"]]';
    assert.deepEqual(await runWith(['wall', 'build', '--high', 'build', 'wall']), { code: 0, stdout, stderr: '' });
  });
  for (const [args, stdout] of helps) {
    test(`shows help for ${JSON.stringify(args)}`, async () => {
      assert.deepEqual(await runWith(args), { code: 0, stdout, stderr: '' });
    });
  }
  for (const [name, args, env, values, operands = ['door']] of given) {
    test(`reads ${name}`, async () => {
      const { code, stdout, stderr } = await runWith(['paint', ...args], env);
      assert.deepEqual([code, stderr], [0, '']);
      assert.deepEqual(JSON.parse(stdout), [{ ...DEFAULTS, ...values }, operands]);
    });
  }
  for (const [args, env, stderr] of mistakes) {
    test(`refuses ${JSON.stringify(args)}`, async () => {
      assert.deepEqual(await runWith(args, env), { code: 2, stdout: '', stderr });
    });
  }

  test('what is no mistake of the user is not hidden', async () => {
    const bug = defineCommand({
      name: 'bug',
      summary: 'Bug',
      options: {},
      run: () => Promise.reject(new TypeError('bug')),
    });
    const io: Io = {
      stdin: Readable.from([]),
      stdout: { write: () => undefined },
      stderr: { write: () => undefined },
      env: {},
      signal: new AbortController().signal,
    };
    await assert.rejects(run(['bug'], [bug], io), TypeError);
  });
});
