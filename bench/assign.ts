/** How long it takes to find the SCC of a pod, in process. Runs by itself, too: `node bench/assign.ts`. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { assignScc, validateScc, type SccInput } from '../src/policy/scc/index.ts';
import { STANDARD_SCCS } from '../src/policy/scc/standard.ts';
import { create } from '../test/policy/scc/arbitrary.ts';
import type { Grant } from '../test/support/scc.ts';
import { plainPodReviews } from './reviews.ts';
import { printTable, type Row } from './row.ts';

const ROUNDS = 60;
const STRETCH = 50;
/** Of what the original takes for the same requests on a machine of this size. */
const TARGET_MICROS = 33;

/** Measures creates with random pods and SCCs, refusals and audit annotations included, and ordinary pods. */
export async function benchAssign(): Promise<Row[]> {
  const random = await randomCreates();
  const ordinary = ordinaryCreates();
  return [
    { ...measure('random creates', random, assignScc), target: { atMost: TARGET_MICROS } },
    measure('… that are admitted', random.filter(isAdmitted), assignScc),
    measure(
      '… that are refused',
      random.filter((input) => !isAdmitted(input)),
      assignScc,
    ),
    measure('… by default, with warnings', random.map(byDefault), assignScc),
    measure('ordinary creates', ordinary, assignScc),
    measure('ordinary second passes', ordinary.map(admitted), validateScc),
  ];
}

/**
 * The mean over all inputs, from the fastest round of each stretch of them: whatever else runs on the machine can only
 * slow a stretch down. Stretches follow each other, so that no input finds its objects in the cache.
 */
function measure(name: string, inputs: readonly SccInput[], decide: typeof assignScc): Row {
  const fastest = new Array<number>(Math.ceil(inputs.length / STRETCH)).fill(Infinity);
  for (let round = 0; round < ROUNDS; round++) {
    for (let stretch = 0; stretch < fastest.length; stretch++) {
      const given = inputs.slice(stretch * STRETCH, (stretch + 1) * STRETCH);
      const start = performance.now();
      for (const input of given) decide(input);
      fastest[stretch] = Math.min(fastest[stretch] ?? Infinity, performance.now() - start);
    }
  }
  const millis = fastest.reduce((sum, each) => sum + each, 0);
  return { name, value: (millis * 1000) / inputs.length, unit: 'µs' };
}

function isAdmitted(input: SccInput): boolean {
  return assignScc(input).allowed;
}

/** Not as the original, but as `serve` decides, which also says what would help. */
function byDefault(input: SccInput): SccInput {
  return { ...input, compatibility: {} };
}

function admitted(input: SccInput): SccInput {
  const decision = assignScc(input);
  return decision.allowed ? { ...input, object: decision.object } : input;
}

interface RandomCase extends Omit<SccInput, 'canUse'> {
  readonly grants: readonly Grant[];
}

/** The creates of the conformance data; where there is none, generated ones. */
async function randomCreates(): Promise<readonly SccInput[]> {
  const folder = process.env['PORTCULLIS_CONFORMANCE'] ?? '../shared/conformance';
  const file = join(folder, 'random/scc-admission-random.ndjson.gz');
  if (!existsSync(file)) return fc.sample(create, { numRuns: 1000, seed: 1 });
  return gunzipSync(await readFile(file))
    .toString('utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as RandomCase)
    .filter(({ operation }) => operation === 'CREATE')
    .map(({ grants, ...request }) => ({ ...request, canUse: canUseByIndex(grants), compatibility: 'openshift' }));
}

/** Pods of Deployments under the standard SCCs, as everybody may create them. */
function ordinaryCreates(): readonly SccInput[] {
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
    canUse: canUseByIndex([{ group: 'system:authenticated', sccs: ['restricted-v2', 'restricted-v3'] }]),
  }));
}

/** A look-up per subject, as the index of RBAC has it. */
function canUseByIndex(grants: readonly Grant[]): SccInput['canUse'] {
  const byUser = indexBy(grants, ({ user }) => user);
  const byGroup = indexBy(grants, ({ group }) => group);
  const isNamed = (names: ReadonlySet<string> | undefined, scc: string): boolean =>
    names !== undefined && (names.has('*') || names.has(scc));
  return ({ username, groups }, scc) =>
    isNamed(byUser.get(username), scc) || groups.some((group) => isNamed(byGroup.get(group), scc));
}

function indexBy(
  grants: readonly Grant[],
  subjectOf: (grant: Grant) => string | undefined,
): ReadonlyMap<string, ReadonlySet<string>> {
  const bySubject = Map.groupBy(grants, subjectOf);
  bySubject.delete(undefined);
  return new Map([...bySubject].map(([subject = '', found]) => [subject, new Set(found.flatMap(({ sccs }) => sccs))]));
}

if (import.meta.main) process.stdout.write(`${printTable(await benchAssign())}\n`);
