/** Whether decisions are as fast in a very large cluster. Runs by itself, too: `node --expose-gc bench/scale.ts`. */
import type { AdmissionRequest } from '../src/kube/admission.ts';
import { anotherBinding, fill, LARGE, NAMESPACE, namespaceName, objectsOf, SMALL } from './cluster.ts';
import { measureInTurns, ratioOf, rowsOf, type Load } from './compare.ts';
import { plainPodReviews } from './reviews.ts';
import { printTable, type Row } from './row.ts';
import { decideBy, type Decide } from './scc.ts';
import { memoryOf, startServer, type Subject } from './subject.ts';

const ROUNDS = 40;
const CHANGES = 200;

/** Compares the same requests in both clusters, in turns, over TLS and in process, and tells what it costs to begin. */
export async function benchScale(): Promise<Row[]> {
  return [...(await overTls()), ...inProcess()];
}

async function overTls(): Promise<readonly Row[]> {
  const subjects: Subject[] = [];
  try {
    for (const size of ['small', 'large']) subjects.push(await startServer(size, ['scale-server.ts', size]));
    const load: Load = {
      name: 'SCC, first pass',
      path: '/scc/mutate',
      bodies: plainPodReviews(() => NAMESPACE),
      connections: 8,
    };
    const results = await measureInTurns(subjects, load);
    const percent = ratioOf(results, ['large', 'small'], ({ perSecond }) => 1 / perSecond);
    return [
      ...rowsOf(results, load),
      { name: 'time per review, large / small', value: percent, unit: '%', target: { atMost: 120 } },
      ...(await Promise.all(subjects.map(memoryOf))).flat(),
    ];
  } finally {
    for (const { process: child } of subjects) child?.kill('SIGINT');
  }
}

function inProcess(): readonly Row[] {
  const small = decideBy(fill(objectsOf(SMALL)));
  const objects = objectsOf(LARGE);
  const before = memory();
  const filled = timed(() => fill(objects));
  const decide = decideBy(filled.value);
  const requests = requestsIn(() => NAMESPACE);
  const [first] = requests;
  if (!first) throw new Error('there are no requests');
  const firstDecision = timed(() => decide(first));
  const bytes = memory() - before;
  const elsewhere = requestsIn((index) => namespaceName(index * 10));
  const micros = measure([
    () => requests.forEach(small),
    () => requests.forEach(decide),
    () => elsewhere.forEach(decide),
  ]).map((each) => each / requests.length);
  return [
    { name: 'decision, small', value: micros[0] ?? 0, unit: 'µs' },
    { name: 'decision, large', value: micros[1] ?? 0, unit: 'µs' },
    { name: 'decision, large, in a thousand namespaces in turn', value: micros[2] ?? 0, unit: 'µs' },
    { name: 'filling the store, large', value: filled.millis, unit: 'ms' },
    { name: 'first decision, which makes the index, large', value: firstDecision.millis, unit: 'ms' },
    { name: 'changed binding and next decision, large', value: afterChange(filled.value, decide, first), unit: 'µs' },
    { name: 'store and index, large', value: bytes / 2 ** 20, unit: 'MiB' },
  ];
}

/** Pods of Deployments that leave their security to the SCC. */
function requestsIn(namespaceOf: (index: number) => string): readonly AdmissionRequest[] {
  return plainPodReviews(namespaceOf).map((review) => (JSON.parse(review) as { request: AdmissionRequest }).request);
}

/** The fastest of many rounds of each, in turns: whatever else runs on the machine can only slow a round down. */
function measure(rounds: readonly (() => void)[]): readonly number[] {
  const fastest = rounds.map(() => Infinity);
  for (let repetition = 0; repetition < ROUNDS; repetition++) {
    rounds.forEach((round, index) => {
      fastest[index] = Math.min(fastest[index] ?? Infinity, timed(round).millis * 1000);
    });
  }
  return fastest;
}

function afterChange(store: ReturnType<typeof fill>, decide: Decide, request: AdmissionRequest): number {
  const micros = Array.from({ length: CHANGES }, (_, index) => {
    const { millis } = timed(() => {
      store.put('RoleBinding', anotherBinding(store, index));
      decide(request);
    });
    return millis * 1000;
  });
  return micros.toSorted((a, b) => a - b)[CHANGES / 2] ?? 0;
}

function timed<T>(run: () => T): { readonly value: T; readonly millis: number } {
  const startMs = performance.now();
  const value = run();
  return { value, millis: performance.now() - startMs };
}

/** The memory in use, without garbage where the garbage collector may be called. */
function memory(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

if (import.meta.main) process.stdout.write(`${printTable(await benchScale())}\n`);
