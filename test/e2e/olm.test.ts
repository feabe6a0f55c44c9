/**
 * Tests how an operator leads to Pod Security labels on its namespace. Each test continues from the state of the
 * previous test.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { OLM_DEFINITIONS } from '../../src/dev-cluster/index.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseObject } from '../support/answers.ts';
import { useSystem } from '../support/control-plane/index.ts';
import { create, localObjects, remove } from '../support/control-plane/installation.ts';
import { refusedCalls } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';

const MERGE = { 'content-type': 'application/merge-patch+json' };
const NAME = 'openshift-demo';
const PATH = `/api/v1/namespaces/${NAME}`;
const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const SYNC = 'security.openshift.io/scc.podSecurityLabelSync';
const MANAGED = 'olm.auto-labeler.managed';
const AUDIT = 'pod-security.kubernetes.io/audit';
const FEATURES = { scc: true, rollout: true, kubelet: false, olm: true };

function csv(name: string, namespace: string, labels: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'operators.coreos.com/v1alpha1',
    kind: 'ClusterServiceVersion',
    metadata: { name, namespace, labels },
    spec: { displayName: 'Demo', install: { strategy: 'deployment' } },
  };
}

suite('with OLM auto-labeling and label synchronization,', async () => {
  const { plane, system } = await useSystem({ objectsFor: (port) => localObjects(port, { features: FEATURES }) });

  const read = async (path: string): Promise<JsonObject> => responseObject(await plane.admin.send('GET', path));
  const succeeds = async (object: JsonObject): Promise<void> =>
    eventually(async () => {
      const answer = await create(plane.admin, object);
      assert.equal(answer.status, 201, answer.text);
    });
  const marks = async (path = PATH): Promise<readonly unknown[]> => {
    const { labels = {}, annotations = {} } = objectMetadata(await read(path)) as {
      readonly labels?: JsonObject;
      readonly annotations?: JsonObject;
    };
    return [labels[SYNC], annotations[MANAGED], labels[AUDIT]];
  };
  const condition = async (): Promise<string> => {
    const { status } = (await read(SETTINGS)) as {
      readonly status?: { readonly conditions?: readonly Readonly<Record<string, string>>[] };
    };
    const found = status?.conditions?.find(({ type }) => type === 'OLMAvailable');
    return `${found?.['status'] ?? ''} ${found?.['reason'] ?? ''}`;
  };
  await system.install();
  await system.configure({ rollout: { phase: 'Enforce' }, scc: { mode: 'enforce' } });
  await system.add(2);

  test('the replicas are ready without the Operator Lifecycle Manager', async (t) => {
    t.diagnostic(`ran against: ${plane.title}`);
    await eventually(async () => assert.equal(await condition(), 'False OLMNotInstalled'));
  });

  test('an operator enables the label syncer in its namespace, but its copies do not', async () => {
    for (const name of [NAME, 'openshift-copies'])
      await succeeds({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    for (const definition of OLM_DEFINITIONS) await succeeds(definition);
    await succeeds(csv('demo.v1', 'openshift-copies', { 'olm.copiedFrom': NAME }));
    await succeeds(csv('demo.v1', NAME));
    await eventually(async () => assert.deepEqual(await marks(), ['true', 'true', 'restricted']), 40_000);
    assert.deepEqual(await marks('/api/v1/namespaces/openshift-copies'), [undefined, undefined, undefined]);
    await eventually(async () => assert.equal(await condition(), 'True Installed'), 40_000);
  });

  test('the label is restored, and removed with the last operator, regardless of the leader', async () => {
    await plane.admin.send('PATCH', PATH, { metadata: { labels: { [SYNC]: 'false' } } }, MERGE);
    await eventually(async () => assert.deepEqual((await marks())[0], 'true'));
    const leader = system.replicas.find((replica) => replica.log().some(({ msg }) => msg === 'leadership begins'));
    assert.ok(leader);
    await system.retire(leader);
    assert.equal((await remove(plane.admin, csv('demo.v1', NAME))).status, 200);
    await eventually(async () => assert.deepEqual((await marks()).slice(0, 2), [undefined, undefined]), 40_000);
    assert.deepEqual(refusedCalls(await plane.calls()), []);
  });

  test('without the Operator Lifecycle Manager, the auto-labeler is idle again', async () => {
    for (const definition of OLM_DEFINITIONS) assert.equal((await remove(plane.admin, definition)).status, 200);
    let count = 0;
    await eventually(async () => {
      // The controller checks after each change to a namespace, and twice a minute.
      await plane.admin.send('PATCH', PATH, { metadata: { labels: { count: String(count++) } } }, MERGE);
      assert.equal(await condition(), 'False OLMNotInstalled');
    });
    await Promise.all(system.replicas.map((replica) => replica.ready()));
  });
});
