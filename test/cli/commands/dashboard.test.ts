/** Tests that the dashboard reads all objects on which the report depends. A browser shows its page in test/web. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { run } from '../../../src/cli/program.ts';
import { hashSpec } from '../../../src/cluster/exceptions.ts';
import { installCrds } from '../../support/controllers.ts';
import { readDashboard } from '../../support/dashboard-client.ts';
import { startCluster } from '../../support/dev-cluster.ts';
import { formatSettings } from '../../support/serve-process.ts';

const BY_TEST = { fieldManager: 'test' };

test('the dashboard lists workloads that exceptions allow', async () => {
  const started = await startCluster();
  const { cluster } = started;
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-dashboard-'));
  const stopping = new AbortController();
  const opened = Promise.withResolvers<string>();
  const io = {
    stdin: (async function* (): AsyncGenerator<string> {})(),
    stdout: { write: (text: string) => opened.resolve(/http:\S+token=\S+/.exec(text)?.[0] ?? '') },
    stderr: { write: (text: string) => opened.reject(new Error(text)) },
    env: {},
    signal: stopping.signal,
  };
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
    const ended = run(['dashboard', '--kubeconfig', await started.kubeconfig(), '--config', file], io);
    const { namespaces } = await readDashboard(await opened.promise);
    const shop = namespaces.find(({ name }) => name === 'shop');
    assert.deepEqual(
      [shop?.workloads, shop?.excepted.map(({ kind, name }) => `${kind}/${name}`)],
      [[], ['Deployment/web']],
    );
    stopping.abort();
    assert.equal(await ended, 0);
  } finally {
    stopping.abort();
    await started.stop();
    await rm(folder, { recursive: true });
  }
});
