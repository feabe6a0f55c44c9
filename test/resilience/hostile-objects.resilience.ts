/**
 * Measures a replica in a cluster in which users of a few namespaces have created the largest objects that API servers
 * accept. The objects are of every kind that replicas read and these users can write.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { JsonObject } from '../../src/kube/types.ts';
import {
  type ControlPlane,
  createSystem,
  type Replica,
  startControlPlane,
  startReplica,
} from '../support/control-plane/index.ts';
import { eventually } from '../support/eventually.ts';
import type { Collection } from '../support/large-cluster/objects.ts';
import { type LargeCluster, serveCollections } from '../support/large-cluster/server.ts';
import { readUsage } from '../support/process-usage.ts';
import { podReview } from '../support/reviews.ts';
import { startLoad } from '../support/steady-load.ts';
import { createWebhookClient } from '../support/webhook-client.ts';
import { bundle } from './bundle.ts';
import { imageEnvironment } from './image.ts';
import { measureThread } from './measured-client.ts';
import { formatReport } from './stage.ts';

/** The memory limit in the manifests. */
const MEMORY_MIB = 512;
const MAX_RSS_MIB = 400;
/**
 * Maximum CPU time of the main thread during a review. Response times are not limited, because other processes on the
 * machine delay responses.
 */
const MAX_P99_MS = 100;
/**
 * Length of long texts. An API server stores objects of at most 1.5 MiB, but JSON escapes some characters as six bytes.
 */
const SIZE = 1_300_000;
const TEXT = 'x'.repeat(SIZE);
const ESCAPED = '\u0001'.repeat(SIZE);

const repeat = (count: number, build: (index: number) => unknown): readonly unknown[] =>
  Array.from({ length: count }, (_, index) => build(index));
const container = { name: 'c', image: 'registry.example.com/web:1', securityContext: { runAsNonRoot: true } };
const MANY_VOLUMES = { containers: [container], volumes: repeat(19_000, (i) => ({ name: `v${i}`, emptyDir: {} })) };
const withVariable = (value: string) => ({ containers: [{ ...container, env: [{ name: 'A', value }] }] });
const LARGE_VARIABLE = withVariable(TEXT);
const ESCAPED_VARIABLE = withVariable(ESCAPED);
/** Returns the spec of a pod that is nearly as large as stored pods may be. The spec of each pod is different. */
const largestStored = (index: number) => ({
  containers: [container],
  volumes: repeat(700, (i) => ({ name: `v-${index}-${i}`, emptyDir: {} })),
});
const USE = { verbs: ['use'], apiGroups: ['security.openshift.io'], resources: ['securitycontextconstraints'] };
const RULES = repeat(12_000, (i) => ({
  verbs: ['get'],
  apiGroups: [''],
  resources: ['pods'],
  resourceNames: [`pod-${i}`],
}));
const USE_RULES = repeat(12_000, (i) => ({ ...USE, resourceNames: [`name-${i}`] }));
const SUBJECTS = repeat(12_000, (i) => ({
  kind: 'User',
  apiGroup: 'rbac.authorization.k8s.io',
  name: `user-number-${i}`,
}));
const EXCEPTION = {
  serviceAccountName: 'default',
  expiresAt: '2030-01-01T00:00:00Z',
  reason: 'x'.repeat(1024),
  allow: repeat(32, () => ({ check: 'hostPathVolumes', values: repeat(32, (i) => `${i}`.padEnd(512, 'x')) })),
};
const MANY_LABELS = Object.fromEntries(
  repeat(30_000, (i) => [`example.com/label-${i}`, `value-${i}`]) as [string, string][],
);
const OWNERS = repeat(8_000, (i) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  name: `owner-${i}`,
  uid: `00000000-${i}`,
}));

interface Group {
  readonly count: number;
  build(index: number): JsonObject;
}

const template = (spec: unknown): JsonObject => ({
  spec: { template: { metadata: { annotations: { a: 'b' } }, spec } },
});
const WORKLOADS: readonly Group[] = [
  { count: 50, build: () => template(MANY_VOLUMES) },
  { count: 50, build: () => template(LARGE_VARIABLE) },
];
const metadata = (more: object): JsonObject => ({ metadata: more });
const rbac = '/apis/rbac.authorization.k8s.io/v1';

const GROUPS: Readonly<Record<string, readonly Group[]>> = {
  '/api/v1/pods': [
    { count: 55, build: () => ({ spec: MANY_VOLUMES }) },
    { count: 220, build: () => ({ spec: LARGE_VARIABLE }) },
    { count: 10, build: () => ({ spec: ESCAPED_VARIABLE }) },
    {
      count: 20,
      build: () => ({ ...metadata({ ownerReferences: OWNERS, labels: MANY_LABELS }), spec: withVariable('') }),
    },
    { count: 3000, build: (index) => ({ spec: largestStored(index) }) },
  ],
  [`${rbac}/roles`]: [
    { count: 43, build: () => ({ rules: RULES }) },
    { count: 43, build: () => ({ rules: USE_RULES }) },
  ],
  [`${rbac}/rolebindings`]: [
    { count: 40, build: () => ({ roleRef: { kind: 'Role', name: 'hostile-0' }, subjects: SUBJECTS }) },
    { count: 40, build: () => ({ roleRef: { kind: 'Role', name: 'hostile-50' }, subjects: SUBJECTS }) },
  ],
  '/api/v1/serviceaccounts': [{ count: 200, build: () => metadata({ labels: MANY_LABELS, annotations: { a: TEXT } }) }],
  '/api/v1/podtemplates': [{ count: 100, build: () => ({ template: { spec: LARGE_VARIABLE } }) }],
  '/apis/apps/v1/deployments': WORKLOADS,
  '/apis/apps/v1/statefulsets': WORKLOADS,
  '/apis/apps/v1/daemonsets': WORKLOADS,
  '/apis/apps/v1/replicasets': WORKLOADS,
  '/apis/batch/v1/jobs': WORKLOADS,
  '/apis/batch/v1/cronjobs': [{ count: 100, build: () => ({ spec: { jobTemplate: template(LARGE_VARIABLE) } }) }],
  '/apis/policy.portcullis.dev/v1alpha1/podsecurityexceptions': [{ count: 300, build: () => ({ spec: EXCEPTION }) }],
};

/** Adds names and types to the objects of the groups, one group after another. */
function createCollection(groups: readonly Group[]): Collection {
  const builders = groups.flatMap(({ count, build }) => repeat(count, () => build) as Group['build'][]);
  return {
    count: builders.length,
    build(index, changes, resourceVersion) {
      const object = builders[index]?.(index) ?? {};
      const identity = { name: `hostile-${index}`, namespace: 'shop', uid: `uid-${index}`, resourceVersion };
      return { ...object, metadata: { ...(object['metadata'] as object), generation: changes, ...identity } };
    },
  };
}

suite('a replica in a cluster with hostile objects', { timeout: 900_000 }, () => {
  let plane: ControlPlane;
  let hostile: LargeCluster;
  let folder: string;
  let main: string;
  let replica: Replica | undefined;
  const turns = (): string => join(folder, 'turns');

  const start = async (): Promise<Replica> => {
    const env = imageEnvironment(MEMORY_MIB, turns());
    replica = await startReplica(plane, { kubeconfig: hostile.kubeconfig, main, env, args: ['--log-level=info'] });
    await replica.ready(300_000);
    return replica;
  };
  const isRead = async ({ probe }: Replica): Promise<void> => {
    const { status, text } = await probe();
    assert.equal(status, 200);
    assert.doesNotMatch(text, /the controllers are waiting for/);
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-bundle-'));
    main = await bundle(folder);
    plane = await startControlPlane();
    const system = await createSystem(plane);
    await system.install();
    await system.configure({
      scc: { mode: 'enforce' },
      rollout: { phase: 'Evaluate' },
      podSecurity: { exceptions: { mode: 'approved' } },
    });
    await plane.admin.send('POST', '/api/v1/namespaces', {
      metadata: { name: 'shop', labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
    });
    const collections = new Map(Object.entries(GROUPS).map(([path, groups]) => [path, createCollection(groups)]));
    hostile = await serveCollections(collections, await plane.kubeconfigFor('admin', ['system:masters']));
  });
  after(async () => {
    await replica?.stop();
    await hostile.stop();
    await plane.stop();
    await rm(folder, { recursive: true, force: true });
  });

  for (const round of ['first', 'second']) {
    test(`reads all objects after start ${round} of its container`, async (t) => {
      await replica?.stop();
      const startMs = performance.now();
      const started = await start();
      t.diagnostic(`ready after ${Math.round(performance.now() - startMs)} ms`);
      await eventually(() => isRead(started), 400_000);
      t.diagnostic(`all objects read after ${Math.round(performance.now() - startMs)} ms`);
      await pause(5000);
      const { rssMiB, peakMiB, cpuSeconds } = await readUsage(started.pid);
      const turnMs = await readFile(turns(), 'utf8');
      t.diagnostic(`RSS ${rssMiB} MiB, peak ${peakMiB} MiB, ${cpuSeconds} s of CPU time, longest turn ${turnMs} ms`);
      assert.ok(peakMiB <= MAX_RSS_MIB, `${peakMiB} MiB`);
    });
  }

  test('answers reviews without failures while the objects change and are listed again', async (t) => {
    assert.ok(replica);
    const client = createWebhookClient({
      port: replica.port,
      serverName: 'localhost',
      authority: 'any',
      timeoutSeconds: 15,
    });
    const thread = measureThread(client, replica.pid);
    const review = podReview({ namespace: 'shop', spec: { hostPID: true, containers: [{ name: 'c', image: 'i' }] } });
    const load = startLoad({
      client: thread.client,
      reviews: [{ path: '/validate/pods', allowed: false, review }],
      perSecond: 50,
    });
    const tables = [...hostile.tables.values()];
    for (let round = 0; round < 10; round++) {
      for (const table of tables) table.change(round);
      await pause(1000);
    }
    for (const table of tables) table.expire();
    await pause(30_000);
    await eventually(() => isRead(replica as Replica), 300_000);
    await load.stop();
    client.close();
    const { cpuP99Ms, cpuMaxMs, ownP99Ms } = thread.result();
    t.diagnostic(
      `${formatReport(load.report())}; without waits for a CPU p99 ${ownP99Ms} ms; CPU time p99 ${cpuP99Ms} ms, maximum ${cpuMaxMs} ms`,
    );
    const { rssMiB, peakMiB } = await readUsage(replica.pid);
    t.diagnostic(`RSS ${rssMiB} MiB, peak ${peakMiB} MiB, longest turn ${await readFile(turns(), 'utf8')} ms`);
    const { failures, wrong } = load.report();
    assert.deepEqual([failures.length, wrong], [0, 0]);
    assert.ok(peakMiB <= MAX_RSS_MIB, `${peakMiB} MiB`);
    assert.ok(cpuP99Ms < MAX_P99_MS, `${cpuP99Ms} ms`);
  });
});
