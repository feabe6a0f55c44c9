/** A replica in a large cluster: how long it takes to begin, what it needs, and whether reviews wait while much changes. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  createSystem,
  startControlPlane,
  startReplica,
  type ControlPlane,
  type Replica,
} from '../support/control-plane/index.ts';
import { eventually } from '../support/eventually.ts';
import { levelOf, namespaceName } from '../support/large-cluster/objects.ts';
import { startLargeCluster, type LargeCluster } from '../support/large-cluster/server.ts';
import type { Table } from '../support/large-cluster/table.ts';
import { usageOf } from '../support/process-usage.ts';
import { podReview } from '../support/reviews.ts';
import { startLoad, type LoadReport, type Question } from '../support/steady-load.ts';
import { createWebhookClient, type WebhookClient } from '../support/webhook-client.ts';
import { assertFlawless, specOf, summaryOf } from './stage.ts';

const SIZES = { namespaces: 10_000, bindings: 50_000, pods: 100_000 };
const MAX_RSS_MIB = 350;
const NAMESPACES = '/api/v1/namespaces';
const PODS = '/api/v1/pods';
const BINDINGS = '/apis/rbac.authorization.k8s.io/v1/rolebindings';
/** What of a processor a replica may use when nothing happens. */
const MAX_IDLE_SHARE = 0.02;
const IDLE_MS = 20_000;

/** Reviews in namespaces that do not change, and their answers. */
const QUESTIONS: readonly Question[] = [0, 2, 5000, 9998].flatMap((index) => [
  { path: '/psa/validate', allowed: true, review: reviewIn(index, 'restricted') },
  { path: '/psa/validate', allowed: false, review: reviewIn(index, 'privileged') },
  { path: '/scc/mutate', allowed: true, review: reviewIn(index, 'restricted') },
]);

function reviewIn(index: number, kind: 'restricted' | 'privileged'): Question['review'] {
  return podReview({ namespace: namespaceName(index), spec: specOf(kind) });
}

for (const program of ['the bundle', 'the sources'] as const) {
  suite(`a large cluster, with ${program}`, { timeout: 900_000 }, () => {
    let plane: ControlPlane;
    let large: LargeCluster;
    let replica: Replica;
    let client: WebhookClient;
    let folder: string;
    let firstPeakMiB = 0;
    const table = (path: string): Table => {
      const found = large.tables.get(path);
      assert.ok(found, path);
      return found;
    };
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'portcullis-bundle-'));
      const main = program === 'the bundle' ? { main: await bundle(folder) } : {};
      plane = await startControlPlane();
      await (await createSystem(plane)).install();
      large = await startLargeCluster(SIZES, await plane.kubeconfigFor('admin', ['system:masters']));
      replica = await startReplica(plane, { kubeconfig: large.kubeconfig, ...main });
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
      const load = startLoad({ client, questions: QUESTIONS, perSecond: 50 });
      try {
        await act();
      } finally {
        await load.stop();
      }
      return load.report();
    };

    test('is read', async (t) => {
      const read = await eventually(() => {
        const line = replica.log().find(({ msg }) => msg === 'cluster synced');
        assert.ok(line, 'the cluster has not been read');
        return line;
      }, 300_000);
      await replica.ready(60_000);
      const { rssMiB, peakMiB, cpuSeconds } = await usageOf(replica.pid);
      t.diagnostic(`read in ${Number(read['durationMs']) / 1000} s; ${cpuSeconds} s of processor time so far`);
      t.diagnostic(`RSS ${rssMiB} MiB, at most ${peakMiB} MiB so far`);
      firstPeakMiB = peakMiB;
      await eventually(async () => {
        for (const { path, review, allowed } of QUESTIONS) assert.equal(await client.call(path, review), allowed, path);
      }, 60_000);
    });

    test('costs next to nothing while nothing happens', async (t) => {
      // What the start has left behind is cleared away first.
      await pause(30_000);
      const first = await usageOf(replica.pid);
      await pause(IDLE_MS);
      const { cpuSeconds, rssMiB, peakMiB } = await usageOf(replica.pid);
      const share = (cpuSeconds - first.cpuSeconds) / (IDLE_MS / 1000);
      t.diagnostic(
        `${Math.round(share * 1000) / 10} % of a processor; RSS ${rssMiB} MiB, at most ${peakMiB} MiB so far`,
      );
      assert.ok(share <= MAX_IDLE_SHARE, `${share} of a processor`);
      if (program === 'the bundle') assert.ok(rssMiB <= MAX_RSS_MIB, `${rssMiB} MiB`);
    });

    test('changes fast: reviews are answered, and the last change counts', async (t) => {
      const [pods, bindings, namespaces] = [table(PODS), table(BINDINGS), table(NAMESPACES)];
      const report = await underLoad(async () => {
        for (let tick = 0; tick < 100; tick++) {
          for (let one = 0; one < 50; one++) pods.change((tick * 50 + one) * 7);
          for (let one = 0; one < 5; one++) pods.remove((tick * 5 + one) * 11 + 1);
          for (let one = 0; one < 20; one++) bindings.change((tick * 20 + one) * 3);
          namespaces.change(2 * tick + 1);
          await pause(100);
        }
      });
      t.diagnostic(summaryOf(report));
      assertFlawless(report);
      for (const index of [1, 101, 199]) {
        const isBaseline = levelOf(index, namespaces.changes(index)) === 'baseline';
        const review = podReview({ namespace: namespaceName(index) });
        await eventually(async () => assert.equal(await client.call('/psa/validate', review), isBaseline));
      }
    });

    test('is read anew: reviews are answered meanwhile', async (t) => {
      const report = await underLoad(async () => {
        const before = large.requests();
        for (const path of [PODS, BINDINGS, NAMESPACES]) table(path).forget();
        const pages = SIZES.pods / 100;
        await eventually(() => assert.ok(large.requests() - before > pages, 'it is still being read'), 300_000);
      });
      t.diagnostic(summaryOf(report));
      assertFlawless(report);
      const { rssMiB, peakMiB } = await usageOf(replica.pid);
      t.diagnostic(`RSS ${rssMiB} MiB, at most ${peakMiB} MiB so far`);
    });

    // What is left is garbage, collected when memory is next asked for.
    test('needs no more memory for the second reading than for the first', async (t) => {
      await pause(30_000);
      const { rssMiB } = await usageOf(replica.pid);
      t.diagnostic(`RSS ${rssMiB} MiB`);
      assert.ok(rssMiB <= firstPeakMiB * 1.1, `${rssMiB} MiB after ${firstPeakMiB} MiB`);
    });
  });
}

const BUILD = fileURLToPath(new URL('../../scripts/build.ts', import.meta.url));

/** Makes the bundle and returns its script. */
async function bundle(folder: string): Promise<string> {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const dist = join(folder, 'dist');
  await promisify(execFile)(process.execPath, [BUILD, dist], { cwd: root });
  return join(dist, 'main.js');
}
