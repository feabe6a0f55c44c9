/**
 * Measures the CPU time that the bundled `serve` needs for reviews over TLS, and compares it with a bare Fastify
 * server. The measurements of the servers alternate.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { AUTHORIZER_PATH } from '../src/server/kubelet-authorizer.ts';
import { NAMESPACE, namespaceName, objectsOf, SMALL } from './cluster.ts';
import { computeRatio, createRows, type Load, measureInTurns } from './compare.ts';
import { send } from './load.ts';
import { plainPodReviews, restrictedPodReviews } from './reviews.ts';
import type { Row } from './row.ts';
import { admitted } from './scc.ts';
import { buildBundle, createPeer, readMemory, startBare, startCluster, startReplica, type Subject } from './subject.ts';

/** A load, and the limit of its CPU time relative to the bare server in percent. */
interface Measure extends Load {
  readonly atMost: number;
}

export interface ServeOptions {
  /** URL of another Pod Security server to measure with the same load. */
  readonly peer?: string | undefined;
  /** Process ID of the other server, to measure its CPU time and memory. */
  readonly peerPid?: number | undefined;
  /** Script of another bundle to measure, such as the previous release. */
  readonly previous?: string | undefined;
}

/** Measures all servers in alternating rounds and returns medians. */
export async function benchServe({ peer, peerPid, previous }: ServeOptions): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-bench-'));
  const subjects: Subject[] = [];
  let cluster: Subject | undefined;
  try {
    await writeFile(join(folder, 'cluster.yaml'), manifest());
    const main = await buildBundle(folder);
    cluster = await startCluster(folder, main);
    subjects.push(await startReplica('portcullis', folder, main), await startBare(folder));
    if (previous !== undefined) subjects.push(await startReplica(PREVIOUS, folder, previous));
    for (const subject of subjects) await waitUntilAllowed(subject, podSecurity());
    const rows: Row[] = (await Promise.all(subjects.map((subject) => readMemory(subject, 'idle')))).flat();
    const peers = peer === undefined ? [] : [createPeer(peer, peerPid)];
    rows.push(...(await compare([...subjects, ...peers], podSecurity())));
    rows.push(...(await compareAuthorizer(subjects[0])));
    for (const measure of await securityContextConstraints()) rows.push(...(await compare(subjects, measure)));
    for (const subject of [...subjects, ...peers]) rows.push(...(await readMemory(subject, 'after load')));
    return rows.map((row) =>
      row.name.startsWith('portcullis, RSS') ? { ...row, target: { atMost: MAX_RSS_MIB } } : row,
    );
  } finally {
    for (const { stop } of subjects) stop?.();
    cluster?.stop?.();
    await rm(folder, { recursive: true });
  }
}

/** The namespace of Pod Security reviews, in which SCCs are off. The other namespaces also enforce SCCs. */
const WITHOUT_SCCS = namespaceName(1);

/** Returns 1,000 namespaces, a node and the minimum kubelet version. */
function manifest(): string {
  const namespaces = objectsOf({ ...SMALL, namespaces: 1000 }).flatMap(([kind, object]) => {
    if (kind !== 'Namespace') return [];
    const scc = object.metadata?.name === WITHOUT_SCCS ? 'off' : 'enforce';
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': scc };
    return [{ ...object, metadata: { ...object.metadata, labels } }];
  });
  const node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: NODE },
    status: { nodeInfo: { kubeletVersion: 'v1.34.0' } },
  };
  const settings = {
    apiVersion: 'config.portcullis.dev/v1alpha1',
    kind: 'PortcullisConfiguration',
    metadata: { name: 'cluster' },
    spec: { kubelet: { minimumVersion: '1.33.0' } },
  };
  return [...namespaces, node, settings].map((object) => JSON.stringify(object)).join('\n---\n');
}

const NODE = 'worker-1';
const CONNECTIONS = 8;
const MAX_RSS_MIB = 150;
const PREVIOUS = 'previous';

function podSecurity(): Measure {
  const bodies = restrictedPodReviews(WITHOUT_SCCS);
  return { name: 'Pod Security', path: '/validate/pods', bodies, connections: CONNECTIONS, atMost: 120 };
}

async function securityContextConstraints(): Promise<readonly Measure[]> {
  const plain = plainPodReviews(() => NAMESPACE);
  return [
    { name: 'SCC mutate', path: '/mutate/pods', bodies: plain, connections: CONNECTIONS, atMost: 160 },
    {
      name: 'SCC and Pod Security validate',
      path: '/validate/pods',
      bodies: await Promise.all(plain.map(admitted)),
      connections: CONNECTIONS,
      atMost: 140,
    },
  ];
}

async function compare(subjects: readonly Subject[], measure: Measure): Promise<readonly Row[]> {
  for (const subject of subjects) await waitUntilAllowed(subject, measure);
  const results = await measureInTurns(subjects.map((subject) => [subject, measure]));
  const ratio = (other: string): number =>
    computeRatio(results, ['portcullis', other], ({ cpuMicros = NaN }) => cpuMicros);
  const name = `${measure.name}: CPU per review, portcullis`;
  const rows: Row[] = [
    { name: `${name} / bare`, value: ratio('bare Fastify'), unit: '%', target: { atMost: measure.atMost } },
  ];
  if (results.has(PREVIOUS)) rows.push({ name: `${name} / ${PREVIOUS}`, value: ratio(PREVIOUS), unit: '%' });
  return [...createRows(results, measure), ...rows];
}

const ONE_BY_ONE = { connections: 1 };
/**
 * Requests per round. Rounds of Pod Security reviews alternate, so the authorization webhook stays below its rate
 * limit.
 */
const AUTHORIZER_REQUESTS = 500;

/** Compares the authorization webhook with the Pod Security webhook of one server. */
async function compareAuthorizer(subject: Subject | undefined): Promise<readonly Row[]> {
  if (!subject) return [];
  const authorizer = { ...subject, name: 'authorizer' };
  const response = await send(subject.target(AUTHORIZER_PATH), accessReview());
  if (!response.includes('"status":{"allowed":false}')) throw new Error(`the node is not permitted: ${response}`);
  const load = {
    ...ONE_BY_ONE,
    requests: AUTHORIZER_REQUESTS,
    name: 'One by one',
    path: AUTHORIZER_PATH,
    bodies: [accessReview()],
  };
  const results = await measureInTurns([
    [authorizer, load],
    [subject, { ...podSecurity(), ...ONE_BY_ONE }],
  ]);
  const value = computeRatio(results, ['authorizer', subject.name], ({ cpuMicros = NaN }) => cpuMicros);
  const name = 'CPU per review, authorizer / Pod Security';
  return [...createRows(results, load), { name, value, unit: '%', target: { atMost: 100 } }];
}

/** Returns the request of a node whose kubelet is new enough. */
function accessReview(): string {
  const spec = {
    user: `system:node:${NODE}`,
    groups: ['system:nodes', 'system:authenticated'],
    resourceAttributes: { namespace: NAMESPACE, verb: 'get', version: 'v1', resource: 'secrets', name: 'token' },
  };
  return JSON.stringify({ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec });
}

/**
 * Waits until the server has read the cluster. Before that, it denies reviews, which takes a different amount of time.
 */
async function waitUntilAllowed({ name, target }: Subject, { path, bodies: [body = ''] }: Load): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const response = await send(target(path), body);
    if (response.includes('"allowed":true')) return;
    if (attempt === 100) throw new Error(`${name} did not allow a pod: ${response}`);
    await pause(200);
  }
}
