/** Tests the contract of `Cluster` for every implementation. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { ApiError } from '../../src/kube/status.ts';

export interface ContractCluster {
  readonly cluster: Cluster;
  /** Returns the reasons of all written events. */
  events(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

const options = { fieldManager: 'contract' };

/** Tests an implementation. The cluster must not have objects in `contract-*` namespaces. */
export function clusterContract(name: string, makeCluster: () => Promise<ContractCluster>): void {
  describe(`${name} implements the cluster contract`, () => {
    let made: ContractCluster;
    let cluster: Cluster;
    before(async () => {
      made = await makeCluster();
      cluster = made.cluster;
      await cluster.create('Namespace', { metadata: { name: 'contract-a' } }, options);
    });
    after(() => made.stop());

    const configMap = (name: string, more: object = {}) => ({ metadata: { name, namespace: 'contract-a', ...more } });

    test('a write is in the store when its promise resolves', async () => {
      const created = await cluster.create('ConfigMap', configMap('written'), options);
      assert.equal(cluster.store.get('ConfigMap', 'written', 'contract-a')?.metadata?.uid, created.metadata?.uid);
      const patch = [{ op: 'add', path: '/metadata/labels', value: { a: 'b' } }] as const;
      await cluster.patch('ConfigMap', { name: 'written', namespace: 'contract-a' }, patch, options);
      assert.deepEqual(cluster.store.get('ConfigMap', 'written', 'contract-a')?.metadata?.labels, { a: 'b' });
      const merge = { metadata: { labels: { a: null, c: 'd' } } };
      await cluster.patch('ConfigMap', { name: 'written', namespace: 'contract-a' }, merge, options);
      assert.deepEqual(cluster.store.get('ConfigMap', 'written', 'contract-a')?.metadata?.labels, { c: 'd' });
      await cluster.remove('ConfigMap', 'written', 'contract-a');
      assert.equal(cluster.store.get('ConfigMap', 'written', 'contract-a'), undefined);
    });

    test('each write changes the resource version', async () => {
      const first = await cluster.create('ConfigMap', configMap('versions'), options);
      const labelled = { ...first, metadata: { ...first.metadata, labels: { a: 'b' } } };
      const second = await cluster.update('ConfigMap', labelled, options);
      assert.notEqual(first.metadata?.resourceVersion, second.metadata?.resourceVersion);
      assert.deepEqual(await cluster.get('ConfigMap', 'versions', 'contract-a'), second);
    });

    test('subscribers are notified of writes', async () => {
      const heard: string[] = [];
      const leave = cluster.store.subscribe(({ kind, type, object }) => {
        if (object.metadata?.name === 'heard') heard.push(`${type} ${kind}`);
      });
      await cluster.create('ConfigMap', configMap('heard'), options);
      await cluster.remove('ConfigMap', 'heard', 'contract-a');
      leave();
      assert.deepEqual(heard, ['put ConfigMap', 'remove ConfigMap']);
    });

    test('reading a missing object fails with 404', async () => {
      const missing = 'configmaps "missing" not found';
      await rejects(cluster.get('ConfigMap', 'missing', 'contract-a'), 404, missing);
      await rejects(cluster.remove('ConfigMap', 'missing', 'contract-a'), 404, missing);
      await rejects(cluster.update('ConfigMap', configMap('missing'), options), 404, missing);
      const key = { name: 'missing', namespace: 'contract-a' };
      await rejects(cluster.patch('ConfigMap', key, [], options), 404, missing);
    });

    test('creating an object with an existing name fails with 409', async () => {
      await cluster.create('ConfigMap', configMap('taken'), options);
      const message = 'configmaps "taken" already exists';
      await rejects(cluster.create('ConfigMap', configMap('taken'), options), 409, message);
    });

    test('an update with a stale resource version fails with 409', async () => {
      const first = await cluster.create('ConfigMap', configMap('stale'), options);
      const change = (labels: Record<string, string>) => ({ ...first, metadata: { ...first.metadata, labels } });
      await cluster.update('ConfigMap', change({ a: '1' }), options);
      const message =
        'Operation cannot be fulfilled on configmaps "stale": the object has been modified; please apply your changes to the latest version and try again';
      await rejects(cluster.update('ConfigMap', change({ a: '2' }), options), 409, message);
      const merge = { metadata: { resourceVersion: first.metadata?.resourceVersion, labels: { a: '3' } } };
      const key = { name: 'stale', namespace: 'contract-a' };
      await rejects(cluster.patch('ConfigMap', key, merge, options), 409, message);
      assert.deepEqual(cluster.store.get('ConfigMap', 'stale', 'contract-a')?.metadata?.labels, { a: '1' });
    });

    test('an invalid object is rejected with status 422', async () => {
      const wrong = { metadata: { name: 'Upper', namespace: 'contract-a' } };
      await assert.rejects(cluster.create('ConfigMap', wrong, options), (error) => {
        return error instanceof ApiError && error.status.code === 422 && error.status.details?.kind === 'ConfigMap';
      });
    });

    test('only applyStatus writes the status', async () => {
      const spec = { containers: [{ name: 'c', image: 'i' }] };
      await cluster.create('Pod', { ...configMap('status'), spec }, options);
      const running = { ...configMap('status'), status: { phase: 'Running' } };
      const applied = await cluster.applyStatus('Pod', running, { ...options, force: true });
      assert.equal(applied.status?.phase, 'Running');
      const ignored = await cluster.update('Pod', { ...applied, status: { phase: 'Failed' } }, options);
      assert.equal(ignored.status?.phase, 'Running');
    });

    test('applyStatus makes its manager the owner of individual conditions', async () => {
      const place = { name: 'conditions', namespace: 'contract-a' };
      await cluster.create('Pod', { metadata: place, spec: { containers: [{ name: 'c', image: 'i' }] } }, options);
      const apply = async (manager: string, types: readonly string[]) => {
        const conditions = types.map((type) => ({ type, status: 'True' }));
        return cluster.applyStatus('Pod', { metadata: place, status: { conditions } }, { fieldManager: manager });
      };
      const getTypes = (pod: Awaited<ReturnType<typeof apply>>) =>
        pod.status?.conditions?.map(({ type }) => type).sort();
      await apply('one', ['A', 'B']);
      assert.deepEqual(getTypes(await apply('two', ['C'])), ['A', 'B', 'C']);
      assert.deepEqual(getTypes(await apply('one', ['B'])), ['B', 'C']);
    });

    test('apply makes its manager the owner of its fields, removes omitted fields and keeps the fields of other managers', async () => {
      const labels = (wanted: Record<string, string>) => configMap('applied', { labels: wanted });
      await cluster.apply('ConfigMap', labels({ a: '1', b: '1' }), { fieldManager: 'one' });
      await cluster.apply('ConfigMap', labels({ c: '2' }), { fieldManager: 'two' });
      const after = await cluster.apply('ConfigMap', labels({ a: '1' }), { fieldManager: 'one' });
      assert.deepEqual(after.metadata?.labels, { a: '1', c: '2' });
    });

    test('applying a field that another manager owns fails with 409 unless it is forced', async () => {
      const labels = (wanted: Record<string, string>) => configMap('fought', { labels: wanted });
      await cluster.apply('ConfigMap', labels({ a: '1' }), { fieldManager: 'one' });
      const message = 'Apply failed with 1 conflict: conflict with "one": .metadata.labels.a';
      await rejects(cluster.apply('ConfigMap', labels({ a: '2' }), { fieldManager: 'two' }), 409, message);
      const forced = await cluster.apply('ConfigMap', labels({ a: '2' }), { fieldManager: 'two', force: true });
      assert.deepEqual(forced.metadata?.labels, { a: '2' });
    });

    test('recordEvent writes an event', async () => {
      const regarding = await cluster.get('Namespace', 'contract-a');
      await cluster.recordEvent({
        regarding: { apiVersion: 'v1', kind: 'Namespace', ...regarding },
        type: 'Warning',
        reason: 'Tested',
        action: 'Testing',
        note: 'a note',
        reportingController: 'contract',
      });
      assert.ok((await made.events()).includes('Tested'));
    });

    test('reviewAccess evaluates roles and bindings', async () => {
      const rules = [{ verbs: ['get'], apiGroups: [''], resources: ['pods'] }];
      await cluster.create('Role', { ...configMap('reader'), rules }, options);
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' };
      const subjects = [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'erin' }];
      await cluster.create('RoleBinding', { ...configMap('reader'), roleRef, subjects }, options);
      const may = async (verb: string, namespace: string): Promise<boolean> =>
        (await cluster.reviewAccess({ username: 'erin', groups: [] }, { verb, resource: 'pods', namespace })).allowed;
      assert.equal(await may('get', 'contract-a'), true);
      assert.equal(await may('delete', 'contract-a'), false);
      assert.equal(await may('get', 'contract-b'), false);
    });
  });
}

async function rejects(promise: Promise<unknown>, code: number, message: string): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof ApiError, String(error));
    assert.equal(error.status.message, message);
    assert.equal(error.status.code, code);
    return true;
  });
}
