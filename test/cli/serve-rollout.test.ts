/** Warnings about an announced enforcement. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { ApiResponse, ApiClient } from '../support/api-client.ts';
import { eventually } from '../support/eventually.ts';
import { connect } from '../support/kubeconfig.ts';
import { formatSettings, serve, type RunningServer } from '../support/serve-process.ts';

const CONFIGURATION = formatSettings({
  rollout: { phase: 'Evaluate', enforcementDate: '2999-01-31' },
  scc: { mode: 'enforce' },
});
const MANIFESTS = `apiVersion: v1
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
const CONFIG = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs';

suite('with an enforcement date', () => {
  let folder: string;
  let running: RunningServer;
  let client: ApiClient;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
    const file = join(folder, 'config.yaml');
    await writeFile(file, CONFIGURATION);
    const manifests = join(folder, 'cluster.yaml');
    await writeFile(manifests, MANIFESTS);
    running = await serve([`--config=${file}`, `--manifests=${manifests}`]);
    client = await connect(running);
  });
  after(async () => {
    client.close();
    await running.stop();
    await rm(folder, { recursive: true });
  });

  const deploy = (name: string, spec: object): Promise<ApiResponse> => {
    const labels = { app: name };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'i' }], ...spec } };
    const deployment = { metadata: { name }, spec: { selector: { matchLabels: labels }, template } };
    return client.send('POST', '/apis/apps/v1/namespaces/shop/deployments', deployment);
  };
  const foretold = ({ warnings }: ApiResponse): readonly string[] =>
    warnings.filter((text) => text.includes('enforcement'));

  test('a Deployment causes a warning if enforcement would deny its pods', async () => {
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

  test('a request for Restricted returns a warning with the violating namespaces', async () => {
    await eventually(async () => assert.equal((await client.send('GET', `${CONFIG}/cluster`)).status, 200));
    const merge = { 'Content-Type': 'application/merge-patch+json' };
    await eventually(async () => {
      const annotations = { 'portcullis.dev/evaluate': new Date().toISOString() };
      const { text } = await client.send('PATCH', `${CONFIG}/cluster`, { metadata: { annotations } }, merge);
      assert.match(text, /"violatingNamespaces":\[\{[^\]]*"name":"shop"/);
    });
    const patch = (enforcementMode: string): Promise<ApiResponse> =>
      client.send('PATCH', `${CONFIG}/cluster`, { spec: { enforcementMode } }, merge);
    const answer = await patch('Restricted');
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.warnings, [
      '299 - "spec.enforcementMode: Restricted is enforced immediately although workloads in 1 namespace would be denied: shop"',
    ]);
    assert.deepEqual((await patch('Restricted')).warnings, []);
  });
});
