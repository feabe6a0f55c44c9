/**
 * Commands of the program. A command neither ends the process nor uses other streams than those of its `Io`; it
 * joins what the rest of the program decides, and decides nothing itself.
 */
import { UserError } from '../config/files.ts';
import { quote } from '../kube/text.ts';
import { readArguments } from './arguments.ts';
import { resolveValues, type Options, type Values } from './options.ts';

/** Where a command writes. */
export interface Output {
  write(text: string): unknown;
  /** True on a terminal. */
  readonly isTTY?: boolean;
}

/** All that a command gets from the process. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted when the process is asked to stop; the reason is the name of the signal. */
  readonly signal: AbortSignal;
}

/** The exit codes. */
export const EXIT = { passed: 0, violations: 1, usage: 2 } as const;

/** The name of the program, as users type it. */
export const PROGRAM = 'portcullis';

interface Description {
  readonly name: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  /** How the help writes the operands; a command without it takes none, with it needs at least one, unless in brackets. */
  readonly operands?: string;
  /** What the help says below the options. */
  readonly details?: string;
}

/** A command with its operands and the values of its options, ready to run; resolves to the exit code. */
export type Invocation = (io: Io) => Promise<number>;

export interface Command extends Description {
  readonly options: Options;
  /**
   * Reads the arguments after the command's name.
   * @throws {UserError} for a wrong option, value or operand
   */
  prepare(args: readonly string[], env: Io['env']): Invocation | Promise<Invocation>;
}

/** Makes a command out of its options and what it does with their values. */
export function defineCommand<O extends Options>(
  definition: Description & {
    readonly options: O;
    /** Rejects with a `UserError` for what the user has to correct. */
    run(values: Values<O>, operands: readonly string[], io: Io): Promise<number>;
  },
): Command {
  const { run, ...description } = definition;
  return {
    ...description,
    prepare(args, env) {
      const { typed, operands } = readArguments(args, description.options);
      checkOperands(description, operands);
      const values = resolveValues(description.options, { typed, env });
      return (io) => run(values, operands, io);
    },
  };
}

/** @throws {UserError} for operands that are missing or too many */
export function checkOperands({ name, operands }: Description, typed: readonly string[]): void {
  const [first] = typed;
  if (operands === undefined && first !== undefined) throw new UserError(`unexpected argument ${quote(first)}`);
  const isNeeded = operands !== undefined && !operands.startsWith('[');
  if (isNeeded && first === undefined) throw new UserError(`${name} needs ${operands}`);
}
