/** Tests on which nodes the scheduler of Kubernetes places the replicas. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { VERSION } from '../../src/cli/command.ts';
import { deployment } from '../../src/install/deployment.ts';
import { defaultSettings, type Profile, PROFILES } from '../../src/install/index.ts';
import type { Kinds } from '../../src/kube/kinds.ts';
import { draft, type JsonObject } from '../../src/kube/types.ts';
import { responseItems } from '../support/answers.ts';
import { create, remove } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { type FullCluster, missingPrograms, startFullCluster, zoneLabels } from './cluster.ts';

const NODES = 6;
const ZONES = 3;
const NAMESPACE = 'portcullis';
const WAIT_MS = 60_000;
const MERGE = { 'content-type': 'application/merge-patch+json' };

/** Returns the Deployment of a profile. */
function replicas(profile: Profile): JsonObject {
  const object = draft(deployment({ ...defaultSettings(VERSION), ...PROFILES[profile] }));
  return JSON.parse(JSON.stringify(object)) as JsonObject;
}

suite('the scheduler places the replicas', { skip: missingPrograms }, () => {
  let cluster: FullCluster;
  before(async () => {
    cluster = await startFullCluster(NODES, { hasZones: false });
    const { admin } = cluster.plane;
    await create(admin, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } });
    await create(admin, {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'portcullis', namespace: NAMESPACE },
    });
  });
  after(() => cluster?.stop());

  /** Returns the node indexes of the current pods once all of them are scheduled and no others exist. */
  const placement = (count: number, generation: number): Promise<readonly number[]> =>
    eventually(async () => {
      const { admin } = cluster.plane;
      const { text } = await admin.send('GET', `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/portcullis`);
      const { status } = JSON.parse(text) as Kinds['Deployment'];
      assert.equal(status?.observedGeneration, generation);
      assert.equal(status?.updatedReplicas, count);
      const pods = responseItems(await admin.send('GET', `/api/v1/namespaces/${NAMESPACE}/pods`)) as Kinds['Pod'][];
      const nodes = pods.map(({ spec }) => spec?.nodeName ?? '');
      assert.equal(nodes.length, count);
      assert.ok(!nodes.includes(''), JSON.stringify(nodes));
      return nodes.map((name) => Number(name.replace('node-', '')));
    }, WAIT_MS);

  const restart = (time: number) =>
    cluster.plane.admin.send(
      'PATCH',
      `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/portcullis`,
      { spec: { template: { metadata: { annotations: { 'kubectl.kubernetes.io/restartedAt': String(time) } } } } },
      MERGE,
    );

  const spread = (items: readonly unknown[]): number => new Set(items).size;

  /** Installs the replicas, restarts them several times, and checks each placement. */
  const tryPlacements = async (profile: Profile, check: (nodes: readonly number[]) => void): Promise<void> => {
    const object = replicas(profile);
    const { replicas: count = 0 } = (object as Kinds['Deployment']).spec ?? {};
    const { status, text } = await create(cluster.plane.admin, object);
    assert.equal(status, 201, text);
    check(await placement(count, 1));
    for (let time = 1; time <= 4; time++) {
      await restart(time);
      check(await placement(count, time + 1));
    }
    await remove(cluster.plane.admin, object);
    await eventually(async () => {
      const pods = responseItems(await cluster.plane.admin.send('GET', `/api/v1/namespaces/${NAMESPACE}/pods`));
      assert.deepEqual(pods, []);
    }, WAIT_MS);
  };

  test('on different nodes if nodes have no zone label', async (t) => {
    t.diagnostic(`ran against: ${cluster.plane.title}, ${NODES} simulated nodes`);
    await tryPlacements('default', (nodes) => assert.equal(spread(nodes), 3, nodes.join()));
  });

  test('on different nodes for the five replicas of the high-availability profile', () =>
    tryPlacements('high-availability', (nodes) => assert.equal(spread(nodes), 5, nodes.join())));

  test('in different zones if nodes have zone labels', async () => {
    for (let index = 0; index < NODES; index++) {
      const labels = zoneLabels(index);
      await cluster.plane.admin.send('PATCH', `/api/v1/nodes/node-${index}`, { metadata: { labels } }, MERGE);
    }
    await tryPlacements('default', (nodes) => {
      assert.equal(spread(nodes), 3, nodes.join());
      assert.equal(spread(nodes.map((index) => index % ZONES)), ZONES, nodes.join());
    });
  });
});
