/**
 * Measures a large cluster with controllers. Many Deployments restart without Portcullis, with Portcullis, and while
 * all replicas are replaced. The readiness evaluation and the label sync are also measured. `CLUSTER_NODES`,
 * `CLUSTER_NAMESPACES`, `CLUSTER_PODS` and `CLUSTER_ROLLOUT` set the sizes. Times and resources are reported, not
 * asserted.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseItems, responseObject } from '../support/answers.ts';
import { type ControlPlane, createSystem, type System } from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { readUsage } from '../support/process-usage.ts';
import { type FullCluster, missingPrograms, startFullCluster } from './cluster.ts';
import { COMPLIANT, PLAIN, workload } from './workloads.ts';

const NODES = Number(process.env['CLUSTER_NODES'] ?? 200);
const NAMESPACES = Number(process.env['CLUSTER_NAMESPACES'] ?? 100);
const PODS = Number(process.env['CLUSTER_PODS'] ?? 2000);
/** Number of Deployments to restart. */
const ROLLOUT = Number(process.env['CLUSTER_ROLLOUT'] ?? 200);
/** Number of pods of each Deployment. */
const REPLICAS = 5;
const DEPLOYMENTS = Math.ceil(PODS / REPLICAS);
const CONCURRENCY = 8;
const WAIT_MS = 900_000;
const MERGE = { 'content-type': 'application/merge-patch+json' };
const CONFIG = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs/cluster';
const ENFORCE = 'pod-security.kubernetes.io/enforce';
/** The clock offset of the replicas, so they treat new namespaces as older than a minute. */
const SKEWED = {
  NODE_OPTIONS: `--import=${fileURLToPath(new URL('../support/clock-skew.ts', import.meta.url))}`,
  CLOCK_SKEW_MS: '120000',
};

const namespaceName = (index: number): string => `team-${index % NAMESPACES}`;

suite('a large cluster', { skip: missingPrograms }, () => {
  let cluster: FullCluster;
  let plane: ControlPlane;
  let system: System;

  /** Restarts Deployments, and reports the time until all their pods run and the resources used. */
  const restart = async (t: TestContext, during?: () => Promise<void>): Promise<void> => {
    const replicas = during ? [] : system.replicas;
    const pids = [plane.pid, ...replicas.map(({ pid }) => pid)];
    const before = await Promise.all(pids.map(readUsage));
    const startMs = performance.now();
    const template = { metadata: { annotations: { restarted: new Date().toISOString() } } };
    await forEach(ROLLOUT, async (index) => {
      const path = `/apis/apps/v1/namespaces/${namespaceName(index)}/deployments/app-${index}`;
      const answer = await plane.admin.send('PATCH', path, { spec: { template } }, MERGE);
      assert.equal(answer.status, 200, answer.text);
    });
    await during?.();
    await complete(plane);
    const seconds = (performance.now() - startMs) / 1000;
    t.diagnostic(`${ROLLOUT} Deployments with ${ROLLOUT * REPLICAS} pods restarted in ${seconds.toFixed(0)} s`);
    const after = await Promise.all(pids.map(readUsage));
    for (const [index, { cpuSeconds, rssMiB }] of after.entries()) {
      const used = cpuSeconds - (before[index]?.cpuSeconds ?? 0);
      const name = index === 0 ? 'API server' : `replica ${index}`;
      t.diagnostic(`${name}: ${used.toFixed(1)} s of CPU time, RSS ${rssMiB} MiB`);
    }
    for (const { name, log } of system.replicas) {
      const errors = log().filter(({ level }) => level === 'error');
      assert.deepEqual(errors, [], name);
    }
  };

  before(async () => {
    cluster = await startFullCluster(NODES);
    ({ plane } = cluster);
    system = await createSystem(plane);
    await forEach(NAMESPACES, async (index) => {
      await create(plane.admin, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespaceName(index) } });
    });
    await forEach(DEPLOYMENTS, async (index) => {
      const spec = index % 2 === 0 ? COMPLIANT : PLAIN;
      await create(plane.admin, workload('Deployment', `app-${index}`, namespaceName(index), spec, REPLICAS));
    });
    await complete(plane);
  });
  after(async () => {
    try {
      await system?.stop();
    } finally {
      await cluster?.stop();
    }
  });

  test('can restart all pods without Portcullis', async (t) => {
    t.diagnostic(`${plane.title}, ${NODES} simulated nodes, ${NAMESPACES} namespaces, ${DEPLOYMENTS * REPLICAS} pods`);
    await restart(t);
  });

  test('is evaluated by two replicas', async (t) => {
    await system.install();
    await system.configure({ rollout: { phase: 'Evaluate', raiseSettleTime: '1s' }, scc: { mode: 'enforce' } });
    const startMs = performance.now();
    await system.add(2, { env: SKEWED });
    t.diagnostic(`two replicas ready in ${seconds(startMs)} s`);
    await eventually(async () => assert.equal(await condition(plane, 'Evaluated'), 'True/Completed'), WAIT_MS);
    t.diagnostic(`first evaluation complete after ${seconds(startMs)} s`);
    for (const { pid, name } of system.replicas) {
      const { cpuSeconds, rssMiB, peakMiB } = await readUsage(pid);
      t.diagnostic(`${name}: ${cpuSeconds.toFixed(1)} s of CPU time, RSS ${rssMiB} MiB, peak ${peakMiB} MiB`);
    }
  });

  test('can restart all pods with Pod Security and SCC admission', async (t) => {
    await restart(t);
    const pods = responseItems(await plane.admin.send('GET', `/api/v1/namespaces/${namespaceName(0)}/pods`));
    const restarted = pods.filter((pod) => objectMetadata(pod)['annotations'] !== undefined);
    assert.ok(
      restarted.some((pod) => JSON.stringify(objectMetadata(pod)['annotations']).includes('openshift.io/scc')),
      'no pod has an SCC',
    );
  });

  test('can restart all pods while all replicas are replaced', (t) =>
    restart(t, async () => {
      const old = [...system.replicas];
      for (const replica of old) {
        await system.add(1, { env: SKEWED });
        await system.retire(replica);
      }
      await system.settled(2);
    }));

  test('gets labels on all namespaces when enforcement starts', async (t) => {
    const startMs = performance.now();
    await system.configure({ rollout: { phase: 'Enforce', raiseSettleTime: '1s' }, scc: { mode: 'enforce' } });
    const enforced = { spec: { enforcementMode: 'Restricted' } };
    assert.equal((await plane.admin.send('PATCH', CONFIG, enforced, MERGE)).status, 200);
    await eventually(async () => {
      const namespaces = responseItems(await plane.admin.send('GET', '/api/v1/namespaces'));
      const teams = namespaces.map(objectMetadata).filter(({ name }) => String(name).startsWith('team-'));
      const labeled = teams.filter(({ labels }) => isObject(labels) && labels[ENFORCE] !== undefined);
      assert.equal(labeled.length, NAMESPACES);
    }, WAIT_MS);
    t.diagnostic(`${NAMESPACES} namespaces labeled after ${seconds(startMs)} s`);
    await restart(t);
  });
});

function seconds(startMs: number): string {
  return ((performance.now() - startMs) / 1000).toFixed(1);
}

/** Calls the function with each number from 0 to `count` - 1, with several calls at a time. */
async function forEach(count: number, act: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) await act(next++);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
}

/** Waits until all pods of all Deployments run the current template. */
async function complete({ admin }: ControlPlane): Promise<void> {
  await eventually(async () => {
    const deployments = responseItems(await admin.send('GET', '/apis/apps/v1/deployments?resourceVersion=0'));
    const incomplete = deployments.filter(
      (object) => String(objectMetadata(object)['name']).startsWith('app-') && !isComplete(object),
    );
    const [first] = incomplete;
    if (first === undefined) return;
    await pause(1000);
    assert.fail(`${incomplete.length} Deployments are incomplete, such as ${JSON.stringify(first['status'])}`);
  }, WAIT_MS);
}

function isComplete(object: JsonObject): boolean {
  const { generation } = objectMetadata(object);
  const status = isObject(object['status']) ? object['status'] : {};
  const { observedGeneration, replicas, updatedReplicas, readyReplicas } = status;
  return (
    observedGeneration === generation &&
    replicas === REPLICAS &&
    updatedReplicas === REPLICAS &&
    readyReplicas === REPLICAS
  );
}

async function condition({ admin }: ControlPlane, type: string): Promise<string> {
  const { status } = responseObject(await admin.send('GET', CONFIG));
  const conditions = isObject(status) && Array.isArray(status['conditions']) ? status['conditions'] : [];
  const found = conditions.filter(isObject).find((one) => one['type'] === type);
  return `${String(found?.['status'])}/${String(found?.['reason'])}`;
}
