/** Starts the servers under load, and measures their CPU time and memory. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { readUsage } from '../test/support/process-usage.ts';
import type { Target } from './load.ts';
import type { Row } from './row.ts';

/** A server under load. */
export interface Subject {
  readonly name: string;
  /** Returns the address for reviews at a path. */
  target(path: string): Target;
  /** Absent for a peer whose process is unknown. */
  readonly pid?: number | undefined;
  /** Seconds until `portcullis serve` listens, or until the readiness probe of a peer succeeds. */
  readonly startSeconds?: number;
  /** Absent for a peer that was already running. */
  stop?(): void;
}

const HOST = '127.0.0.1';

/** Builds the bundle in a folder. Returns the path of its script. */
export async function buildBundle(folder: string): Promise<string> {
  const dist = join(folder, 'dist');
  const cwd = fileURLToPath(new URL('..', import.meta.url));
  await promisify(execFile)(process.execPath, ['scripts/build.ts', dist], { cwd });
  return join(dist, 'main.js');
}

const SERVE = ['serve', '--secure-port=0', '--health-probe-bind-address=127.0.0.1:0'];

/** Starts an in-memory API server with the manifest `cluster.yaml` in a folder. */
export async function startCluster(folder: string, main: string): Promise<Subject> {
  const dev = ['--dev-cluster', '--cluster-port=0', `--manifests=${join(folder, 'cluster.yaml')}`];
  return await startServe('API server', [main, ...SERVE, ...dev, `--cert-dir=${join(folder, 'certs')}`], folder);
}

/** The Node option that the image sets. */
const IMAGE_OPTION = '--max-semi-space-size=4';

/**
 * Starts `portcullis serve` with the options of the image for the API server of a folder. The replica uses the
 * certificate of that API server, and writes the default log to a file.
 */
export async function startReplica(name: string, folder: string, main: string): Promise<Subject> {
  const certs = join(folder, 'certs');
  const args = [
    ...[IMAGE_OPTION, main, ...SERVE, `--kubeconfig=${join(certs, 'kubeconfig')}`, '--features=scc,kubelet'],
    ...[`--tls-cert-file=${join(certs, 'tls.crt')}`, `--tls-private-key-file=${join(certs, 'tls.key')}`],
  ];
  return await startServe(name, args, folder);
}

async function startServe(name: string, args: readonly string[], folder: string): Promise<Subject> {
  const log = await open(join(folder, `${name}.log`), 'w');
  const startMs = performance.now();
  const child = start(args, log.fd);
  const greeting = await firstOutput(child);
  await log.close();
  const port = /https:\/\/[\d.]+:(\d+)/.exec(/reviews at .*/i.exec(greeting)?.[0] ?? '')?.[1];
  if (port === undefined) throw new Error(`the output contains no address: ${greeting}`);
  return { ...createSubject(name, child, Number(port)), startSeconds: (performance.now() - startMs) / 1000 };
}

/** Starts the bare server with the certificate of `portcullis serve`. */
export async function startBare(folder: string): Promise<Subject> {
  const certs = join(folder, 'certs');
  const bare = await startServer('bare Fastify', ['bare.ts', join(certs, 'tls.crt'), join(certs, 'tls.key')]);
  return { ...bare, target: (path) => bare.target(path.startsWith('/mutate/') ? '/patch' : '/') };
}

/** Starts a script of this folder that prints its port. */
export async function startServer(name: string, [script = '', ...args]: readonly string[]): Promise<Subject> {
  const child = start([fileURLToPath(new URL(script, import.meta.url)), ...args]);
  return createSubject(name, child, Number(await firstOutput(child)));
}

function createSubject(name: string, child: ChildProcess, port: number): Subject {
  const target = (path: string): Target => ({ host: HOST, port, path });
  return { name, target, pid: child.pid, stop: () => child.kill('SIGINT') };
}

/** Creates the subject for another admission server, given the URL of its webhook. */
export function createPeer(url: string, pid: number | undefined): Subject {
  const { hostname, port, pathname } = new URL(url);
  const target = { host: hostname, port: port === '' ? 443 : Number(port), path: pathname };
  return { name: `peer ${url}`, target: () => target, pid };
}

function start(args: readonly string[], stderr: number | 'inherit' = 'inherit'): ChildProcess {
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', stderr] });
}

function firstOutput(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.stdout?.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    child.once('exit', () => reject(new Error(`${child.spawnargs.join(' ')} exited before it served`)));
  });
}

/** Returns the CPU time of all threads of a process in microseconds, or `undefined` on systems other than Linux. */
export async function readCpuMicros({ pid }: Pick<Subject, 'pid'>): Promise<number | undefined> {
  if (pid === undefined || process.platform !== 'linux') return undefined;
  const threads = await readdir(`/proc/${pid}/task`);
  const files = threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8'));
  // The first number is the CPU time in nanoseconds. Process times are only multiples of 10 ms.
  return (await Promise.all(files)).reduce((sum, text) => sum + Number(text.split(' ')[0]) / 1000, 0);
}

/** Returns a row with the resident memory of a process, or no row on systems other than Linux. */
export async function readMemory({ name, pid }: Subject, moment: string): Promise<readonly Row[]> {
  if (pid === undefined || process.platform !== 'linux') return [];
  return [{ name: `${name}, RSS ${moment}`, value: (await readUsage(pid)).rssMiB, unit: 'MiB' }];
}
