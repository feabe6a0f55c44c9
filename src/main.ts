import { parse } from 'node:path';
import { EXIT, type ProcessIo } from './cli/command.ts';
import { errorCode } from './kube/error-code.ts';

/** Exit code that shells report for an interrupted program. */
const INTERRUPTED = 130;

/** Oldest major version of Node that is supported. */
const NODE_VERSION = 22;
const isOld = Number.parseInt(process.versions.node) < NODE_VERSION;
if (isOld)
  process.stderr.write(`error: portcullis requires Node ${NODE_VERSION} or newer; this is Node ${process.version}\n`);

let outputFailed = false;
const stopping = new AbortController();
// Only the first signal triggers a graceful shutdown. A second signal ends the process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort(signal));
// Handles output errors, because the reader of a pipe, such as `head`, may exit at any time.
for (const stream of [process.stdout, process.stderr]) stream.on('error', handleOutputError);

const io: ProcessIo = {
  // This is a getter because reading the property opens standard input.
  get stdin() {
    return process.stdin;
  },
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  signal: stopping.signal,
};

// Exit code if the command never settles. There is no top-level await because single executables are CommonJS modules.
process.exitCode = EXIT.usage;
if (!isOld) void start().catch(reportError).then(exitWith);

/** Loads the program dynamically, because old versions of Node cannot parse it. */
async function start(): Promise<number> {
  const { INIT_CWD: folder, npm_lifecycle_event: script, npm_package_name: name } = process.env;
  // Changes to the user's working directory, because npm runs scripts in the root of the clone, but users expect paths
  // relative to their working directory.
  if (folder && script === 'portcullis' && name === 'portcullis') process.chdir(folder);
  const { run } = await import('./cli/program.ts');
  const [, path = '', ...args] = process.argv;
  return run(args, io, { file: parse(path).name });
}

function reportError(error: unknown): number {
  if (stopping.signal.aborted) return INTERRUPTED;
  console.error(error);
  return EXIT.usage;
}

function exitWith(code: number): void {
  process.exitCode = code;
}

/**
 * Reports the first output error, such as a full disk. The program continues, but its exit code indicates the error.
 */
function handleOutputError(error: Error): void {
  // On Windows, a closed pipe may be reported as EOF.
  if (outputFailed || ['EPIPE', 'EOF'].includes(String(errorCode(error)))) return;
  outputFailed = true;
  process.stderr.write(`error: cannot write the output: ${error.message}\n`);
  process.once('exit', () => (process.exitCode ||= EXIT.usage));
}
