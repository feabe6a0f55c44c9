/** Reviews over TLS: `serve`, compared in turns with a bare Fastify server. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NAMESPACE, objectsOf, SMALL } from './cluster.ts';
import { measureInTurns, computeRatio, createRows, type Load } from './compare.ts';
import { send } from './load.ts';
import { plainPodReviews, restrictedPodReviews } from './reviews.ts';
import type { Row } from './row.ts';
import { admitted } from './scc.ts';
import { readMemory, createPeer, startBare, startServe, type Subject } from './subject.ts';

/** A load, and the expected share of the throughput of the bare server. */
interface Measure extends Load {
  readonly atLeast?: number;
}

/**
 * Measures all servers in turns and returns medians.
 * @param peer the URL of another server for Pod Security to measure with the same load
 */
export async function benchServe(peer: string | undefined): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-bench-'));
  const subjects: Subject[] = [];
  try {
    await writeFile(join(folder, 'cluster.yaml'), manifest());
    for (const [name, level] of [['portcullis', 'info'] as const, ['portcullis without log', 'error'] as const]) {
      subjects.push(await startServe(name, folder, level));
    }
    subjects.push(await startBare(folder));
    const rows: Row[] = [];
    for (const measure of podSecurity()) {
      rows.push(...(await compare(peer === undefined ? subjects : [...subjects, createPeer(peer)], measure)));
    }
    for (const measure of securityContextConstraints()) rows.push(...(await compare(subjects, measure)));
    for (const subject of subjects) rows.push(...(await readMemory(subject)));
    return rows;
  } finally {
    for (const { process: child } of subjects) child?.kill('SIGINT');
    await rm(folder, { recursive: true });
  }
}

/** Returns the namespace of the reviews, which enforces both policies. */
function manifest(): string {
  const [, namespace] = objectsOf(SMALL).find(([kind]) => kind === 'Namespace') ?? [];
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': 'enforce' };
  return JSON.stringify({ ...namespace, metadata: { ...namespace?.metadata, labels } });
}

function podSecurity(): readonly Measure[] {
  const given = { name: 'Pod Security', path: '/psa/validate', bodies: restrictedPodReviews(NAMESPACE), atLeast: 85 };
  return [8, 50].map((connections) => ({ ...given, connections }));
}

function securityContextConstraints(): readonly Measure[] {
  const plain = plainPodReviews(() => NAMESPACE);
  return [
    { name: 'SCC, first pass', path: '/scc/mutate', bodies: plain, connections: 50, atLeast: 70 },
    { name: 'SCC, second pass', path: '/scc/validate', bodies: plain.map(admitted), connections: 50 },
  ];
}

async function compare(subjects: readonly Subject[], measure: Measure): Promise<readonly Row[]> {
  for (const subject of subjects) await expectAllowed(subject, measure);
  const results = await measureInTurns(subjects, measure);
  const { name, connections, atLeast } = measure;
  const at = `at ${connections} connections`;
  const ratio = {
    name: `${name}: portcullis / bare ${at}`,
    value: computeRatio(results, ['portcullis', 'bare Fastify']),
    unit: '%',
  };
  return [
    ...createRows(results, measure),
    atLeast === undefined ? ratio : { ...ratio, target: { atLeast } },
    {
      name: `${name}: portcullis without log / bare ${at}`,
      value: computeRatio(results, ['portcullis without log', 'bare Fastify']),
      unit: '%',
    },
  ];
}

/** Denials have another cost than the measured decisions. */
async function expectAllowed({ name, target }: Subject, { path, bodies: [body = ''] }: Load): Promise<void> {
  const response = await send(target(path), body);
  if (!response.includes('"allowed":true')) throw new Error(`${name} did not allow a pod: ${response}`);
}
