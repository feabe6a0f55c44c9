/** Tests that the dashboard reads all objects on which the report depends. A browser shows its page in test/web. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hashSpec } from '../../../src/views/exceptions.ts';
import { installCrds } from '../../support/controllers.ts';
import { runDashboard } from '../../support/dashboard-client.ts';
import { startCluster } from '../../support/dev-cluster.ts';
import { formatSettings } from '../../support/serve-process.ts';

const BY_TEST = { fieldManager: 'test' };

test('the dashboard lists workloads that exceptions allow', async () => {
  const started = await startCluster();
  const { cluster } = started;
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-dashboard-'));
  try {
    await installCrds(cluster);
    const labels = { 'pod-security.kubernetes.io/enforce': 'baseline' };
    await cluster.create('Namespace', { metadata: { name: 'shop', labels } }, BY_TEST);
    await cluster.idle();
    const pod = { hostNetwork: true, containers: [{ name: 'c', image: 'i' }] };
    const app = { app: 'web' };
    const template = { metadata: { labels: app }, spec: pod };
    const deployment = {
      metadata: { name: 'web', namespace: 'shop' },
      spec: { replicas: 0, selector: { matchLabels: app }, template },
    };
    await cluster.create('Deployment', deployment, BY_TEST);
    const spec = {
      serviceAccountName: 'default',
      allow: [{ check: 'hostNamespaces', values: ['hostNetwork'] }],
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
      reason: 'SEC-1',
    };
    const metadata = { name: 'web', namespace: 'shop' };
    const annotations = { 'portcullis.dev/authors': '["alice"]' };
    await cluster.create('PodSecurityException', { metadata: { ...metadata, annotations }, spec }, BY_TEST);
    const approval = { by: 'bob', at: new Date().toISOString(), specHash: hashSpec(spec) };
    await cluster.applyStatus('PodSecurityException', { metadata, status: { approval } }, BY_TEST);
    const file = join(folder, 'settings.json');
    await writeFile(file, formatSettings({ podSecurity: { exceptions: { mode: 'approved' } }, scc: { mode: 'off' } }));
    const { namespaces } = await runDashboard(['--kubeconfig', await started.kubeconfig(), '--config', file]);
    const shop = namespaces.find(({ name }) => name === 'shop');
    assert.deepEqual(
      [shop?.workloads, shop?.excepted.map(({ kind, name }) => `${kind}/${name}`)],
      [[], ['Deployment/web']],
    );
  } finally {
    await started.stop();
    await rm(folder, { recursive: true });
  }
});

test('the dashboard lists the custom resources of the current state', async () => {
  const started = await startCluster();
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-dashboard-'));
  const send = async (method: string, path: string, body?: object): Promise<void> => {
    const { status, text } = await started.admin.send(method, path, body);
    assert.ok(status < 300, text);
  };
  try {
    await installCrds(started.cluster);
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    const install = async (kind: string): Promise<void> => {
      const singular = kind.toLowerCase();
      await send('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
        metadata: { name: `${singular}s.argoproj.io` },
        spec: {
          group: 'argoproj.io',
          scope: 'Namespaced',
          names: { plural: `${singular}s`, kind, singular, listKind: `${kind}List` },
          versions: [{ name: 'v1', served: true, storage: true, schema }],
        },
      });
      await started.cluster.idle();
    };
    await install('Rollout');
    const rollouts = '/apis/argoproj.io/v1/namespaces/default/rollouts';
    const rollout = (name: string) => ({
      apiVersion: 'argoproj.io/v1',
      kind: 'Rollout',
      metadata: { name },
      spec: { template: { spec: { hostPID: true, containers: [{ name: 'c', image: 'i' }] } } },
    });
    await send('POST', rollouts, rollout('fixed'));
    const file = join(folder, 'settings.json');
    const workloadResources = ['rollouts', 'workflows'].map((resource) => ({ group: 'argoproj.io', resource }));
    await writeFile(file, formatSettings({ podSecurity: { workloadResources }, rollout: { phase: 'Evaluate' } }));
    const options = ['--kubeconfig', await started.kubeconfig(), '--config', file];
    const { namespaces, assumptions } = await runDashboard(options, async () => {
      await install('Workflow');
      await send('DELETE', `${rollouts}/fixed`);
      await send('POST', rollouts, rollout('web'));
    });
    assert.deepEqual(
      namespaces.flatMap(({ workloads }) => workloads.map(({ kind, name }) => `${kind}/${name}`)),
      ['Rollout/web'],
    );
    const unserved = assumptions.filter((text) => text.includes('workflows.argoproj.io'));
    assert.deepEqual(unserved, [], 'after the custom resource has been installed');
  } finally {
    await started.stop();
    await rm(folder, { recursive: true });
  }
});
