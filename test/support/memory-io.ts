import { Readable } from 'node:stream';
import type { CommandEntry, Output, ProcessIo } from '../../src/cli/command.ts';
import { run } from '../../src/cli/program.ts';

/** A command's exit code and output. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Environment {
  readonly stdin?: string | AsyncIterable<string>;
  readonly env?: ProcessIo['env'];
  /** Streams that are terminals. */
  readonly terminals?: readonly ('stdin' | 'stdout' | 'stderr')[];
  readonly signal?: AbortSignal;
  /** The file name with which the program is called. */
  readonly file?: string;
  /** Commands that replace the commands of the program. */
  readonly commands?: readonly CommandEntry[];
}

/** Runs the program in this process with in-memory streams. */
export async function runProgram(args: readonly string[], environment: Environment = {}): Promise<Outcome> {
  const { stdin = '', env = {}, terminals = [], signal = new AbortController().signal } = environment;
  const written = { stdout: '', stderr: '' };
  const output = (name: 'stdout' | 'stderr'): Output => ({
    isTTY: terminals.includes(name),
    write: (text) => void (written[name] += text),
  });
  const io: ProcessIo = {
    stdin: Object.assign(Readable.from(typeof stdin === 'string' ? [stdin] : stdin), {
      isTTY: terminals.includes('stdin'),
    }),
    stdout: output('stdout'),
    stderr: output('stderr'),
    env,
    signal,
  };
  const { commands, file } = environment;
  const code = await run(args, io, { ...(commands ? { commands } : {}), ...(file === undefined ? {} : { file }) });
  return { code, ...written };
}
