import { UserError } from '../config/user-error.ts';
import { quote } from '../kube/quote.ts';
import { EXIT, PROGRAM, type Command, type Invocation, type Io } from './command.ts';
import { printCommandHelp, printProgramHelp } from './help.ts';
import { printVersion } from './version.ts';

/** Runs the command that the arguments name; resolves to the exit code. A mistake of the user is told in one line. */
export async function run(args: readonly string[], commands: readonly Command[], io: Io): Promise<number> {
  const command = commands.find(({ name }) => name === args[0]);
  const subject = command ? `${PROGRAM} ${command.name}` : PROGRAM;
  const invocation = await attempt(io, `See '${subject} --help' for usage.\n`, () => prepare(args, commands, io.env));
  return typeof invocation === 'number' ? invocation : await attempt(io, '', () => invocation(io));
}

/** What the arguments ask for: a command, or help. */
function prepare(
  args: readonly string[],
  commands: readonly Command[],
  env: Io['env'],
): Invocation | Promise<Invocation> {
  const [name = '--help', ...rest] = args;
  if (name === 'help') return showing(helpOn(rest[0], commands));
  if (name === '--help' || name === '-h') return showing(printProgramHelp(commands));
  if (name === '--version') return showing(printVersion());
  if (name.startsWith('-')) throw new UserError(`unknown flag: ${name}`);
  const command = findCommand(name, commands);
  return asksForHelp(rest) ? showing(printCommandHelp(command)) : command.prepare(rest, env);
}

function helpOn(name: string | undefined, commands: readonly Command[]): string {
  return name === undefined ? printProgramHelp(commands) : printCommandHelp(findCommand(name, commands));
}

function findCommand(name: string, commands: readonly Command[]): Command {
  const command = commands.find((one) => one.name === name);
  if (!command) throw new UserError(`unknown command ${quote(name)} for ${quote(PROGRAM)}`);
  return command;
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
