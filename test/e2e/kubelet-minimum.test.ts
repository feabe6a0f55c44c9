/** The minimum kubelet version with two replicas. Each test continues from the state of the previous test. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { JsonObject, Node, PortcullisConfiguration } from '../../src/kube/types.ts';
import { createSystem, startControlPlane, type ControlPlane, type System } from '../support/control-plane/index.ts';
import { create, localObjects } from '../support/control-plane/installation.ts';
import { refusedCalls } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';

const MERGE = { 'content-type': 'application/merge-patch+json' };
const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const FEATURES = { scc: false, rollout: false, kubelet: true, olm: false };
const RENDERED = 'portcullis.dev/rendered-minimum-kubelet-version';

function node(name: string, kubeletVersion: string): JsonObject {
  const status = { nodeInfo: nodeInfo(kubeletVersion), conditions: [{ type: 'Ready', status: 'True' }] };
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: {}, status };
}

/** An API server requires all fields of the information. */
function nodeInfo(kubeletVersion: string): JsonObject {
  const names = ['machineID', 'systemUUID', 'bootID', 'kernelVersion', 'osImage', 'containerRuntimeVersion'];
  const others = [...names, 'kubeProxyVersion', 'operatingSystem', 'architecture'].map((name) => [name, 'test']);
  return { ...(Object.fromEntries(others) as JsonObject), kubeletVersion };
}

suite('the minimum kubelet version of an installation', () => {
  let plane: ControlPlane;
  let system: System;

  before(async () => {
    plane = await startControlPlane();
    const policy = { scc: { mode: 'off' }, kubelet: { taint: true } };
    system = await createSystem(plane, { objectsFor: (port) => localObjects(port, { features: FEATURES, policy }) });
    await system.install();
    for (const one of [node('old', 'v1.29.0'), node('new', 'v1.31.0')]) {
      assert.equal((await create(plane.admin, one)).status, 201);
    }
    await request({ minimumVersion: '1.30.0' });
    await system.scale(2);
  });
  after(async () => {
    await system.stop().finally(() => plane.stop());
  });

  const request = (kubelet: JsonObject): Promise<void> =>
    system.configure({ scc: { mode: 'off' }, kubelet: { taint: true, ...kubelet } });
  const minimum = async (): Promise<readonly (string | undefined)[]> => {
    const { status } = (await plane.admin.send('GET', SETTINGS)).body as PortcullisConfiguration;
    const { minimumVersion, renderedMinimumVersion } = status?.kubelet ?? {};
    const progress = status?.conditions?.find(({ type }) => type === 'Progressing');
    return [minimumVersion, renderedMinimumVersion, progress?.reason];
  };
  const report = async (name: string): Promise<readonly unknown[]> => {
    const { spec, status } = (await plane.admin.send('GET', `/api/v1/nodes/${name}`)).body as Node;
    const condition = status?.conditions?.find(({ type }) => type === 'KubeletVersionBelowMinimum');
    const taint = spec?.taints?.find(({ key }) => key === 'portcullis.dev/kubelet-outdated');
    return [condition?.reason, taint?.effect];
  };

  test('a node below it blocks a raise, and has a condition and a taint', async (t) => {
    t.diagnostic(`ran against: ${plane.title}`);
    await eventually(async () => {
      assert.deepEqual(await minimum(), [undefined, undefined, 'NodesBelowMinimum']);
      assert.deepEqual(await report('old'), ['KubeletOutdated', 'NoSchedule']);
      assert.deepEqual(await report('new'), ['KubeletVersionSufficient', undefined]);
    });
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const { code, stdout } = await runProgram(['kubelet', 'status', `--kubeconfig=${kubeconfig}`]);
    assert.equal(code, 1);
    assert.match(stdout, /^old +<none> +v1\.29\.0 +outdated +kubelet version is outdated: /m);
    assert.match(stdout, /\n2 nodes, 1 below the minimum or of unknown version\n$/);
  });

  test('it is enforced and rendered after the upgrade of the kubelet', async () => {
    const upgrade = { status: { nodeInfo: nodeInfo('v1.30.2') } };
    assert.equal((await plane.admin.send('PATCH', '/api/v1/nodes/old/status', upgrade, MERGE)).status, 200);
    await eventually(async () => {
      assert.deepEqual(await minimum(), ['1.30.0', '1.30.0', 'UpToDate']);
      assert.deepEqual(await report('old'), ['KubeletVersionSufficient', undefined]);
    });
    const { body } = await plane.admin.send('GET', '/apis/events.k8s.io/v1/namespaces/default/events');
    const { items } = body as { readonly items: readonly { readonly reason: string }[] };
    const reasons = items.map(({ reason }) => reason).filter((reason) => reason.startsWith('Kubelet'));
    assert.deepEqual(reasons.sort(), ['KubeletOutdated', 'KubeletVersionSufficient']);
  });

  test('it ends when the pools have picked up the rendered minimum', async () => {
    await request({});
    await eventually(async () => assert.deepEqual(await minimum(), ['1.30.0', undefined, 'WaitingForPools']));
    const confirmation = { metadata: { annotations: { [RENDERED]: 'none' } } };
    assert.equal((await plane.admin.send('PATCH', SETTINGS, confirmation, MERGE)).status, 200);
    await eventually(async () => {
      assert.deepEqual(await minimum(), [undefined, undefined, undefined]);
      assert.deepEqual(
        [await report('old'), await report('new')],
        [
          [undefined, undefined],
          [undefined, undefined],
        ],
      );
    });
  });

  test('the permissions of the replicas suffice', async () => {
    assert.deepEqual(refusedCalls(await plane.calls()), []);
  });
});
