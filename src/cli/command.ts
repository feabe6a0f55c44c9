import packageJson from '../../package.json' with { type: 'json' };
import type { Options, Sources, Values } from './options.ts';

/** An output stream of a command. */
export interface Output {
  write(text: string): unknown;
  /** True on a terminal. */
  readonly isTTY?: boolean;
  /** The width of the terminal in characters. */
  readonly columns?: number;
}

/** The part of the process that the program may use. It neither ends the process nor uses other streams. */
export interface ProcessIo {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted when the process has to stop; the reason is the name of the signal. */
  readonly signal: AbortSignal;
}

/** The streams of a command. Commands in text on `text` and `stderr` get the name of the running program, such as `kubectl scc`. */
export interface Io extends ProcessIo {
  /** The standard output for text instead of data and manifests. */
  readonly text: Output;
}

/** The exit codes. */
export const EXIT = { passed: 0, violations: 1, usage: 2 } as const;

/** The name of the program on the command line. */
export const PROGRAM = 'portcullis';

/** The version of the program, without a leading `v`. */
export const VERSION = packageJson.version;

/** The URL of the repository for browsers. */
export const REPOSITORY = packageJson.repository.url.replace(/^git\+/, '').replace(/\.git$/, '');

/** Returns the URL of a page of the documentation of this version. */
export function docsUrl(page: string): string {
  return `${REPOSITORY}/blob/v${VERSION}/docs/${page}`;
}

/** A command without its name, summary and group, which are in the registry of `program.ts`. */
export interface Command<O extends Options = Options> {
  /** The operands in commander's syntax: `<path...>` is required, `[path...]` is optional. */
  readonly operands?: string;
  /** The text below the options in the help. */
  readonly details?: string;
  readonly options: O;
  /** Runs the command and resolves to the exit code. Rejects with a `UserError` for a mistake of the user. */
  run(values: Values<O>, operands: readonly string[], io: Io, sources: Sources): Promise<number>;
}

/** Defines a command; the types of the values follow from the options. */
export function defineCommand<O extends Options>(command: Command<O>): Command {
  return command;
}

/** A row of the command tree in `program.ts`. */
export interface CommandEntry {
  /** One word, or two words for a subcommand. */
  readonly name: string;
  /** The heading of the command in the help of the program. */
  readonly group: string;
  readonly summary: string;
  load(): Promise<{ readonly command: Command }>;
}
