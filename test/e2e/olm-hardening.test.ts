/**
 * Tests OLM hardening in an installation without SCCs, before OLM is installed, and with and without the catalog label.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { OLM_DEFINITIONS } from '../../src/dev-cluster/index.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseObject } from '../support/answers.ts';
import { useSystem } from '../support/control-plane/index.ts';
import { apply, create, createNamespace, localObjects } from '../support/control-plane/installation.ts';
import { refusedCalls } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';

const CONFIGURATION = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz.portcullis.dev';
const PODS = '/api/v1/namespaces/catalogs/pods?dryRun=All';
const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const MERGE = { 'content-type': 'application/merge-patch+json' };
const CATALOG = { apiVersion: 'operators.coreos.com/v1alpha1', kind: 'CatalogSource' };
const RUNTIME_DEFAULT = { type: 'RuntimeDefault' };
const CONTAINER = {
  privileged: false,
  readOnlyRootFilesystem: false,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
};

const catalogPod = (name: string, container: string, metadata: JsonObject): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'catalogs', ...metadata },
  spec: { containers: [{ name: container, image: 'registry.example.com/c:1' }] },
});

suite('hardening of OLM pods', async () => {
  const { plane, system } = await useSystem({
    objectsFor: (port) =>
      localObjects(port, {
        features: { scc: false, rollout: false, kubelet: false, olm: true },
        policy: { scc: { mode: 'off' }, olm: { hardening: { mode: 'fill' } } },
      }),
  });
  await system.install();
  await system.add(1);
  await system.settled(1);

  const contexts = async (pod: JsonObject) => {
    const answer = await plane.admin.send('POST', PODS, pod);
    assert.equal(answer.status, 201, answer.text);
    const { securityContext, containers } = responseObject(answer)['spec'] as {
      readonly securityContext: JsonObject;
      readonly containers: readonly { readonly securityContext?: JsonObject }[];
    };
    return { pod: securityContext, container: containers[0]?.securityContext, warnings: answer.warnings };
  };

  test('keeps replicas ready and webhooks fail-open without the Operator Lifecycle Manager', async () => {
    await eventually(async () => {
      const { webhooks } = responseObject(await plane.admin.send('GET', CONFIGURATION));
      assert.deepEqual(
        (webhooks as readonly JsonObject[])
          .filter(({ name }) => String(name).startsWith('olm.'))
          .map(({ name, failurePolicy }) => [name, failurePolicy]),
        [['olm.mutate.pods.portcullis.dev', 'Ignore']],
      );
    }, 30_000);
  });

  test('applies to catalog pods, whether they have the label or only an owner', async () => {
    await apply(plane.admin, OLM_DEFINITIONS);
    await createNamespace(plane.admin, 'catalogs');
    const spec = { sourceType: 'grpc', image: 'i', grpcPodConfig: { securityContextConfig: 'restricted' } };
    const source = { ...CATALOG, metadata: { name: 'cat', namespace: 'catalogs' }, spec };
    await eventually(async () => assert.equal((await create(plane.admin, source)).status, 201));
    const { uid } = objectMetadata(
      responseObject(
        await plane.admin.send('GET', '/apis/operators.coreos.com/v1alpha1/namespaces/catalogs/catalogsources/cat'),
      ),
    );
    const serving = catalogPod('serving', 'registry-server', { labels: { 'olm.catalogSource': 'cat' } });
    await eventually(async () => {
      assert.deepEqual(await contexts(serving), {
        pod: { runAsUser: 1001, runAsNonRoot: true, seccompProfile: RUNTIME_DEFAULT },
        container: CONTAINER,
        warnings: [],
      });
    }, 30_000);
    const bundle = catalogPod('bundle', 'registry-grpc', { ownerReferences: [{ ...CATALOG, name: 'cat', uid }] });
    assert.deepEqual(await contexts(bundle), {
      pod: { seccompProfile: RUNTIME_DEFAULT },
      container: CONTAINER,
      warnings: [],
    });
    const other = await contexts(catalogPod('other', 'web', { labels: { app: 'web' } }));
    assert.deepEqual(other, { pod: {}, container: undefined, warnings: [] });
  });

  test('removes its webhooks when the mode is off, and has denied no request', async () => {
    const body = { spec: { olm: { hardening: { mode: 'off' } } } };
    assert.equal((await plane.admin.send('PATCH', SETTINGS, body, MERGE)).status, 200);
    await eventually(async () => assert.equal((await plane.admin.send('GET', CONFIGURATION)).status, 404), 15_000);
    assert.deepEqual(refusedCalls(await plane.calls()), []);
  });
});
