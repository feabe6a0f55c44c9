/**
 * Tests which objects an installation changes with default settings, and the behavior of other replicas after the
 * leader is killed.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { objectPath } from '../../src/kube/resources.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseItems, responseObject } from '../support/answers.ts';
import { useSystem, withoutPolicies } from '../support/control-plane/index.ts';
import { create, createNamespace } from '../support/control-plane/installation.ts';
import { refusedCalls } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';

const LEASE = '/apis/coordination.k8s.io/v1/namespaces/portcullis/leases/portcullis';
const CONFIG = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs/cluster';
const ENFORCE = 'pod-security.kubernetes.io/enforce';
const SYNC = 'security.openshift.io/scc.podSecurityLabelSync';

/** The lease duration. The Lease of the killed leader stays valid during the whole test. */
const LONG_LEASE = ['--leader-elect-lease-duration=10m'];

suite('an installation with default settings', async () => {
  const { plane, system } = await useSystem({ args: LONG_LEASE });
  const createPod = async (namespace: string): Promise<void> => {
    const answer = await create(plane.admin, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'first', namespace, annotations: { 'openshift.io/required-scc': 'restricted-v2' } },
      spec: { containers: [{ name: 'c', image: 'registry.example.com/c:1' }] },
    });
    assert.equal(answer.status, 201, answer.text);
  };
  /** Returns the labels and annotations of all namespaces except the installation namespace. */
  const namespaces = async (): Promise<readonly JsonObject[]> =>
    responseItems(await plane.admin.send('GET', '/api/v1/namespaces'))
      .map((item) => objectMetadata(item))
      .filter(({ name }) => name !== 'portcullis')
      .map(({ name, labels, annotations }) => ({ name, labels, annotations }));
  const holder = async (): Promise<unknown> =>
    (responseObject(await plane.admin.send('GET', LEASE))['spec'] as JsonObject)['holderIdentity'];

  test('does not change labels or annotations of namespaces by default or in the Evaluate phase', async () => {
    const merge = { 'content-type': 'application/merge-patch+json' };
    for (const name of ['default', 'kube-public']) {
      const change = { metadata: { labels: { [ENFORCE]: 'restricted' } } };
      assert.equal((await plane.admin.send('PATCH', `/api/v1/namespaces/${name}`, change, merge)).status, 200);
    }
    assert.equal(
      (await createNamespace(plane.admin, 'opted-in', { [SYNC]: 'true', [ENFORCE]: 'privileged' })).status,
      201,
    );
    assert.equal((await createNamespace(plane.admin, 'plain')).status, 201);
    const initial = await namespaces();
    await system.install();
    await system.add(2);
    await system.configure({ rollout: { phase: 'Evaluate' } });
    await eventually(async () => {
      const { status } = responseObject(await plane.admin.send('GET', CONFIG));
      assert.ok((status as JsonObject | undefined)?.['lastEvaluationTime']);
    }, 60_000);
    assert.deepEqual(await namespaces(), initial);
  });

  test('admits a pod in a new namespace after the leader is killed', async () => {
    await createNamespace(plane.admin, 'early', { 'portcullis.dev/scc': 'enforce' });
    await eventually(() => createPod('early'));
    const leading = await holder();
    const leader = system.replicas.find((replica) =>
      replica.log().some(({ msg, identity }) => msg === 'leadership begins' && identity === leading),
    );
    assert.ok(leader);
    await leader.stop('SIGKILL');
    await system.retire(leader);
    await createNamespace(plane.admin, 'sudden', { 'portcullis.dev/scc': 'enforce' });
    await createPod('sudden');
    assert.equal(await holder(), leading, 'no other replica has become the leader');
  });

  test(
    'creates floor policies without a leader, and restores them after a restart',
    { skip: withoutPolicies },
    async (t) => {
      const leading = await holder();
      await system.configure({ floor: { mode: 'enforce' } });
      const path = objectPath('ValidatingAdmissionPolicy', 'floor.enforce-restricted.psa.portcullis.dev');
      const exists = async (): Promise<void> => assert.equal((await plane.admin.send('GET', path)).status, 200);
      await eventually(exists, 30_000);
      const [replica] = system.replicas;
      assert.ok(replica);
      await replica.stop('SIGKILL');
      await system.retire(replica);
      assert.equal((await plane.admin.send('DELETE', path)).status, 200);
      await system.add(1);
      const startMs = performance.now();
      await eventually(exists, 30_000);
      t.diagnostic(`restored ${Math.round(performance.now() - startMs)} ms after the replica was ready`);
      assert.equal(await holder(), leading, 'no replica has become the leader');
      assert.deepEqual(refusedCalls(await plane.calls()), []);
    },
  );
});
