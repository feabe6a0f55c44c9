/** Counts the calls that API servers make for one request with the webhooks of an installation. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/index.ts';
import { defaultSettings, type ManifestSettings, staticWebhookConfigurations } from '../../src/install/index.ts';
import { PROFILES } from '../../src/install/settings.ts';
import { objectMember } from '../../src/kube/types.ts';
import { TEST_MANAGER } from '../support/certificates.ts';

/** Creates a cluster whose webhooks allow all requests. A mutating webhook sets an annotation. */
async function startCluster(settings: ManifestSettings, calls: string[]): Promise<DevCluster> {
  const cluster = createDevCluster({
    clock: () => new Date(),
    call: ({ clientConfig, review }) => {
      const { uid } = objectMember(review, 'request');
      const { pathname } = new URL(String(clientConfig['url']));
      calls.push(pathname);
      const patch = [{ op: 'add', path: '/metadata/annotations', value: { 'openshift.io/scc': 'restricted-v2' } }];
      const changes = { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(patch)).toString('base64') };
      const response = { uid, allowed: true, ...(pathname.startsWith('/mutate/') ? changes : {}) };
      return Promise.resolve({ ok: true, review: { response } });
    },
  });
  for (const name of ['portcullis', 'shop']) {
    await cluster.create('Namespace', { metadata: { name } }, TEST_MANAGER);
    await cluster.create('ServiceAccount', { metadata: { name: 'default', namespace: name } }, TEST_MANAGER);
  }
  for (const { kind, ...configuration } of staticWebhookConfigurations(settings)) {
    await cluster.create(kind as 'ValidatingWebhookConfiguration', configuration, TEST_MANAGER);
  }
  calls.length = 0;
  return cluster;
}

const CONTAINERS = [{ name: 'c', image: 'registry.example.com/c:1' }];
const template = { metadata: { labels: { app: 'web' } }, spec: { containers: CONTAINERS } };

suite('API servers call only the webhooks that an object needs', () => {
  const defaults = { ...defaultSettings('0.0.0'), webhooks: { url: 'https://127.0.0.1:8443' } };
  const modes: readonly (readonly [scc: string, pod: readonly string[]])[] = [
    ['off', ['/validate/pods']],
    ['report', ['/validate/pods']],
    ['enforce', ['/mutate/pods', '/validate/pods']],
  ];
  for (const [mode, forPod] of modes) {
    test(`API servers call webhooks ${forPod.length === 1 ? 'once' : 'twice'} for a pod with SCC mode ${mode}`, async () => {
      const calls: string[] = [];
      const cluster = await startCluster({ ...defaults, ...PROFILES.scc, policy: { scc: { mode } } }, calls);
      const takeCalls = (): readonly string[] => calls.splice(0);
      const create = (name: string, namespace: string): Promise<unknown> =>
        cluster.create('Pod', { metadata: { name, namespace }, spec: { containers: CONTAINERS } }, TEST_MANAGER);
      await create('web', 'shop');
      assert.deepEqual(takeCalls(), forPod);
      await create('portcullis', 'portcullis');
      assert.deepEqual(takeCalls(), [], 'the installation namespace');
      await cluster.create('Namespace', { metadata: { name: 'bank' } }, TEST_MANAGER);
      assert.deepEqual(takeCalls(), ['/validate/namespaces']);
      await cluster.create(
        'Deployment',
        {
          metadata: { name: 'web', namespace: 'shop' },
          spec: { selector: { matchLabels: { app: 'web' } }, template },
        },
        TEST_MANAGER,
      );
      assert.deepEqual(takeCalls(), ['/validate/workloads']);
    });
  }
});
