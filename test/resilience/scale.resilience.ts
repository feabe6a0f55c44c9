/** Measures the start time, memory and CPU of a replica in a large cluster, and tests reviews during many changes. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type ControlPlane,
  createSystem,
  type Replica,
  startControlPlane,
  startReplica,
} from '../support/control-plane/index.ts';
import { eventually } from '../support/eventually.ts';
import { enforcedLevel, namespaceName } from '../support/large-cluster/objects.ts';
import { type LargeCluster, startLargeCluster } from '../support/large-cluster/server.ts';
import type { Table } from '../support/large-cluster/table.ts';
import { readUsage } from '../support/process-usage.ts';
import { podReview } from '../support/reviews.ts';
import { type ExpectedReview, type LoadReport, startLoad } from '../support/steady-load.ts';
import { createWebhookClient, type WebhookClient } from '../support/webhook-client.ts';
import { bundle } from './bundle.ts';
import { imageEnvironment } from './image.ts';
import { assertNoFailures, buildSpec, formatReport } from './stage.ts';

/** The memory limit in the manifests, and the largest cluster for which the documentation recommends it. */
const MEMORY_MIB = 512;
const SIZES = { namespaces: 10_000, bindings: 50_000, pods: 60_000 };
const MAX_RSS_MIB = 300;
const NAMESPACES = '/api/v1/namespaces';
const PODS = '/api/v1/pods';
const BINDINGS = '/apis/rbac.authorization.k8s.io/v1/rolebindings';
/** Maximum CPU use of an idle replica. */
const MAX_IDLE_SHARE = 0.02;
const IDLE_MS = 20_000;

/** Reviews of pods in namespaces that do not change. */
const REVIEWS: readonly ExpectedReview[] = [0, 2, 5000, 9998].flatMap((index) => [
  { path: '/validate/pods', allowed: true, review: buildReview(index, 'restricted') },
  { path: '/validate/pods', allowed: false, review: buildReview(index, 'privileged') },
  { path: '/mutate/pods', allowed: true, review: buildReview(index, 'restricted') },
]);

function buildReview(index: number, kind: 'restricted' | 'privileged'): ExpectedReview['review'] {
  return podReview({ namespace: namespaceName(index), spec: buildSpec(kind) });
}

suite('a replica in a large cluster', { timeout: 900_000 }, () => {
  let plane: ControlPlane;
  let large: LargeCluster;
  let replica: Replica;
  let client: WebhookClient;
  let folder: string;
  let startedMs = 0;
  let firstPeakMiB = 0;
  const table = (path: string): Table => {
    const existing = large.tables.get(path);
    assert.ok(existing, path);
    return existing;
  };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-bundle-'));
    const main = await bundle(folder);
    plane = await startControlPlane();
    await (await createSystem(plane)).install();
    large = await startLargeCluster(SIZES, await plane.kubeconfigFor('admin', ['system:masters']));
    startedMs = performance.now();
    replica = await startReplica(plane, { kubeconfig: large.kubeconfig, main, env: imageEnvironment(MEMORY_MIB) });
    client = createWebhookClient({
      port: replica.port,
      serverName: 'localhost',
      authority: 'any',
      timeoutSeconds: 15,
    });
  });
  after(async () => {
    client.close();
    await replica.stop();
    await large.stop();
    await plane.stop();
    await rm(folder, { recursive: true, force: true });
  });
  const underLoad = async (act: () => Promise<void>): Promise<LoadReport> => {
    const load = startLoad({ client, reviews: REVIEWS, perSecond: 50 });
    try {
      await act();
    } finally {
      await load.stop();
    }
    return load.report();
  };

  test('reads the cluster', async (t) => {
    await replica.ready(300_000);
    const readyMs = performance.now() - startedMs;
    // Pods and workloads are read after the replica is ready.
    await eventually(
      async () => assert.doesNotMatch((await replica.probe()).text, /the controllers are waiting for/),
      300_000,
    );
    const readMs = performance.now() - startedMs;
    const { rssMiB, peakMiB, cpuSeconds } = await readUsage(replica.pid);
    t.diagnostic(`ready after ${(readyMs / 1000).toFixed(1)} s, all pods read after ${Math.round(readMs / 1000)} s`);
    t.diagnostic(`${cpuSeconds} s of CPU time`);
    t.diagnostic(`RSS ${rssMiB} MiB, peak ${peakMiB} MiB`);
    firstPeakMiB = peakMiB;
    await eventually(async () => {
      for (const { path, review, allowed } of REVIEWS) assert.equal(await client.call(path, review), allowed, path);
    }, 60_000);
  });

  test('uses little CPU and memory while idle', async (t) => {
    // The garbage from startup is collected first.
    await pause(30_000);
    const first = await readUsage(replica.pid);
    await pause(IDLE_MS);
    const { cpuSeconds, rssMiB, peakMiB } = await readUsage(replica.pid);
    const share = (cpuSeconds - first.cpuSeconds) / (IDLE_MS / 1000);
    t.diagnostic(`${Math.round(share * 1000) / 10} % of a CPU; RSS ${rssMiB} MiB, peak ${peakMiB} MiB`);
    assert.ok(share <= MAX_IDLE_SHARE, `${share} of a CPU`);
    assert.ok(rssMiB <= MAX_RSS_MIB, `${rssMiB} MiB`);
  });

  test('applies frequent changes without failed reviews', async (t) => {
    const [pods, bindings, namespaces] = [table(PODS), table(BINDINGS), table(NAMESPACES)];
    const report = await underLoad(async () => {
      for (let tick = 0; tick < 100; tick++) {
        for (let index = 0; index < 50; index++) pods.change((tick * 50 + index) * 7);
        for (let index = 0; index < 5; index++) pods.remove((tick * 5 + index) * 11 + 1);
        for (let index = 0; index < 20; index++) bindings.change((tick * 20 + index) * 3);
        namespaces.change(2 * tick + 1);
        await pause(100);
      }
    });
    t.diagnostic(formatReport(report));
    assertNoFailures(report);
    for (const index of [1, 101, 199]) {
      const isBaseline = enforcedLevel(index, namespaces.changes(index)) === 'baseline';
      const review = podReview({ namespace: namespaceName(index) });
      await eventually(async () => assert.equal(await client.call('/validate/pods', review), isBaseline));
    }
  });

  test('lists the cluster again without failed reviews', async (t) => {
    const report = await underLoad(async () => {
      const before = large.requests();
      for (const path of [PODS, BINDINGS, NAMESPACES]) table(path).expire();
      const pages = SIZES.pods / 100;
      await eventually(() => assert.ok(large.requests() - before > pages, 'the lists are not complete'), 300_000);
    });
    t.diagnostic(formatReport(report));
    assertNoFailures(report);
    const { rssMiB, peakMiB } = await readUsage(replica.pid);
    t.diagnostic(`RSS ${rssMiB} MiB, peak ${peakMiB} MiB`);
  });

  // Later allocations trigger the collection of the garbage from the second read.
  test('uses no more memory for the second read than for the first', async (t) => {
    await pause(30_000);
    const { rssMiB } = await readUsage(replica.pid);
    t.diagnostic(`RSS ${rssMiB} MiB`);
    assert.ok(rssMiB <= firstPeakMiB * 1.25, `${rssMiB} MiB after ${firstPeakMiB} MiB`);
  });
});
