/** CPU time of reviews over TLS: the bundled `serve`, compared in turns with a bare Fastify server. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NAMESPACE, objectsOf, SMALL } from './cluster.ts';
import { computeRatio, createRows, measureInTurns, type Load } from './compare.ts';
import { send } from './load.ts';
import { plainPodReviews, restrictedPodReviews } from './reviews.ts';
import type { Row } from './row.ts';
import { admitted } from './scc.ts';
import { buildBundle, createPeer, readMemory, startBare, startServe, type Subject } from './subject.ts';

/** A load, and the limit of its CPU time relative to the bare server in percent. */
interface Measure extends Load {
  readonly atMost: number;
}

export interface ServeOptions {
  /** The URL of another server for Pod Security, to measure with the same load. */
  readonly peer?: string | undefined;
  /** Its process, to measure its CPU time and memory. */
  readonly peerPid?: number | undefined;
}

/** Measures all servers in turns and returns medians. */
export async function benchServe({ peer, peerPid }: ServeOptions): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-bench-'));
  const subjects: Subject[] = [];
  try {
    await writeFile(join(folder, 'cluster.yaml'), manifest());
    subjects.push(await startServe('portcullis', { folder, main: await buildBundle(folder) }));
    subjects.push(await startBare(folder));
    const rows: Row[] = [];
    const peers = peer === undefined ? [] : [createPeer(peer, peerPid)];
    rows.push(...(await compare([...subjects, ...peers], podSecurity())));
    for (const measure of securityContextConstraints()) rows.push(...(await compare(subjects, measure)));
    for (const subject of [...subjects, ...peers]) rows.push(...(await readMemory(subject)));
    return rows;
  } finally {
    for (const { stop } of subjects) stop?.();
    await rm(folder, { recursive: true });
  }
}

/** Returns the namespace of the reviews, which enforces both policies. */
function manifest(): string {
  const [, namespace] = objectsOf(SMALL).find(([kind]) => kind === 'Namespace') ?? [];
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': 'enforce' };
  return JSON.stringify({ ...namespace, metadata: { ...namespace?.metadata, labels } });
}

const CONNECTIONS = 8;

function podSecurity(): Measure {
  const bodies = restrictedPodReviews(NAMESPACE);
  return { name: 'Pod Security', path: '/psa/validate', bodies, connections: CONNECTIONS, atMost: 120 };
}

function securityContextConstraints(): readonly Measure[] {
  const plain = plainPodReviews(() => NAMESPACE);
  return [
    { name: 'SCC mutate', path: '/scc/mutate', bodies: plain, connections: CONNECTIONS, atMost: 160 },
    {
      name: 'SCC validate',
      path: '/scc/validate',
      bodies: plain.map(admitted),
      connections: CONNECTIONS,
      atMost: 140,
    },
  ];
}

async function compare(subjects: readonly Subject[], measure: Measure): Promise<readonly Row[]> {
  for (const subject of subjects) await expectAllowed(subject, measure);
  const results = await measureInTurns(subjects, measure);
  const value = computeRatio(results, ['portcullis', 'bare Fastify'], ({ cpuMicros = NaN }) => cpuMicros);
  const name = `${measure.name}: CPU per review, portcullis / bare`;
  return [...createRows(results, measure), { name, value, unit: '%', target: { atMost: measure.atMost } }];
}

/** Denials have another cost than the measured decisions. */
async function expectAllowed({ name, target }: Subject, { path, bodies: [body = ''] }: Load): Promise<void> {
  const response = await send(target(path), body);
  if (!response.includes('"allowed":true')) throw new Error(`${name} did not allow a pod: ${response}`);
}
