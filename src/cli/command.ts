import packageJson from '../../package.json' with { type: 'json' };
import type { Options, Sources, Values } from './options.ts';

export interface Output {
  write(text: string): unknown;
  /** True if the stream is a terminal. */
  readonly isTTY?: boolean;
  /** Terminal width in characters. */
  readonly columns?: number;
}

/**
 * The parts of the process that the program may use. The program uses no other streams and does not exit the process.
 */
export interface ProcessIo {
  readonly stdin: AsyncIterable<Uint8Array | string> & {
    /** True if the stream is a terminal. */
    readonly isTTY?: boolean;
  };
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted when the process must stop. The abort reason is the name of the signal. */
  readonly signal: AbortSignal;
}

/**
 * The streams of a command. `text` and `stderr` replace the program name in printed commands with the name under which
 * the program was called, such as `kubectl scc`.
 */
export interface Io extends ProcessIo {
  /** Standard output for human-readable text. Data and manifests go to `stdout`. */
  readonly text: Output;
}

export const EXIT = { passed: 0, violations: 1, usage: 2 } as const;

/** Program name on the command line. */
export const PROGRAM = 'portcullis';

/** Program version without the leading `v`. */
export const VERSION = packageJson.version;

/** Web URL of the repository. */
export const REPOSITORY = packageJson.repository.url.replace(/^git\+/, '').replace(/\.git$/, '');

/** Reports whether the host of a URL is reserved for examples and therefore does not exist. */
export function isReserved(url: string): boolean {
  return /(?:^|\.)(?:example(?:\.(?:com|net|org))?|invalid|localhost|test)$/.test(new URL(url).hostname);
}

/** Returns the URL of a documentation page for this version, or `undefined` if the repository has no real URL. */
export function docsUrl(page: string): string | undefined {
  return isReserved(REPOSITORY) ? undefined : `${REPOSITORY}/blob/v${VERSION}/docs/${page}`;
}

/** Returns the URL of a documentation page, or its path in the package. */
export function printPage(page: string): string {
  return docsUrl(page) ?? `docs/${page}`;
}

/** A command. `program.ts` registers it with its name, summary and group. */
export interface Command<O extends Options = Options> {
  /** Operands in commander's syntax. `<path...>` is required, and `[path...]` is optional. */
  readonly operands?: string;
  /** Help text below the options. */
  readonly details?: string;
  readonly options: O;
  /** Runs the command and resolves to the exit code. Rejects with a `UserError` for errors that the user can fix. */
  run(values: Values<O>, operands: readonly string[], io: Io, sources: Sources): Promise<number>;
}

/** Operands that are additional values of the `-f` option. Unlike the values of the option, they may contain commas. */
export const MANIFEST_PATHS = '[path...]';

/**
 * Returns the command, and infers the types of its option values. Commands with the `-f` option also accept paths as
 * operands.
 */
export function defineCommand<O extends Options>(command: Command<O>): Command {
  return Object.hasOwn(command.options, 'filename') ? { operands: MANIFEST_PATHS, ...command } : command;
}

/** A row of the command tree in `program.ts`. */
export interface CommandEntry {
  /** One word, or two for a subcommand. */
  readonly name: string;
  /** Heading under which the program help lists the command. */
  readonly group: string;
  readonly summary: string;
  load(): Promise<{ readonly command: Command }>;
}
