/** Measures the in-process time of SCC decisions. Can be run directly with `node bench/assign.ts`. */
import { assignScc, toSccSet, type SccInput, STANDARD_SCCS, validateScc } from '../src/policy/scc/index.ts';
import { readLines } from '../test/support/conformance/cases.ts';
import type { Grant } from '../test/support/scc.ts';
import { plainPodReviews } from './reviews.ts';
import { formatTable, type Row } from './row.ts';

const ROUNDS = 60;
const BATCH = 50;
/** Maximum time of a decision. A review over TLS takes about 250 µs. */
const TARGET_MICROS = 50;

/** Measures decisions on random new pods, including denials and audit annotations, and on typical pods. */
export function benchAssign(): Row[] {
  const random = randomCreates().map(withSccSet);
  const typical = typicalCreates().map(withSccSet);
  return [
    { ...measure('random creates', random, assignScc), target: { atMost: TARGET_MICROS } },
    measure('… admitted', random.filter(isAdmitted), assignScc),
    measure(
      '… denied',
      random.filter((input) => !isAdmitted(input)),
      assignScc,
    ),
    measure('… with warnings', random.map(withWarnings), assignScc),
    measure('typical creates', typical, assignScc),
    measure('typical second passes', typical.map(admitted), validateScc),
  ];
}

/**
 * Returns the mean time per input. Only the fastest round of each batch counts, because other processes can only slow
 * down a batch. Batches alternate, so the objects of an input are not in the CPU cache.
 */
function measure(name: string, inputs: readonly SccInput[], decide: typeof assignScc): Row {
  const fastest = new Array<number>(Math.ceil(inputs.length / BATCH)).fill(Infinity);
  for (let round = 0; round < ROUNDS; round++) {
    for (let batch = 0; batch < fastest.length; batch++) {
      const given = inputs.slice(batch * BATCH, (batch + 1) * BATCH);
      const start = performance.now();
      for (const input of given) decide(input);
      fastest[batch] = Math.min(fastest[batch] ?? Infinity, performance.now() - start);
    }
  }
  const millis = fastest.reduce((sum, batchMs) => sum + batchMs, 0);
  return { name, value: (millis * 1000) / inputs.length, unit: 'µs' };
}

/** Prepares the SCCs. The webhooks do this only once after each change to an SCC. */
function withSccSet(input: SccInput): SccInput {
  return { ...input, sccs: toSccSet(input.sccs) };
}

function isAdmitted(input: SccInput): boolean {
  return assignScc(input).allowed;
}

/** Decides like `serve` with default settings, which adds warnings to OpenShift's decision. */
function withWarnings(input: SccInput): SccInput {
  return { ...input, compatibility: 'portcullis' };
}

function admitted(input: SccInput): SccInput {
  const decision = assignScc(input);
  return decision.allowed ? { ...input, object: decision.object } : input;
}

interface RandomCase extends Omit<SccInput, 'access'> {
  readonly grants: readonly Grant[];
}

function randomCreates(): readonly SccInput[] {
  return readLines<RandomCase>('random/scc-admission-random.ndjson')
    .filter(({ operation }) => operation === 'CREATE')
    .map(({ grants, ...request }) => ({ ...request, access: accessByIndex(grants), compatibility: 'openshift' }));
}

/** Builds pods of Deployments under the standard SCCs and grants. */
function typicalCreates(): readonly SccInput[] {
  const sccs = STANDARD_SCCS.map(({ scc }) => scc);
  const annotations = {
    'openshift.io/sa.scc.uid-range': '1000660000/10000',
    'openshift.io/sa.scc.mcs': 's0:c26,c5',
  };
  return plainPodReviews(() => 'shop').map((review) => ({
    operation: 'CREATE',
    object: (JSON.parse(review) as { request: { object: unknown } }).request.object,
    namespace: { metadata: { name: 'shop', annotations } },
    userInfo: {
      username: 'system:serviceaccount:kube-system:replicaset-controller',
      groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
    },
    sccs,
    access: accessByIndex([{ group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] }]),
  }));
}

/** Creates an authorizer with one lookup per subject, like the RBAC index. */
function accessByIndex(grants: readonly Grant[]): SccInput['access'] {
  const byUser = indexBy(grants, ({ user }) => user);
  const byGroup = indexBy(grants, ({ group }) => group);
  const isNamed = (names: ReadonlySet<string> | undefined, scc: string): boolean =>
    names !== undefined && (names.has('*') || names.has(scc));
  return {
    canUse: ({ username, groups }, scc) =>
      isNamed(byUser.get(username), scc) || groups.some((group) => isNamed(byGroup.get(group), scc)),
  };
}

function indexBy(
  grants: readonly Grant[],
  getSubject: (grant: Grant) => string | undefined,
): ReadonlyMap<string, ReadonlySet<string>> {
  const bySubject = Map.groupBy(grants, getSubject);
  bySubject.delete(undefined);
  return new Map(
    [...bySubject].map(([subject = '', granted]) => [subject, new Set(granted.flatMap(({ sccs }) => sccs))]),
  );
}

if (import.meta.main) process.stdout.write(`${formatTable(benchAssign())}\n`);
