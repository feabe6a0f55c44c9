/** Whether decisions are as fast in a very large cluster, in process. Runs by itself, too: `node --expose-gc bench/scale.ts`. */
import type { Store } from '../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../src/kube/admission.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { withStoredAccess } from '../src/webhook/scc-access.ts';
import { createSccRecorder } from '../src/webhook/scc-metrics.ts';
import { createSccMutateWebhook } from '../src/webhook/scc-mutate.ts';
import { anotherBinding, fill, NAMESPACE, namespaceName, objectsOf, type Size } from './cluster.ts';
import { plainPodReviews } from './reviews.ts';
import { printTable, type Row } from './row.ts';

const SMALL: Size = { namespaces: 10, sccs: 13, bindings: 50 };
const LARGE: Size = { namespaces: 10_000, sccs: 200, bindings: 50_000 };
const ROUNDS = 40;
const CHANGES = 200;
const MAX_PERCENT = 120;

type Decide = (request: AdmissionRequest) => Decision;

/** Compares the same requests in both clusters, in turns, and tells what it costs to begin. */
export function benchScale(): Promise<Row[]> {
  const small = start(fill(objectsOf(SMALL)));
  const objects = objectsOf(LARGE);
  const before = memory();
  const filled = timed(() => fill(objects));
  const store = filled.value;
  const decide = start(store);
  const requests = requestsIn(() => NAMESPACE);
  const [first] = requests;
  if (!first) throw new Error('there are no requests');
  const firstDecision = timed(() => decide(first));
  const bytes = memory() - before;
  const spread = requestsIn((index) => namespaceName(index * 10));
  const [inSmall, inLarge, everywhere] = measure([
    () => requests.forEach(small),
    () => requests.forEach(decide),
    () => spread.forEach(decide),
  ]).map((micros) => micros / requests.length);
  return Promise.resolve([
    { name: 'a decision in a small cluster', value: inSmall ?? 0, unit: 'µs' },
    { name: 'the same in one of 10,000 namespaces, 200 SCCs, 50,000 bindings', value: inLarge ?? 0, unit: 'µs' },
    {
      name: 'large / small',
      value: ((inLarge ?? 0) / (inSmall ?? 1)) * 100,
      unit: '%',
      target: { atMost: MAX_PERCENT },
    },
    { name: 'a decision in one of a thousand namespaces', value: everywhere ?? 0, unit: 'µs' },
    { name: 'filling the store', value: filled.millis, unit: 'ms' },
    { name: 'the first decision, which makes the index', value: firstDecision.millis, unit: 'ms' },
    {
      name: 'a decision after a changed binding, with the change',
      value: afterChange(store, decide, first),
      unit: 'µs',
    },
    { name: 'store and index', value: bytes / 2 ** 20, unit: 'MiB' },
  ]);
}

/** The webhook as `serve` makes it, which answers from that store. */
function start(store: Store): Decide {
  const webhook = createSccMutateWebhook({
    settings: { mode: 'enforce', exemptNamespaces: [], compatibility: {}, preferUserNamespaces: false },
    withAccess: withStoredAccess,
    record: createSccRecorder(createMetrics({ version: 'bench' }).scc.decisions),
  });
  const context = { store, now: () => performance.now() };
  return (request) => {
    const decision = webhook.decide(request, context);
    if (decision instanceof Promise || !decision.allowed) throw new Error('the pod was not admitted at once');
    return decision;
  };
}

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
  const times = Array.from({ length: CHANGES }, (_, index) => {
    const { millis } = timed(() => {
      store.put('RoleBinding', anotherBinding(store, index));
      decide(request);
    });
    return millis * 1000;
  });
  return times.toSorted((a, b) => a - b)[CHANGES / 2] ?? 0;
}

function timed<T>(run: () => T): { readonly value: T; readonly millis: number } {
  const startMs = performance.now();
  const value = run();
  return { value, millis: performance.now() - startMs };
}

/** The memory in use, of what is not garbage if the garbage collector may be called. */
function memory(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

if (import.meta.main) process.stdout.write(`${printTable(await benchScale())}\n`);
