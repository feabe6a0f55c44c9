import { EXIT, type Io } from './cli/command.ts';

/** What a shell reports of a program that was interrupted. */
const INTERRUPTED = 130;

/** The oldest Node that has all that is used here. */
const NODE_VERSION = 24;
const isOld = Number.parseInt(process.versions.node) < NODE_VERSION;
if (isOld)
  process.stderr.write(`error: this is Node ${process.version}; portcullis runs on Node ${NODE_VERSION} or newer\n`);

const stopping = new AbortController();
// Once each: who asks again does not want to wait.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort(signal));
// The reader of a pipe may go away at any time, as `head` does; nobody is left to be told.
for (const stream of [process.stdout, process.stderr]) stream.on('error', ignoreBrokenPipe);

const io: Io = {
  // Standard input is opened by being looked at.
  get stdin() {
    return process.stdin;
  },
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  signal: stopping.signal,
};

process.exitCode = isOld
  ? EXIT.usage
  : await start().catch((error: unknown) => {
      if (stopping.signal.aborted) return INTERRUPTED;
      console.error(error);
      return EXIT.usage;
    });

/** An old Node could not even load the rest. */
async function start(): Promise<number> {
  const { run } = await import('./cli/program.ts');
  return run(process.argv.slice(2), io);
}

function ignoreBrokenPipe(error: Error): void {
  if (!('code' in error) || error.code !== 'EPIPE') throw error;
}
