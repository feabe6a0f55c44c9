/**
 * Tests the lifecycle of an installation in a cluster with controllers, while Deployments are created, scaled and
 * deleted. The lifecycle consists of evaluation, enforcement, SCCs, upgrade, break-glass and uninstallation. Each test
 * continues from the state of the previous test.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { responseItems, responseObject } from '../support/answers.ts';
import { type ControlPlane, createSystem, type System } from '../support/control-plane/index.ts';
import { apply, create, localObjects } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';
import { type FullCluster, missingPrograms, startFullCluster } from './cluster.ts';
import { assertComplete, type DeploymentState, type Load, startLoad } from './load.ts';
import { CONTROLLER, PLAIN } from './workloads.ts';

const NODES = Number(process.env['CLUSTER_NODES'] ?? 200);
const NAMESPACES = Array.from({ length: 10 }, (_, index) => `team-${index}`);
const WAIT_MS = 120_000;
/** Time during which the load writes Deployments with new contents. */
const LOAD_MS = 10_000;
const MERGE = { 'content-type': 'application/merge-patch+json' };
const CONFIG = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs/cluster';
const ADMISSION = '/apis/admissionregistration.k8s.io/v1';

/** The clock offset of the replicas, so they treat new namespaces as older than a minute. */
const SKEW_MS = 120_000;
const SKEWED = {
  NODE_OPTIONS: `--import=${fileURLToPath(new URL('../support/clock-skew.ts', import.meta.url))}`,
  CLOCK_SKEW_MS: String(SKEW_MS),
};

suite('the lifecycle of an installation', { skip: missingPrograms }, () => {
  let cluster: FullCluster;
  let plane: ControlPlane;
  let system: System;
  let load: Load;

  const configure = (phase: string, mode: string): Promise<void> =>
    system.configure({ rollout: { phase, raiseSettleTime: '1s' }, scc: { mode } });
  const patchConfig = async (change: JsonObject): Promise<void> => {
    const answer = await plane.admin.send('PATCH', CONFIG, change, MERGE);
    assert.equal(answer.status, 200, answer.text);
  };
  const evaluateNow = (): Promise<void> => {
    const time = new Date(Date.now() + SKEW_MS + 1000).toISOString();
    return patchConfig({ metadata: { annotations: { 'portcullis.dev/evaluate': time } } });
  };
  const status = async (): Promise<JsonObject> => {
    const object = responseObject(await plane.admin.send('GET', CONFIG));
    return isObject(object['status']) ? object['status'] : {};
  };
  const condition = async (type: string): Promise<string> => {
    const { conditions } = await status();
    const found = (Array.isArray(conditions) ? conditions : []).filter(isObject).find((one) => one['type'] === type);
    return `${String(found?.['status'])}/${String(found?.['reason'])}`;
  };
  /** Returns the namespaces with pods that enforcement would deny. The status also lists fixed namespaces. */
  const violating = async (): Promise<readonly unknown[]> => {
    const { violatingNamespaces } = await status();
    const all: readonly unknown[] = Array.isArray(violatingNamespaces) ? violatingNamespaces : [];
    return all.filter((one) => isObject(one) && one['state'] === 'Current');
  };
  const run = async (...args: readonly string[]): Promise<void> => {
    const { code, stdout, stderr } = await runProgram([
      ...args,
      `--kubeconfig=${await plane.kubeconfigFor('admin', ['system:masters'])}`,
    ]);
    assert.equal(code, 0, `${stdout}${stderr}`);
  };
  const denied = (one: DeploymentState): void => {
    if (one.replicas > one.ready) assert.match(String(one.failure), /violates PodSecurity|security context constraint/);
  };
  /** Asserts that no pod is missing, except pods on the host network, which are denied. */
  const onlyHostIsDenied = (one: DeploymentState): void => (one.content === 'host' ? denied(one) : assertComplete(one));
  const noFailures = (): void => assert.deepEqual(load.failures, []);

  before(async () => {
    cluster = await startFullCluster(NODES);
    ({ plane } = cluster);
    system = await createSystem(plane);
    for (const name of NAMESPACES) {
      await create(plane.admin, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    }
    load = startLoad(plane.admin, NAMESPACES);
    load.use(['compliant', 'host']);
    await pause(LOAD_MS);
    await load.settle(assertComplete, WAIT_MS);
  });
  after(async () => {
    await load?.stop();
    try {
      await system?.stop();
    } finally {
      await cluster?.stop();
    }
  });

  test('the installation evaluates, but denies nothing', async (t) => {
    t.diagnostic(`ran against: ${plane.title}, ${NODES} simulated nodes`);
    await system.install();
    await configure('Evaluate', 'report');
    await system.add(2, { env: SKEWED });
    await eventually(async () => {
      await evaluateNow();
      assert.equal(await condition('Evaluated'), 'True/Completed');
      assert.ok((await violating()).length > 0, JSON.stringify(await status()));
    }, WAIT_MS);
    await load.settle(assertComplete, WAIT_MS);
    noFailures();
  });

  test('enforcement begins after the workloads are fixed', async (t) => {
    load.use(['compliant']);
    await load.replace('host', 'compliant');
    await load.settle(assertComplete, WAIT_MS);
    const startMs = performance.now();
    await eventually(async () => {
      await evaluateNow();
      assert.deepEqual(await violating(), []);
    }, WAIT_MS);
    await configure('Enforce', 'report');
    await patchConfig({ spec: { enforcementMode: 'Restricted' } });
    await eventually(async () => assert.equal(await condition('Enforcing'), 'True/Restricted'), WAIT_MS);
    t.diagnostic(`enforced ${Math.round((performance.now() - startMs) / 1000)} s after the last fix`);
    await load.settle(assertComplete, WAIT_MS);
    noFailures();
  });

  test('after enforcement starts, only pods that violate the level are denied', async () => {
    load.use(['compliant', 'host']);
    await pause(LOAD_MS);
    const hosts = new Set<string>();
    await load.settle((one) => {
      onlyHostIsDenied(one);
      if (one.content !== 'host') return;
      hosts.add(one.name);
      assert.equal(one.ready, 0, one.name);
    }, WAIT_MS);
    assert.ok(hosts.size > 0);
    noFailures();
  });

  test('pods without security contexts comply because of SCC admission', async () => {
    await configure('Enforce', 'enforce');
    await eventually(async () => {
      const pod = { metadata: { name: 'p' }, spec: PLAIN };
      const path = `/api/v1/namespaces/${NAMESPACES[0] ?? ''}/pods?dryRun=All`;
      const answer = await plane.admin.send('POST', path, pod, CONTROLLER);
      assert.equal(answer.status, 201, answer.text);
    }, WAIT_MS);
    load.use(['compliant', 'plain', 'host']);
    await pause(LOAD_MS);
    await load.settle(onlyHostIsDenied, WAIT_MS);
    noFailures();
  });

  test('an upgrade replaces all replicas', async () => {
    await apply(plane.admin, localObjects(system.port));
    for (const old of system.replicas) {
      await system.add(1, { env: SKEWED });
      await system.retire(old);
    }
    await system.settled(2);
    await load.settle(onlyHostIsDenied, WAIT_MS);
    noFailures();
  });

  test('break-glass admits all pods, and new violations are denied after it ends', async () => {
    await run('break-glass', 'on');
    // Without a change, a controller waits for up to 16 minutes after many denials.
    await load.replace('host', 'host');
    await load.settle(assertComplete, WAIT_MS);
    await run('break-glass', 'off');
    await load.settle(onlyHostIsDenied, WAIT_MS);
    noFailures();
  });

  test('after uninstall, no controller is blocked', async () => {
    await run('uninstall', '--yes', '--wait=500ms');
    await Promise.all(system.replicas.map((replica) => replica.stop()));
    await load.replace('host', 'host');
    await load.settle(assertComplete, WAIT_MS);
    noFailures();
    for (const resource of ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations']) {
      assert.deepEqual(responseItems(await plane.admin.send('GET', `${ADMISSION}/${resource}`)), []);
    }
    await load.stop();
    assert.ok(load.writes() > 100, String(load.writes()));
    for (const name of NAMESPACES) await plane.admin.send('DELETE', `/api/v1/namespaces/${name}`);
    for (const name of NAMESPACES) {
      await eventually(async () => {
        assert.equal((await plane.admin.send('GET', `/api/v1/namespaces/${name}`)).status, 404, name);
      }, WAIT_MS);
    }
  });
});
