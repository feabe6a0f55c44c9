/** Reviews over TLS: our server, as `serve` runs it, beside a bare one that only parses, in turns within one run. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load, type LoadResult, type Target } from './load.ts';
import { restrictedPodReviews } from './reviews.ts';
import type { Row } from './row.ts';

const CONNECTIONS = [8, 50] as const;
const ROUNDS = 5;
const REQUESTS = 12_000;
/** The namespace of the reviews; it enforces restricted. */
const NAMESPACE = 'bench';
const MANIFEST = `apiVersion: v1
kind: Namespace
metadata:
  name: ${NAMESPACE}
  labels: {pod-security.kubernetes.io/enforce: restricted}
`;

interface Subject {
  readonly name: string;
  readonly target: Target;
  /** Absent for a server that is not ours to look into. */
  readonly process?: ChildProcess;
}

interface Measured extends LoadResult {
  readonly cpuMicros: number | undefined;
}

/**
 * Measures each server in turn, several times, and gives medians.
 * @param peer the URL of another admission server to measure with the same load
 */
export async function benchServe(peer: string | undefined): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-bench-'));
  const subjects: Subject[] = [];
  try {
    await writeFile(join(folder, 'cluster.yaml'), MANIFEST);
    subjects.push(await startOurs('portcullis', folder, 'info'));
    subjects.push(await startOurs('portcullis without log', folder, 'error'));
    subjects.push(await startBare(folder));
    if (peer !== undefined) subjects.push({ name: `peer ${peer}`, target: targetOf(peer) });
    const rows: Row[] = [];
    for (const connections of CONNECTIONS) rows.push(...(await compare(subjects, connections)));
    for (const subject of subjects) rows.push(...(await memoryOf(subject)));
    return rows;
  } finally {
    for (const { process: child } of subjects) child?.kill('SIGINT');
    await rm(folder, { recursive: true });
  }
}

async function compare(subjects: readonly Subject[], connections: number): Promise<Row[]> {
  const bodies = restrictedPodReviews(NAMESPACE);
  const results = new Map<string, Measured[]>(subjects.map(({ name }) => [name, []]));
  // In turns, so that whatever else the machine does meets all of them.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const subject of subjects) {
      const measured = await measure(subject, bodies, connections);
      // The first round warms up.
      if (round > 0) results.get(subject.name)?.push(measured);
    }
  }
  const at = `at ${connections} connections`;
  const medianOf = (name: string, value: (one: Measured) => number): number =>
    median((results.get(name) ?? []).map(value));
  const rows = subjects.flatMap(({ name, process: child }): Row[] => [
    { name: `${name} ${at}`, value: medianOf(name, (one) => one.perSecond), unit: 'reviews/s' },
    ...(child && process.platform === 'linux'
      ? [{ name: `  CPU per review`, value: medianOf(name, (one) => one.cpuMicros ?? 0), unit: 'µs' }]
      : []),
    { name: '  p50', value: medianOf(name, (one) => one.p50Ms), unit: 'ms' },
    { name: '  p99', value: medianOf(name, (one) => one.p99Ms), unit: 'ms' },
  ]);
  const ratio = (name: string): number =>
    median(
      (results.get(name) ?? []).map(
        (one, round) => one.perSecond / (results.get('bare Fastify')?.[round]?.perSecond ?? 1),
      ),
    );
  return [
    ...rows,
    { name: `portcullis / bare ${at}`, value: ratio('portcullis') * 100, unit: '%', target: { atLeast: 85 } },
    { name: `portcullis without log / bare ${at}`, value: ratio('portcullis without log') * 100, unit: '%' },
  ];
}

async function measure(
  { target, process: child }: Subject,
  bodies: readonly string[],
  connections: number,
): Promise<Measured> {
  const before = await cpuMicrosOf(child);
  const result = await load(target, bodies, { connections, requests: REQUESTS });
  const after = await cpuMicrosOf(child);
  const used = before === undefined || after === undefined ? undefined : after - before;
  return { ...result, cpuMicros: used === undefined ? undefined : used / (result.requests + result.warmup) };
}

async function startOurs(name: string, folder: string, level: string): Promise<Subject> {
  const log = await open(join(folder, `${level}.log`), 'w');
  const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
  const child = spawn(
    process.execPath,
    [
      main,
      'serve',
      '--secure-port=0',
      '--cluster-port=0',
      '--health-probe-bind-address=127.0.0.1:0',
      `--cert-dir=${join(folder, 'certs')}`,
      `--manifests=${join(folder, 'cluster.yaml')}`,
      `--log-level=${level}`,
    ],
    { stdio: ['ignore', 'pipe', log.fd] },
  );
  const greeting = await firstOutput(child);
  await log.close();
  const port = /reviews at https:\/\/127\.0\.0\.1:(\d+)/.exec(greeting)?.[1];
  if (port === undefined) throw new Error(`the server did not say where it listens: ${greeting}`);
  return { name, target: { host: '127.0.0.1', port: Number(port), path: '/psa/validate' }, process: child };
}

async function startBare(folder: string): Promise<Subject> {
  const bare = fileURLToPath(new URL('bare.ts', import.meta.url));
  const certs = join(folder, 'certs');
  const child = spawn(process.execPath, [bare, join(certs, 'tls.crt'), join(certs, 'tls.key')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const port = Number(await firstOutput(child));
  return { name: 'bare Fastify', target: { host: '127.0.0.1', port, path: '/' }, process: child };
}

function firstOutput(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.stdout?.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    child.once('exit', () => reject(new Error(`${child.spawnargs.join(' ')} ended before it served`)));
  });
}

function targetOf(url: string): Target {
  const { hostname, port, pathname } = new URL(url);
  return { host: hostname, port: port === '' ? 443 : Number(port), path: pathname };
}

/** The processor time of a process so far; Linux counts it in ticks of 10 ms. */
async function cpuMicrosOf(child: ChildProcess | undefined): Promise<number | undefined> {
  if (child?.pid === undefined || process.platform !== 'linux') return undefined;
  const stat = await readFile(`/proc/${child.pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

async function memoryOf({ name, process: child }: Subject): Promise<Row[]> {
  if (child?.pid === undefined || process.platform !== 'linux') return [];
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  return [{ name: `${name}, RSS`, value: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024, unit: 'MiB' }];
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
