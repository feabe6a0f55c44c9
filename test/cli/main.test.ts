import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { UserError } from '../../src/config/user-error.ts';
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
    tool: list('TOOL,...', text, { help: 'What to paint with\nmay be repeated' }),
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

const PROGRAM_HELP = `portcullis is a pod security admission server for Kubernetes.

Usage:
  portcullis COMMAND [options]

Commands:
  paint  Paint things
  fail   Fail

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
  return { code: await run(args, [paint, fail], io), ...written };
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

const mistakes: readonly (readonly [args: readonly string[], env: Io['env'], stderr: string])[] = [
  [['pant'], {}, 'error: unknown command "pant" for "portcullis"\nSee \'portcullis --help\' for usage.\n'],
  [['--paint'], {}, "error: unknown flag: --paint\nSee 'portcullis --help' for usage.\n"],
  [['help', 'x'], {}, 'error: unknown command "x" for "portcullis"\nSee \'portcullis --help\' for usage.\n'],
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
