import { basename } from 'node:path';
import { EXIT, type ProcessIo } from './cli/command.ts';

/** Exit code of an interrupted program, as shells report it. */
const INTERRUPTED = 130;

/** Oldest supported major version of Node. */
const NODE_VERSION = 22;
const isOld = Number.parseInt(process.versions.node) < NODE_VERSION;
if (isOld)
  process.stderr.write(`error: portcullis requires Node ${NODE_VERSION} or newer; this is Node ${process.version}\n`);

let outputFailed = false;
const stopping = new AbortController();
// Only the first signal triggers a graceful shutdown. A second signal has its default effect.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort(signal));
// The reader of a pipe may exit at any time, like `head`.
for (const stream of [process.stdout, process.stderr]) stream.on('error', handleOutputError);

const io: ProcessIo = {
  // Reading the property opens standard input.
  get stdin() {
    return process.stdin;
  },
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  signal: stopping.signal,
};

// A command that never settles has failed. Single executables are CommonJS modules, which do not support top-level
// await.
process.exitCode = EXIT.usage;
if (!isOld) void start().catch(reportError).then(exitWith);

/** The program is loaded here because old versions of Node cannot parse it. */
async function start(): Promise<number> {
  const { run } = await import('./cli/program.ts');
  const [, path = '', ...args] = process.argv;
  return run(args, io, { file: basename(path) });
}

function reportError(error: unknown): number {
  if (stopping.signal.aborted) return INTERRUPTED;
  console.error(error);
  return EXIT.usage;
}

function exitWith(code: number): void {
  process.exitCode = code;
}

/** Reports the first output error, such as a full disk. The program continues and exits with an error at the end. */
function handleOutputError(error: Error): void {
  if (outputFailed || ('code' in error && error.code === 'EPIPE')) return;
  outputFailed = true;
  process.stderr.write(`error: cannot write the output: ${error.message}\n`);
  process.once('exit', () => (process.exitCode ||= EXIT.usage));
}
