/** Tests the optional features and a rollout in the development cluster. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { clusterScoped, namespaced, objectPath, type ResourceInfo } from '../../src/kube/resources.ts';
import type { ApiClient, ApiResponse } from '../support/api-client.ts';
import { eventually } from '../support/eventually.ts';
import { connect } from '../support/kubeconfig.ts';
import { runProgram } from '../support/memory-io.ts';
import { formatSettings, type RunningServer, serve } from '../support/serve-process.ts';

const CONFIGURATION = formatSettings({
  rollout: { phase: 'Evaluate', enforcementDate: '2999-01-31' },
  scc: { mode: 'enforce' },
});
const MANIFESTS = `apiVersion: apiextensions.k8s.io/v1
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
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: old, namespace: shop}
spec:
  selector: {matchLabels: {app: old}}
  template: {metadata: {labels: {app: old}}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}
`;

suite('a server with --manifests, optional features and an enforcement date', () => {
  let folder: string;
  let running: RunningServer;
  let client: ApiClient;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
    const [file, manifests] = [join(folder, 'config.yaml'), join(folder, 'cluster.yaml')];
    await writeFile(file, CONFIGURATION);
    await writeFile(manifests, MANIFESTS);
    running = await serve([`--config=${file}`, `--manifests=${manifests}`]);
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
    test(`serves ${resource.resource} of API group ${resource.group}`, async () => {
      const { status, body } = await client.send('GET', objectPath(resource, name, namespace));
      assert.equal(status, 200);
      assert.partialDeepStrictEqual(body, object);
    });
  }

  test('gives a CRD in the manifests precedence over the built-in CRD', async () => {
    const resource = clusterScoped('apiextensions.k8s.io/v1', 'customresourcedefinitions');
    const { body } = await client.send('GET', objectPath(resource, 'catalogsources.operators.coreos.com'));
    assert.partialDeepStrictEqual(body, { metadata: { labels: { own: 'true' } } });
  });

  const deploy = (name: string, spec: object): Promise<ApiResponse> => {
    const labels = { app: name };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'i' }], ...spec } };
    const deployment = { metadata: { name }, spec: { selector: { matchLabels: labels }, template } };
    return client.send('POST', '/apis/apps/v1/namespaces/shop/deployments', deployment);
  };
  const foretold = ({ warnings }: ApiResponse): readonly string[] =>
    warnings.filter((text) => text.includes('enforcement'));

  test('warns about a Deployment if enforcement would deny its pods', async () => {
    // The preview of a pod template requires the ranges of its namespace.
    await eventually(async () => assert.deepEqual(foretold(await deploy(`clean-${randomUUID()}`, {})), []));
    const answer = await deploy('web', { hostNetwork: true });
    assert.equal(answer.status, 201);
    const [told, warned, ...others] = answer.warnings;
    assert.match(
      told ?? '',
      /^299 - "would violate PodSecurity \\"restricted:latest\\": host namespaces \(hostNetwork=true\), /,
    );
    assert.deepEqual(
      [warned, ...others],
      [
        '299 - "pods of this template will be denied: unable to validate against any security context constraint"',
        '299 - "The closest usable SCC is \\"restricted-v2\\". It does not allow: spec.hostNetwork=true."',
        '299 - "SCC \\"hostnetwork-v2\\" would admit the pod if service account \\"default\\" were allowed to use it. Bind ClusterRole \\"system:openshift:scc:hostnetwork-v2\\"."',
        '299 - "enforcement from 2999-01-31 will deny these pods"',
      ],
    );
  });
});

suite('the development cluster with default settings', () => {
  let running: RunningServer;
  let client: ApiClient;
  before(async () => {
    running = await serve([]);
    client = await connect(running);
  });
  after(async () => {
    client.close();
    await running.stop();
  });

  /** Returns the empty cells that `kubectl get` would print. */
  const emptyCells = async (path: string): Promise<readonly string[]> => {
    const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';
    const { columnDefinitions, rows } = (await client.send('GET', path, undefined, { accept })).body as {
      readonly columnDefinitions: readonly { readonly name: string; readonly priority: number }[];
      readonly rows: readonly { readonly cells: readonly unknown[] }[];
    };
    assert.equal(rows.length, 1, path);
    return columnDefinitions.flatMap(({ name, priority }, index) =>
      priority > 0 || (rows[0]?.cells[index] ?? '') !== '' ? [] : [name],
    );
  };
  const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations';

  test('has a running replica', async () => {
    await eventually(async () => {
      const { stdout } = await runProgram(['rollout', 'status', '--kubeconfig', running.kubeconfig]);
      assert.match(stdout, /^Replicas +1 running, leader \S+$/m);
    });
  });

  test('prints no empty columns in the tables of the settings and the rollout', async () => {
    await eventually(async () => assert.deepEqual(await emptyCells(SETTINGS), []));
    const patch = { spec: { rollout: { phase: 'Evaluate' } } };
    const headers = { 'content-type': 'application/merge-patch+json' };
    assert.equal((await client.send('PATCH', `${SETTINGS}/cluster`, patch, headers)).status, 200);
    const rollout = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs';
    await eventually(async () => assert.deepEqual(await emptyCells(rollout), []));
  });
});
