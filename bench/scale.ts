/**
 * Measures SCC decisions in a small and a large cluster. Can be run directly with `node --expose-gc bench/scale.ts`.
 */
import type { AdmissionRequest } from '../src/kube/admission.ts';
import { anotherBinding, fill, LARGE, NAMESPACE, namespaceName, objectsOf, SMALL } from './cluster.ts';
import { computeRatio, createRows, type Load, measureInTurns } from './compare.ts';
import { plainPodReviews } from './reviews.ts';
import { formatTable, type Row } from './row.ts';
import { createDecide, type Decide } from './scc.ts';
import { readMemory, startServer, type Subject } from './subject.ts';

const ROUNDS = 40;
const CHANGES = 200;

/** Compares the same requests in both clusters over TLS and in-process, and measures the startup. */
export async function benchScale(): Promise<Row[]> {
  return [...(await overTls()), ...(await inProcess())];
}

async function overTls(): Promise<readonly Row[]> {
  const subjects: Subject[] = [];
  try {
    for (const size of ['small', 'large']) subjects.push(await startServer(size, ['scale-server.ts', size]));
    const load: Load = {
      name: 'SCC, first pass',
      path: '/mutate/pods',
      bodies: plainPodReviews(() => NAMESPACE),
      connections: 8,
    };
    const results = await measureInTurns(subjects.map((subject) => [subject, load]));
    const percent = computeRatio(results, ['large', 'small'], ({ perSecond }) => 1 / perSecond);
    return [
      ...createRows(results, load),
      { name: 'time per review, large / small', value: percent, unit: '%', target: { atMost: 120 } },
      ...(await Promise.all(subjects.map((subject) => readMemory(subject, 'after load')))).flat(),
    ];
  } finally {
    for (const { stop } of subjects) stop?.();
  }
}

async function inProcess(): Promise<readonly Row[]> {
  const small = createDecide(fill(objectsOf(SMALL)));
  const objects = objectsOf(LARGE);
  const before = usedHeap();
  const filled = await timed(() => fill(objects));
  const decide = createDecide(filled.value);
  const requests = buildRequests(() => NAMESPACE);
  const [first] = requests;
  if (!first) throw new Error('there are no requests');
  const firstDecision = await timed(() => decide(first));
  const bytes = usedHeap() - before;
  const otherNamespaces = buildRequests((index) => namespaceName(index * 10));
  const round = (run: Decide, all: readonly AdmissionRequest[]) => async (): Promise<void> => {
    for (const request of all) await run(request);
  };
  const rounds = [round(small, requests), round(decide, requests), round(decide, otherNamespaces)];
  const micros = (await measureFastest(rounds)).map((micros) => micros / requests.length);
  return [
    { name: 'decision, small', value: micros[0] ?? 0, unit: 'µs' },
    { name: 'decision, large', value: micros[1] ?? 0, unit: 'µs' },
    { name: 'decision, large, 1000 namespaces in turn', value: micros[2] ?? 0, unit: 'µs' },
    { name: 'filling the store, large', value: filled.millis, unit: 'ms' },
    { name: 'first decision with index creation, large', value: firstDecision.millis, unit: 'ms' },
    {
      name: 'changed binding and next decision, large',
      value: await measureChange(filled.value, decide, first),
      unit: 'µs',
    },
    { name: 'store and index, large', value: bytes / 2 ** 20, unit: 'MiB' },
  ];
}

/** Builds requests for Deployment pods without security contexts. */
function buildRequests(getNamespace: (index: number) => string): readonly AdmissionRequest[] {
  return plainPodReviews(getNamespace).map((review) => (JSON.parse(review) as { request: AdmissionRequest }).request);
}

/** Returns the fastest of many rounds, because other processes can only slow down a round. */
async function measureFastest(rounds: readonly (() => Promise<void>)[]): Promise<readonly number[]> {
  const fastest = rounds.map(() => Infinity);
  for (let repetition = 0; repetition < ROUNDS; repetition++) {
    for (const [index, round] of rounds.entries())
      fastest[index] = Math.min(fastest[index] ?? Infinity, (await timed(round)).millis * 1000);
  }
  return fastest;
}

async function measureChange(
  store: ReturnType<typeof fill>,
  decide: Decide,
  request: AdmissionRequest,
): Promise<number> {
  const micros: number[] = [];
  for (let index = 0; index < CHANGES; index++) {
    const { millis } = await timed(async () => {
      store.put('RoleBinding', anotherBinding(store, index));
      await decide(request);
    });
    micros.push(millis * 1000);
  }
  return micros.toSorted((a, b) => a - b)[CHANGES / 2] ?? 0;
}

async function timed<T>(run: () => T | Promise<T>): Promise<{ readonly value: T; readonly millis: number }> {
  const startMs = performance.now();
  const value = await run();
  return { value, millis: performance.now() - startMs };
}

/** Returns the used heap, after a garbage collection if --expose-gc is set. */
function usedHeap(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

if (import.meta.main) process.stdout.write(`${formatTable(await benchScale())}\n`);
