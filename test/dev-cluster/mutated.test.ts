/** Tests objects that webhooks have changed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/cluster.ts';
import type { ApiObject, ResourceKey } from '../../src/dev-cluster/types.ts';
import { ApiError } from '../../src/kube/status.ts';
import type { JsonObject } from '../../src/kube/types.ts';

const WEBHOOKS = { group: 'admissionregistration.k8s.io', resource: 'mutatingwebhookconfigurations' };

/** Creates a cluster with one mutating webhook, which responds with the given operations. */
async function clusterWith(ops: readonly object[]): Promise<DevCluster> {
  const patch = Buffer.from(JSON.stringify(ops)).toString('base64');
  const cluster = createDevCluster({
    clock: () => new Date(),
    call: ({ review }) => {
      const { uid } = review['request'] as { readonly uid: string };
      return Promise.resolve({ ok: true, review: { response: { uid, allowed: true, patchType: 'JSONPatch', patch } } });
    },
  });
  const create = (resource: ResourceKey, apiVersion: string, kind: string, object: ApiObject): Promise<ApiObject> =>
    cluster.writer.create(resource, { apiVersion, kind, ...object });
  for (const name of ['a', 'b']) {
    await create({ group: '', resource: 'namespaces' }, 'v1', 'Namespace', { metadata: { name } });
    const metadata = { name: 'default', namespace: name };
    await create({ group: '', resource: 'serviceaccounts' }, 'v1', 'ServiceAccount', { metadata });
  }
  await create(WEBHOOKS, 'admissionregistration.k8s.io/v1', 'MutatingWebhookConfiguration', {
    metadata: { name: 'c' },
    webhooks: [
      {
        name: 'mutate.example.com',
        clientConfig: { url: 'https://localhost/mutate' },
        rules: [
          { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['configmaps', 'pods'] },
        ],
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
      },
    ],
  });
  return cluster;
}

async function getRefusal(run: Promise<unknown>): Promise<readonly [code: number, message: string]> {
  try {
    await run;
  } catch (error) {
    assert.ok(error instanceof ApiError, String(error));
    return [error.status.code, error.status.message];
  }
  assert.fail('nothing was refused');
}

const MAP: ApiObject = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'm', namespace: 'a' } };
const MAPS = { group: '', resource: 'configmaps' };
const MOVED = [400, 'the namespace of the provided object does not match the namespace sent on the request'];

describe('a webhook cannot change the namespace of an object', () => {
  test('to another namespace', async () => {
    const cluster = await clusterWith([{ op: 'replace', path: '/metadata/namespace', value: 'b' }]);
    assert.deepEqual(await getRefusal(cluster.writer.create(MAPS, MAP)), MOVED);
    assert.deepEqual(cluster.storage.list(MAPS), []);
    cluster.stop();
  });

  test('to none, because the API server restores it', async () => {
    const cluster = await clusterWith([{ op: 'remove', path: '/metadata/namespace' }]);
    await cluster.writer.create(MAPS, MAP);
    assert.equal(cluster.storage.get(MAPS, 'a', 'm')?.metadata?.['namespace'], 'a');
    cluster.stop();
  });
});

test('admission plugins default a pod spec that a webhook has set', async () => {
  const cluster = await clusterWith([{ op: 'add', path: '/spec/containers', value: [{ name: 'c', image: 'i:1' }] }]);
  const metadata = { name: 'p', namespace: 'a' };
  await cluster.writer.create({ group: '', resource: 'pods' }, { apiVersion: 'v1', kind: 'Pod', metadata });
  const spec = cluster.storage.get({ group: '', resource: 'pods' }, 'a', 'p')?.['spec'] as JsonObject;
  assert.deepEqual([spec['serviceAccountName'], spec['priority'], spec['dnsPolicy']], ['default', 0, 'ClusterFirst']);
  assert.ok(Array.isArray(spec['tolerations']) && Array.isArray(spec['volumes']));
  cluster.stop();
});
