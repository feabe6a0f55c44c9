import packageJson from '../../package.json' with { type: 'json' };
import type { Options, Sources, Values } from './options.ts';

/** An output stream of a command. */
export interface Output {
  write(text: string): unknown;
  /** True if the stream is a terminal. */
  readonly isTTY?: boolean;
  /** Terminal width in characters. */
  readonly columns?: number;
}

/** The parts of the process that the program may use. The program neither ends the process nor uses other streams. */
export interface ProcessIo {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted when the process must stop. The abort reason is the name of the signal. */
  readonly signal: AbortSignal;
}

/**
 * The streams of a command. In text written to `text` and `stderr`, commands use the name under which the program was
 * called, such as `kubectl scc`.
 */
export interface Io extends ProcessIo {
  /** Standard output for human-readable text. Data and manifests use another stream. */
  readonly text: Output;
}

/** The exit codes. */
export const EXIT = { passed: 0, violations: 1, usage: 2 } as const;

/** Program name on the command line. */
export const PROGRAM = 'portcullis';

/** Program version without the leading `v`. */
export const VERSION = packageJson.version;

/** Web URL of the repository. */
export const REPOSITORY = packageJson.repository.url.replace(/^git\+/, '').replace(/\.git$/, '');

/** Returns whether a URL has a host that is reserved for examples, so it leads nowhere. */
export function isReserved(url: string): boolean {
  return /(?:^|\.)(?:example(?:\.(?:com|net|org))?|invalid|localhost|test)$/.test(new URL(url).hostname);
}

/** Returns the URL of a documentation page for this version, if the repository has one. */
export function docsUrl(page: string): string | undefined {
  return isReserved(REPOSITORY) ? undefined : `${REPOSITORY}/blob/v${VERSION}/docs/${page}`;
}

/** Returns the URL of a documentation page, or its path in the package. */
export function printPage(page: string): string {
  return docsUrl(page) ?? `docs/${page}`;
}

/** A command without its name, summary and group, which `program.ts` registers. */
export interface Command<O extends Options = Options> {
  /** Operands in commander's syntax: `<path...>` is required, `[path...]` is optional. */
  readonly operands?: string;
  /** Text below the options in the help. */
  readonly details?: string;
  readonly options: O;
  /** Runs the command and resolves to the exit code. Rejects with a `UserError` if the user made a mistake. */
  run(values: Values<O>, operands: readonly string[], io: Io, sources: Sources): Promise<number>;
}

/** Defines a command and infers the types of the option values. */
export function defineCommand<O extends Options>(command: Command<O>): Command {
  return command;
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
