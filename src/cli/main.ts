import { PROGRAM, type Command, EXIT, type Invocation, type Io } from './command.ts';
import { printFlags, type Option } from './options.ts';
import { UserError } from '../config/files.ts';
import { quote } from '../kube/text.ts';
import { printVersion } from './version.ts';

/** The help of the program: its commands. */
export function printProgramHelp(commands: readonly Command[]): string {
  return [
    `${PROGRAM} is a pod security admission server for Kubernetes.`,
    '',
    'Usage:',
    `  ${PROGRAM} COMMAND [options]`,
    '',
    'Commands:',
    ...printCommands(commands.map(({ name, summary }) => [name, summary])),
    '',
    'Options:',
    '  -h, --help     Show this help',
    '      --version  Show the version',
    '',
    `Use "${PROGRAM} COMMAND --help" for the options of a command.`,
    '',
  ].join('\n');
}

/** The help of the commands that begin with the same word. */
export function printGroupHelp(word: string, commands: readonly Command[]): string {
  return [
    'Usage:',
    `  ${PROGRAM} ${word} COMMAND [options]`,
    '',
    'Commands:',
    ...printCommands(commands.map(({ name, summary }) => [name.slice(word.length + 1), summary])),
    '',
    `Use "${PROGRAM} ${word} COMMAND --help" for the options of a command.`,
    '',
  ].join('\n');
}

function printCommands(rows: readonly (readonly [name: string, summary: string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, summary]) => `  ${name.padEnd(width)}  ${summary}`);
}

/** The help of one command. */
export function printCommandHelp(command: Command): string {
  const operands = command.operands === undefined ? '' : ` ${command.operands}`;
  const shown = Object.entries(command.options).filter(([, { visibility }]) => visibility !== 'hidden');
  return [
    `${command.summary}.`,
    '',
    'Usage:',
    `  ${PROGRAM} ${command.name} [options]${operands}`,
    '',
    'Options:',
    ...printOptions([...shown, ['help', { help: 'Show this help', short: 'h' }]]),
    '',
    ...(command.details === undefined ? [] : [command.details.trim(), '']),
  ].join('\n');
}

type OptionHelp = Omit<Option<unknown>, 'resolve'>;

function printOptions(options: readonly (readonly [name: string, option: OptionHelp])[]): string[] {
  const rows = options.map(([name, one]): [string, string] => [printName(name, one), printText(one)]);
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text.replaceAll('\n', `\n${' '.repeat(width + 4)}`)}`);
}

function printName(name: string, { short, value, ...rest }: OptionHelp): string {
  const flags = printFlags(name, { ...rest, ...(short === undefined ? {} : { short }) });
  return `${short === undefined ? '    ' : ''}${flags}${value === undefined ? '' : ` ${value}`}`;
}

function printText({ help, fallback, env }: OptionHelp): string {
  const remarks = [
    fallback === undefined ? [] : [`default ${JSON.stringify(fallback)}`],
    env === undefined ? [] : [`$${env}`],
  ];
  const remark = remarks.flat().join(', ');
  return remark === '' ? help : `${help} (${remark})`;
}

/** Runs the command that the arguments name; resolves to the exit code. A mistake of the user is told in one line. */
export async function run(args: readonly string[], commands: readonly Command[], io: Io): Promise<number> {
  const hint = `See '${subjectOf(args, commands)} --help' for usage.\n`;
  const invocation = await attempt(io, hint, () => prepare(args, commands, io.env));
  return typeof invocation === 'number' ? invocation : await attempt(io, '', () => invocation(io));
}

/** What the arguments ask for: a command, or help. */
function prepare(
  args: readonly string[],
  commands: readonly Command[],
  env: Io['env'],
): Invocation | Promise<Invocation> {
  const [name = '--help', ...rest] = args;
  if (name === 'help') return showing(helpOn(rest, commands));
  if (name === '--version') return showing(printVersion());
  const command = commandAt(args, commands);
  if (!command) return showing(helpOn(asksForHelp(args) ? args.slice(0, 1) : args, commands));
  const typed = args.slice(wordsOf(command).length);
  return asksForHelp(typed) ? showing(printCommandHelp(command)) : command.prepare(typed, env);
}

/** The help of the program, of a group of commands, or of a command. */
function helpOn(words: readonly string[], commands: readonly Command[]): string {
  const command = commandAt(words, commands);
  if (command) return printCommandHelp(command);
  const [word = '--help', ...rest] = words;
  if (word === '--help' || word === '-h') return printProgramHelp(commands);
  const group = groupOf(word, commands);
  const [unknown] = group.length === 0 ? words : rest;
  if (unknown === undefined) return printGroupHelp(word, group);
  if (unknown.startsWith('-')) throw new UserError(`unknown flag: ${unknown}`);
  throw new UserError(`unknown command ${quote(unknown)} for ${quote(subjectOf(words, commands))}`);
}

/** As much of the arguments as names a command, or a group of commands, behind the name of the program. */
function subjectOf(args: readonly string[], commands: readonly Command[]): string {
  const command = commandAt(args, commands);
  if (command) return `${PROGRAM} ${command.name}`;
  const [word = ''] = args;
  return groupOf(word, commands).length === 0 ? PROGRAM : `${PROGRAM} ${word}`;
}

/** The command whose words the arguments begin with. */
function commandAt(args: readonly string[], commands: readonly Command[]): Command | undefined {
  return commands.find((command) => wordsOf(command).every((word, index) => word === args[index]));
}

/** The commands of two words that begin with that one. */
function groupOf(word: string, commands: readonly Command[]): readonly Command[] {
  return commands.filter(({ name }) => name.startsWith(`${word} `));
}

function wordsOf({ name }: Command): readonly string[] {
  return name.split(' ');
}

/** Whatever else was typed, right or wrong: whoever asks for help gets it. */
function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return args.slice(0, end < 0 ? args.length : end).some((arg) => arg === '--help' || arg === '-h');
}

function showing(text: string): Invocation {
  return (io) => {
    io.stdout.write(text);
    return Promise.resolve(EXIT.passed);
  };
}

/** Turns what the user has to correct into a line, a hint and the exit code. */
async function attempt<T>(io: Io, hint: string, action: () => T | Promise<T>): Promise<T | number> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    io.stderr.write(`error: ${error.message}\n${hint}`);
    return EXIT.usage;
  }
}
