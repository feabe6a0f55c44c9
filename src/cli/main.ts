import { UserError } from '../config/user-error.ts';
import { quote } from '../kube/quote.ts';
import { EXIT, PROGRAM, type Command, type Invocation, type Io } from './command.ts';
import { printCommandHelp, printGroupHelp, printProgramHelp } from './help.ts';
import { printVersion } from './version.ts';

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
