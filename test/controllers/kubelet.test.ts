/** Tests how the minimum kubelet version is raised and lowered, and what nodes report. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { createObservable, type KubeletSettings, type Settings } from '../../src/config/settings.ts';
import type { ControllerDefinition } from '../../src/controllers/controller.ts';
import { kubeletMinimum } from '../../src/controllers/kubelet-minimum.ts';
import { kubeletReporter } from '../../src/controllers/kubelet-reporter.ts';
import { type RunningController, startController } from '../../src/controllers/runtime.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { ApiError, forbidden } from '../../src/kube/status.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createController, createRecorder, createTestSettings, installCrds } from '../support/controllers.ts';
import { startEmptyCluster, type TestCluster } from '../support/dev-cluster.ts';
import { createFakeClock } from '../support/fake-clock.ts';

const BY_TEST = { fieldManager: 'test' };
const RENDERED = 'portcullis.dev/rendered-minimum-kubelet-version';

suite('the minimum kubelet version', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let runs: RunningController[];
  const metrics = createMetrics({ version: '0.0.0' });
  const defaults = createTestSettings({}).value;
  const settings = createObservable<Settings>(defaults);

  beforeEach(async () => {
    started = await startEmptyCluster();
    ({ cluster } = started);
    runs = [];
    await installCrds(cluster);
    await cluster.create('Namespace', { metadata: { name: 'default' } }, BY_TEST);
    await cluster.create('PortcullisConfiguration', { metadata: { name: 'cluster' }, spec: {} }, BY_TEST);
  });
  afterEach(async () => {
    await Promise.all(runs.map((run) => run.stop()));
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const request = (kubelet: Partial<KubeletSettings>): void =>
    settings.set({ ...defaults, kubelet: { ...defaults.kubelet, isOn: true, ...kubelet } });
  const addNode = async (
    name: string,
    kubeletVersion: string,
    labels = {},
    boot: object = { bootID: `${name}-1` },
  ): Promise<void> => {
    const nodeInfo = { kubeletVersion, ...boot };
    const conditions = [{ type: 'Ready', status: 'True' }];
    await started.admin.send('POST', '/api/v1/nodes', {
      metadata: { name, labels },
      spec: {},
      status: { nodeInfo, conditions },
    });
  };
  const setStatus = async (name: string, nodeInfo: object): Promise<void> => {
    const type = { 'content-type': 'application/merge-patch+json' };
    const answer = await started.admin.send('PATCH', `/api/v1/nodes/${name}/status`, { status: { nodeInfo } }, type);
    assert.equal(answer.status, 200, answer.text);
  };
  const run = async (definition: ControllerDefinition, on: Cluster = cluster) => {
    const recorder = createRecorder();
    const options = { ...recorder, metrics, cluster: on, clock: createFakeClock() };
    const running = startController(createController(definition, { settings, metrics }), options);
    runs.push(running);
    await running.idle();
    return { ...recorder, ...running };
  };
  const minimum = () => {
    const { kubelet = {}, conditions = [] } = cluster.store.get('PortcullisConfiguration', 'cluster')?.status ?? {};
    const states = conditions.map(({ type, status, reason, message }) => `${type}=${status} ${reason}: ${message}`);
    const { minimumVersion: inForce, renderedMinimumVersion: rendered } = kubelet;
    return { inForce, rendered, conditions: states.sort() };
  };
  const nodeCondition = (name: string) => {
    const condition = cluster.store
      .get('Node', name)
      ?.status?.conditions?.find(({ type }) => type === 'KubeletVersionBelowMinimum');
    return condition && `${condition.status} ${condition.reason}: ${condition.message}`;
  };
  const eventReasons = async (): Promise<readonly unknown[]> => {
    const { body } = await started.admin.send('GET', '/apis/events.k8s.io/v1/events');
    const events = (body as { items: readonly { type: string; reason: string }[] }).items;
    return events.map(({ type, reason }) => `${type} ${reason}`).sort();
  };

  test('is raised once all nodes have it, and rendered once it is in effect', async () => {
    await addNode('old', 'v1.29.0');
    await addNode('new', 'v1.30.1', {}, {});
    request({ minimumVersion: '1.30.0' });
    const { idle } = await run(kubeletMinimum);
    assert.deepEqual(minimum(), {
      inForce: undefined,
      rendered: undefined,
      conditions: [
        'KubeletsMeetMinimum=False NodesBelowMinimum: 1 of 2 nodes run a kubelet older than 1.30.0 or with an unknown version: old',
        'Progressing=False NodesBelowMinimum: the minimum 1.30.0 is not in force, because 1 node is below it: old',
      ],
    });
    assert.match(await metrics.expose(), /portcullis_kubelet_nodes\{state="outdated"\} 1\n/);
    await cluster.remove('Node', 'old');
    await idle();
    assert.deepEqual(minimum(), {
      inForce: '1.30.0',
      rendered: '1.30.0',
      conditions: [
        'KubeletsMeetMinimum=True AllNodesMeetMinimum: the only node runs kubelet 1.30.0 or newer',
        'Progressing=False UpToDate: the minimum 1.30.0 is in force',
      ],
    });
  });

  test('is lowered and rendered immediately, and the lower minimum takes effect once a node in each pool has restarted', async () => {
    await addNode('a', 'v1.30.0', { 'node-role.kubernetes.io/worker': '' });
    await addNode('b', 'v1.30.0', { 'node-role.kubernetes.io/control-plane': '' });
    request({ minimumVersion: '1.30.0' });
    const { idle } = await run(kubeletMinimum);
    request({});
    await idle();
    const waiting = (pools: string): string =>
      `Progressing=True WaitingForPools: the minimum 1.30.0 stays in force until a node of each pool is configured for the lower minimum. Waiting for: ${pools}. To confirm the change: kubectl annotate portcullisconfiguration/cluster --overwrite ${RENDERED}=none`;
    assert.deepEqual([minimum().inForce, minimum().rendered], ['1.30.0', undefined]);
    assert.equal(minimum().conditions[1], waiting('control-plane, worker'));
    await setStatus('a', { bootID: 'a-2' });
    await idle();
    assert.equal(minimum().conditions[1], waiting('control-plane'));
    const annotations = { [RENDERED]: 'none' };
    await cluster.apply('PortcullisConfiguration', { metadata: { name: 'cluster', annotations } }, BY_TEST);
    await idle();
    assert.deepEqual(minimum(), { inForce: undefined, rendered: undefined, conditions: [] });
  });

  test('stays in effect after the request becomes invalid or is deleted', async () => {
    const apply = (minimumKubeletVersion: string) => {
      const config = { metadata: { name: 'cluster' }, spec: { minimumKubeletVersion } };
      return cluster.apply('NodesConfig', config, BY_TEST);
    };
    request({});
    await apply('1.30.0');
    const { idle } = await run(kubeletMinimum);
    assert.equal(minimum().inForce, '1.30.0');
    await apply('ab');
    await idle();
    const invalid =
      'Progressing=False InvalidMinimum: nodes.config.openshift.io/cluster: failed to parse submitted version ab No Major.Minor.Patch elements found. The minimum 1.30.0 stays in force';
    assert.deepEqual([minimum().inForce, minimum().conditions[1]], ['1.30.0', invalid]);
    await cluster.remove('NodesConfig', 'cluster');
    await idle();
    const deleted =
      'Progressing=False MinimumNotFound: nodes.config.openshift.io/cluster was deleted. The minimum 1.30.0 stays in force. To remove the minimum, create the object without one, or remove spec.kubelet from the settings';
    assert.deepEqual([minimum().inForce, minimum().conditions[1]], ['1.30.0', deleted]);
    request({ isOn: false });
    await idle();
    assert.deepEqual(minimum(), { inForce: undefined, rendered: undefined, conditions: [] });
  });

  test('does not change if the request has no minimum, which is reported', async () => {
    request({ minimumVersion: '1.30.0' });
    await cluster.apply('NodesConfig', { metadata: { name: 'cluster' }, spec: {} }, BY_TEST);
    const { idle } = await run(kubeletMinimum);
    const unset =
      'Progressing=False MinimumNotSet: nodes.config.openshift.io/cluster has no spec.minimumKubeletVersion: no minimum is requested, or its CRD lacks the field (OpenShift: feature gate MinimumKubeletVersion)';
    const ignored = `${unset}; spec.kubelet.minimumVersion 1.30.0 has no effect`;
    assert.deepEqual(minimum(), { inForce: undefined, rendered: undefined, conditions: [ignored] });
    request({});
    await idle();
    assert.deepEqual(minimum().conditions, [unset]);
    await cluster.apply('NodesConfig', { metadata: { name: 'cluster' }, spec: { minimumKubeletVersion: '' } }, BY_TEST);
    await idle();
    assert.deepEqual(minimum().conditions, []);
  });

  test('leads to a condition and a taint on nodes below it, and to one event for each transition', async () => {
    await addNode('n', 'v1.29.0');
    await addNode('odd', 'dev');
    await addNode('virtual', 'dev', { type: 'virtual' });
    request({ minimumVersion: '1.30.0', taint: true, exemptNodes: { matchLabels: { type: 'virtual' } } });
    const { idle } = await run(kubeletReporter);
    assert.deepEqual(['n', 'odd', 'virtual'].map(nodeCondition), [
      'True KubeletOutdated: kubelet version is outdated: kubelet version is 1.29.0, which is lower than minimumKubeletVersion of 1.30.0',
      'Unknown KubeletVersionUnknown: failed to parse node version dev: No Major.Minor.Patch elements found',
      undefined,
    ]);
    const taints = () => cluster.store.get('Node', 'n')?.spec?.taints;
    assert.deepEqual(taints(), [{ key: 'portcullis.dev/kubelet-outdated', effect: 'NoSchedule' }]);
    await setStatus('n', { kubeletVersion: 'v1.31.0' });
    await idle();
    assert.equal(
      nodeCondition('n'),
      'False KubeletVersionSufficient: kubelet version v1.31.0 is not lower than 1.30.0',
    );
    assert.deepEqual(taints() ?? [], []);
    assert.deepEqual(await eventReasons(), ['Normal KubeletVersionSufficient', 'Warning KubeletOutdated']);
    request({ isOn: false });
    await idle();
    assert.deepEqual(['n', 'odd'].map(nodeCondition), [undefined, undefined]);
  });

  test('leads to an annotation on nodes whose status cannot be written', async () => {
    await addNode('n', 'v1.29.0');
    request({ minimumVersion: '1.30.0' });
    const denied = new ApiError(forbidden({ group: '', resource: 'nodes' }, 'n', 'not permitted'));
    const { idle } = await run(kubeletReporter, { ...cluster, applyStatus: () => Promise.reject(denied) });
    const annotation = () =>
      cluster.store.get('Node', 'n')?.metadata?.annotations?.['portcullis.dev/kubelet-version-state'];
    assert.equal(annotation(), 'outdated');
    await setStatus('n', { kubeletVersion: 'v1.30.0' });
    await idle();
    assert.equal(annotation(), 'ok');
    assert.deepEqual(await eventReasons(), ['Normal KubeletVersionSufficient', 'Warning KubeletOutdated']);
  });
});
