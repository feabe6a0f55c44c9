/** The servers under load, and their CPU time and memory. */
import { spawn, type ChildProcess } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Target } from './load.ts';
import type { Row } from './row.ts';

/** A server under load. */
export interface Subject {
  readonly name: string;
  /** Returns the address for reviews of a path. */
  target(path: string): Target;
  /** Absent for a peer. */
  readonly process?: ChildProcess;
}

const HOST = '127.0.0.1';

/** Starts `portcullis serve` with the manifests of a folder and a log file in it. */
export async function startServe(name: string, folder: string, level: string): Promise<Subject> {
  const log = await open(join(folder, `${level}.log`), 'w');
  const options = [
    '--dev-cluster',
    '--secure-port=0',
    '--cluster-port=0',
    '--health-probe-bind-address=127.0.0.1:0',
    `--cert-dir=${join(folder, 'certs')}`,
    `--manifests=${join(folder, 'cluster.yaml')}`,
    `--log-level=${level}`,
  ];
  const child = start(['../src/main.ts', 'serve', ...options], log.fd);
  const greeting = await firstOutput(child);
  await log.close();
  const port = /reviews at https:\/\/127\.0\.0\.1:(\d+)/.exec(greeting)?.[1];
  if (port === undefined) throw new Error(`the output contains no address: ${greeting}`);
  return { name, target: (path) => ({ host: HOST, port: Number(port), path }), process: child };
}

/** Starts the bare server with the certificate of `portcullis serve`. */
export async function startBare(folder: string): Promise<Subject> {
  const certs = join(folder, 'certs');
  const child = start(['bare.ts', join(certs, 'tls.crt'), join(certs, 'tls.key')]);
  const port = Number(await firstOutput(child));
  return { name: 'bare Fastify', target: () => ({ host: HOST, port, path: '/' }), process: child };
}

/** Starts a script of this folder that prints its port. */
export async function startServer(name: string, args: readonly string[]): Promise<Subject> {
  const child = start(args);
  const port = Number(await firstOutput(child));
  return { name, target: (path) => ({ host: HOST, port, path }), process: child };
}

/** Returns another admission server at the URL of its webhook. */
export function createPeer(url: string): Subject {
  const { hostname, port, pathname } = new URL(url);
  const target = { host: hostname, port: port === '' ? 443 : Number(port), path: pathname };
  return { name: `peer ${url}`, target: () => target };
}

function start([script = '', ...args]: readonly string[], stderr: number | 'inherit' = 'inherit'): ChildProcess {
  const file = fileURLToPath(new URL(script, import.meta.url));
  return spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', stderr] });
}

function firstOutput(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.stdout?.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    child.once('exit', () => reject(new Error(`${child.spawnargs.join(' ')} exited before it served`)));
  });
}

/** Returns the CPU time of all threads of a process in microseconds; `undefined` if the system is not Linux. */
export async function readCpuMicros({ process: child }: Subject): Promise<number | undefined> {
  if (child?.pid === undefined || process.platform !== 'linux') return undefined;
  const stat = await readFile(`/proc/${child.pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // Linux counts ticks of 10 ms.
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

/** Returns a row with the resident memory of a process; no row if the system is not Linux. */
export async function readMemory({ name, process: child }: Subject): Promise<readonly Row[]> {
  if (child?.pid === undefined || process.platform !== 'linux') return [];
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  return [{ name: `${name}, RSS`, value: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024, unit: 'MiB' }];
}
