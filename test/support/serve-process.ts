/** Runs `portcullis serve` as a process on free ports. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface FinishedProcess {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A started process, which may end before it serves. */
export interface StartedProcess {
  readonly child: ChildProcess;
  readonly finished: Promise<FinishedProcess>;
  output(): { readonly stdout: string; readonly stderr: string };
}

/** A process of `portcullis serve` that is ready. */
export interface RunningServer {
  readonly child: ChildProcess;
  readonly port: number;
  readonly probes: string;
  /** The folder that `--cert-dir` specifies. */
  readonly folder: string;
  readonly kubeconfig: string;
  /** Reads the CA in PEM. */
  authority(): Promise<string>;
  /** Waits for a log line with a message. */
  logged(message: string): Promise<Record<string, unknown>>;
  output(): { readonly stdout: string; readonly stderr: string };
  stop(signal?: NodeJS.Signals): Promise<FinishedProcess>;
}

/** Returns the content of a configuration file with the given settings. */
export function formatSettings(spec: object): string {
  const type = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
  return JSON.stringify({ ...type, metadata: { name: 'cluster' }, spec });
}

export const FREE_PORTS = ['--secure-port=0', '--cluster-port=0', '--health-probe-bind-address=127.0.0.1:0'];

export interface ProcessOptions {
  /** The maximum number of file descriptors. */
  readonly openFiles?: number;
  /** File to which the process writes its ID before it starts. */
  readonly processes?: string;
  /** The file descriptor of the standard output. */
  readonly stdout?: number;
  /** File descriptor of the standard error. Default: a pipe, which this process reads as the log. */
  readonly stderr?: number | 'pipe';
}

/** Starts the program, which is a script or an executable, with `serve` arguments. */
export function start(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  main: string = MAIN,
  { openFiles, processes, stdout: output, stderr: log }: ProcessOptions = {},
): StartedProcess {
  const program = [...(/\.[jt]s$/.test(main) ? [process.execPath] : []), main, 'serve', ...args];
  const setup = [
    ...(openFiles === undefined ? [] : [`ulimit -n ${openFiles}`]),
    ...(processes === undefined ? [] : [`echo $$ >'${processes}'`]),
  ];
  const [file = '', ...rest] =
    setup.length === 0 ? program : ['/bin/sh', '-c', [...setup, 'exec "$@"'].join('; '), 'sh', ...program];
  const child = spawn(file, rest, {
    env: { ...process.env, KUBECONFIG: '', ...env },
    stdio: ['ignore', output ?? 'pipe', log ?? 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const finished = new Promise<FinishedProcess>((resolve) => {
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
  return { child, finished, output: () => ({ stdout, stderr }) };
}

/** Parses a process's log lines. Ignores other output. */
export function readLog({ output }: Pick<StartedProcess, 'output'>): Record<string, unknown>[] {
  return output()
    .stderr.split('\n')
    .slice(0, -1)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Waits up to a minute for a log line with a message. */
export async function waitForLog(started: StartedProcess, message: string): Promise<Record<string, unknown>> {
  const deadlineMs = performance.now() + 60_000;
  while (performance.now() < deadlineMs) {
    const line = readLog(started).find((entry) => entry['msg'] === message);
    if (line) return line;
    if (started.child.exitCode !== null) break;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`not logged: ${message}\n${started.output().stderr}`);
}

/** Starts a server and waits until it serves. `stop` removes its folder. */
export async function serve(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  main: string = MAIN,
  options: ProcessOptions = {},
): Promise<RunningServer> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-serve-'));
  const defaults = [...FREE_PORTS, `--cert-dir=${folder}`].filter((flag) => {
    const [name] = flag.split('=');
    return !args.some((arg) => arg.startsWith(`${name}=`));
  });
  const started = start([...defaults, ...args], env, main, options);
  const { child, finished } = started;
  const logged = (message: string): Promise<Record<string, unknown>> => waitForLog(started, message);
  const { port, probesPort } = await logged('serving');
  return {
    child,
    port: Number(port),
    probes: `http://127.0.0.1:${String(probesPort)}`,
    folder,
    kubeconfig: join(folder, 'kubeconfig'),
    authority: () => readFile(join(folder, 'ca.crt'), 'utf8'),
    logged,
    output: started.output,
    async stop(signal = 'SIGINT') {
      child.kill(signal);
      const result = await finished;
      await rm(folder, { recursive: true, force: true });
      return result;
    },
  };
}
