/** The optional features in the development cluster. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { objectPath, type ResourceInfo, clusterScoped, namespaced } from '../../src/kube/resources.ts';
import type { ApiClient } from '../support/api-client.ts';
import { connect } from '../support/kubeconfig.ts';
import { serve, type RunningServer } from '../support/serve-process.ts';

const MANIFESTS = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: catalogsources.operators.coreos.com, labels: {own: "true"}}
spec:
  group: operators.coreos.com
  scope: Namespaced
  names: {kind: CatalogSource, plural: catalogsources}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Node
metadata: {name: old}
status: {nodeInfo: {kubeletVersion: v1.29.8}}
---
apiVersion: config.openshift.io/v1
kind: Node
metadata: {name: cluster}
spec: {minimumKubeletVersion: 1.29.0}
---
apiVersion: v1
kind: Namespace
metadata: {name: operators}
---
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: etcd.v1.0.0, namespace: operators}
spec: {install: {strategy: deployment, spec: {deployments: []}}}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: catalog, namespace: operators}
spec: {sourceType: grpc, grpcPodConfig: {securityContextConfig: restricted}}
`;

suite('the objects of the manifests are served', () => {
  let folder: string;
  let running: RunningServer;
  let client: ApiClient;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
    const manifests = join(folder, 'cluster.yaml');
    await writeFile(manifests, MANIFESTS);
    running = await serve([`--manifests=${manifests}`]);
    client = await connect(running);
  });
  after(async () => {
    client.close();
    await running.stop();
    await rm(folder, { recursive: true });
  });

  const operators = (plural: string): ResourceInfo => namespaced('operators.coreos.com/v1alpha1', plural);
  const cases: readonly (readonly [
    resource: ResourceInfo,
    name: string,
    namespace: string | undefined,
    object: object,
  ])[] = [
    [clusterScoped('v1', 'nodes'), 'old', undefined, { status: { nodeInfo: { kubeletVersion: 'v1.29.8' } } }],
    [
      clusterScoped('config.openshift.io/v1', 'nodes'),
      'cluster',
      undefined,
      { kind: 'Node', spec: { minimumKubeletVersion: '1.29.0' } },
    ],
    [
      operators('clusterserviceversions'),
      'etcd.v1.0.0',
      'operators',
      { spec: { install: { strategy: 'deployment', spec: { deployments: [] } } } },
    ],
    [
      operators('catalogsources'),
      'catalog',
      'operators',
      { spec: { sourceType: 'grpc', grpcPodConfig: { securityContextConfig: 'restricted' } } },
    ],
  ];
  for (const [resource, name, namespace, object] of cases) {
    test(`${resource.group} ${resource.resource}`, async () => {
      const { status, body } = await client.send('GET', objectPath(resource, name, namespace));
      assert.equal(status, 200);
      assert.partialDeepStrictEqual(body, object);
    });
  }

  test('a definition of the manifests takes precedence', async () => {
    const resource = clusterScoped('apiextensions.k8s.io/v1', 'customresourcedefinitions');
    const { body } = await client.send('GET', objectPath(resource, 'catalogsources.operators.coreos.com'));
    assert.partialDeepStrictEqual(body, { metadata: { labels: { own: 'true' } } });
  });
});
