/** Runs the server as a process that connects to the cluster of a kubeconfig. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { watchCheck } from '../../src/cli/serve/live-cluster.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import type { PortcullisConfiguration } from '../../src/kube/types.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { hashSpec } from '../../src/views/exceptions.ts';
import { installCrds, installLaxSettings } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { eventually } from '../support/eventually.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { post } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';
import { formatSettings, readLog, type RunningServer, serve } from '../support/serve-process.ts';

let folder: string;
let authority: KeyPair;
let certificate: readonly string[];
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'portcullis-live-'));
  const validity = { now: new Date(), days: 1 };
  authority = createAuthority(validity);
  const pair = createServing(authority, { dnsNames: [], ipAddresses: ['127.0.0.1'] }, validity);
  await writeFile(join(folder, 'tls.crt'), pair.cert);
  await writeFile(join(folder, 'tls.key'), pair.key);
  certificate = [`--tls-cert-file=${join(folder, 'tls.crt')}`, `--tls-private-key-file=${join(folder, 'tls.key')}`];
});
after(() => rm(folder, { recursive: true }));

/** Writes a configuration file. Returns the option with its path. */
async function configuration(spec: object): Promise<string> {
  const file = join(folder, 'config.yaml');
  await writeFile(file, formatSettings(spec));
  return `--config=${file}`;
}

interface Answer {
  readonly status: number;
  /** Returns whether the pod is admitted, or the body of an error response. */
  readonly verdict: boolean | string;
}

/** Reviews a privileged pod. */
async function ask({ port }: RunningServer, namespace: string): Promise<Answer> {
  const spec = { containers: [{ name: 'c', image: 'i', securityContext: { privileged: true } }] };
  const body = JSON.stringify(podReview({ namespace, spec }));
  const answer = await post({ port, ca: authority.cert }, '/validate/pods?timeout=5s', body, 'application/json');
  if (answer.status !== 200) return { status: answer.status, verdict: answer.body };
  return { status: 200, verdict: (JSON.parse(answer.body) as { response: { allowed: boolean } }).response.allowed };
}

async function probe({ probes }: RunningServer, path: string): Promise<string> {
  return await (await fetch(`${probes}${path}`)).text();
}

suite('a server with a live cluster', () => {
  let cluster: TestCluster;
  let running: RunningServer;
  before(async () => {
    cluster = await startCluster();
    await cluster.admin.send('POST', NAMESPACES, { metadata: { name: 'portcullis' } });
    // The Lease can only be created in an existing namespace.
    running = await serve([
      `--kubeconfig=${await cluster.kubeconfig()}`,
      await configuration({ controllers: { disabled: ['standard-scc-controller'] } }),
      ...certificate,
    ]);
    await running.logged('cluster synced');
  });
  after(() => cluster.stop());

  test('becomes ready, and decides with the objects in the cluster', async () => {
    assert.equal(await probe(running, '/readyz/informer-sync'), 'ok');
    assert.equal(await probe(running, '/readyz/cluster'), 'ok');
    assert.doesNotMatch(await probe(running, '/readyz?verbose'), /scc/, 'without the SCC feature');
    const info = 'portcullis_kubernetes_version_info{server="v1.36",evaluated="v1.36"} 1';
    assert.ok((await probe(running, '/metrics')).includes(info));
    const labels = { 'pod-security.kubernetes.io/enforce': 'baseline' };
    await cluster.admin.send('POST', NAMESPACES, { metadata: { name: 'strict', labels } });
    assert.deepEqual(await ask(running, 'strict'), { status: 200, verdict: false });
    assert.deepEqual(await ask(running, 'default'), { status: 200, verdict: true });
  });

  test('acquires the leader Lease, and releases it when it stops', async () => {
    const holder = async (): Promise<unknown> => {
      const { body } = await cluster.admin.send('GET', LEASE);
      return (body as { spec?: { holderIdentity?: unknown } }).spec?.holderIdentity;
    };
    await eventually(async () => assert.equal(typeof (await holder()), 'string'));
    const { code } = await running.stop();
    assert.equal(code, 0);
    assert.equal((await holder()) ?? '', '');
  });
});

suite('the PortcullisConfiguration of a live cluster', () => {
  let cluster: TestCluster;
  let running: RunningServer;
  before(async () => {
    cluster = await startCluster();
    await installLaxSettings(cluster.cluster);
    await installCrds(cluster.cluster);
    await cluster.admin.send('POST', NAMESPACES, { metadata: { name: 'portcullis' } });
    const labels = { 'pod-security.kubernetes.io/enforce': 'baseline' };
    await cluster.admin.send('POST', NAMESPACES, { metadata: { name: 'strict', labels } });
    running = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, '--features=scc', ...certificate]);
    await running.logged('cluster synced');
  });
  after(async () => {
    await running.stop();
    await cluster.stop();
  });

  /** Waits until the status has the given lines, which are the generations and then one line for each condition. */
  const reported = (...expected: readonly RegExp[]): Promise<void> =>
    eventually(async () => {
      const { status, metadata } = (await cluster.admin.send('GET', CONFIGURATION)).body as PortcullisConfiguration;
      const generations = (status?.replicas ?? []).map(({ generation }) => generation).join();
      const others = ['PodsReviewed', 'Ready', 'Reconciling', 'Stalled'];
      const conditions = (status?.conditions ?? []).filter(({ type }) => !others.includes(type));
      const lines = conditions.map((one) => `${one.type} ${one.status} ${one.reason}: ${one.message}`);
      const found = [`generation ${metadata?.generation}, replicas ${generations}`, ...lines];
      const isExpected = found.length === expected.length && found.every((line, index) => expected[index]?.test(line));
      assert.ok(isExpected, found.join('\n'));
    });
  const change = async (spec: object): Promise<void> => {
    const patch = { 'content-type': 'application/merge-patch+json' };
    const defaults = { podSecurity: null, scc: null, rollout: null };
    const { status } = await cluster.admin.send('PATCH', CONFIGURATION, { spec: { ...defaults, ...spec } }, patch);
    assert.equal(status, 200);
  };

  test('is created with the defaults, and changes to it take effect without a restart', async () => {
    await reported(/^generation 1, replicas 1$/, VALID, APPLIED);
    assert.deepEqual(await ask(running, 'strict'), { status: 200, verdict: false });
    await change({ podSecurity: { exemptions: { namespaces: ['strict'] } }, rollout: { phase: 'Evaluate' } });
    await reported(/^generation 2, replicas 2$/, VALID, APPLIED);
    assert.deepEqual(await ask(running, 'strict'), { status: 200, verdict: true });
    // The readiness controller creates the object.
    const enforcement = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs/cluster';
    await eventually(async () => assert.equal((await cluster.admin.send('GET', enforcement)).status, 200));
  });

  test('stays in effect while a later version is invalid', async () => {
    await change({ podSecurity: { exemptions: { namespaces: ['strict'] } }, scc: { exemptNamespaces: ['Bad_Name'] } });
    const inForce = /^Applied False NotInForce: the leader applies the settings of generation 2$/;
    await reported(/^generation 3, replicas 2$/, INVALID, inForce);
    assert.deepEqual(await ask(running, 'strict'), { status: 200, verdict: true });
    assert.match(await probe(running, '/readyz?verbose'), /\[\+\]settings ok.*Bad_Name/);
    const cold = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, '--features=scc', ...certificate]);
    await cold.logged('failed to load the configuration, keeping the last valid configuration');
    await cold.logged('cluster synced');
    assert.match(await probe(cold, '/readyz?verbose'), /\[\+\]settings ok.*Bad_Name/);
    assert.deepEqual(await ask(cold, 'strict'), { status: 200, verdict: true });
    await cold.stop();
    await change({});
    await reported(/^generation 4, replicas 4$/, VALID, APPLIED);
    assert.deepEqual(await ask(running, 'strict'), { status: 200, verdict: false });
  });

  test('receives changed initial settings, and keeps later changes by other clients', async () => {
    const restart = async (mode: string): Promise<void> => {
      await running.stop();
      const initial = `--initial-settings={"scc":{"mode":"${mode}"}}`;
      running = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, '--features=scc', initial, ...certificate]);
    };
    const mode = async (): Promise<unknown> => {
      const { spec } = (await cluster.admin.send('GET', CONFIGURATION)).body as PortcullisConfiguration;
      return (spec?.['scc'] as { mode?: unknown } | undefined)?.mode;
    };
    await restart('enforce');
    await eventually(async () => assert.equal(await mode(), 'enforce'));
    await change({});
    await restart('enforce');
    await reported(/^generation 6, replicas 6$/, VALID, APPLIED);
    assert.equal(await mode(), undefined);
    await restart('report');
    await eventually(async () => assert.equal(await mode(), 'report'));
  });

  test('keeps fields that other clients have changed, and applies all other initial settings', async () => {
    await change({ scc: { mode: 'off' } });
    await running.stop();
    const initial = '--initial-settings={"scc":{"mode":"report"},"webhooks":{"timeoutSeconds":9}}';
    running = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, '--features=scc', initial, ...certificate]);
    await reported(
      /, replicas \d+$/,
      VALID,
      /^Applied True InitialSettingsOverridden: all replicas have applied these settings; other clients have changed these initial settings of the Deployment: spec\.scc\.mode \(\w+ \(update\)\)$/,
    );
    await eventually(async () => {
      const { spec } = (await cluster.admin.send('GET', CONFIGURATION)).body as PortcullisConfiguration;
      assert.deepEqual(spec, { scc: { mode: 'off' }, webhooks: { timeoutSeconds: 9 } });
    });
  });

  test('is restored with the settings in force if its deletion was not confirmed', async () => {
    const before = (await cluster.admin.send('GET', CONFIGURATION)).body as PortcullisConfiguration;
    assert.equal((await cluster.admin.send('DELETE', CONFIGURATION)).status, 200);
    const message = 'the object was deleted without confirmation, and the leader restored the settings in force';
    assert.equal((await running.logged(message))['level'], 'warn');
    await reported(/^generation 1, replicas 1$/, VALID, /^Applied True InitialSettingsOverridden: /);
    const { metadata, spec } = (await cluster.admin.send('GET', CONFIGURATION)).body as PortcullisConfiguration;
    assert.notEqual(metadata?.uid, before.metadata?.uid);
    assert.deepEqual(spec, before.spec);
    assert.deepEqual(spec, { scc: { mode: 'off' }, webhooks: { timeoutSeconds: 9 } });
    // The leader applies only the initial settings with its own field manager. It must not remove the other settings.
    await running.stop();
    running = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, '--features=scc', ...certificate]);
    await reported(/^generation \d+, replicas \d+$/, VALID, APPLIED);
    const after = (await cluster.admin.send('GET', CONFIGURATION)).body as PortcullisConfiguration;
    assert.deepEqual(after.spec, spec);
  });

  test('is recreated by replicas that were running when it was deleted, but not by replicas that start later', async () => {
    await running.stop();
    assert.equal((await cluster.admin.send('DELETE', CONFIGURATION)).status, 200);
    running = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, '--features=scc', ...certificate]);
    await running.logged('failed to load the configuration, keeping the last valid configuration');
    const missing =
      /^settings failed: PortcullisConfiguration "cluster" does not exist, and its deletion was not confirmed with the annotation portcullis\.dev\/allow-deletion=true: create it again\. If its spec is empty, the initial settings take effect$/m;
    assert.match(await probe(running, '/readyz/settings'), missing);
    assert.equal((await ask(running, 'strict')).status, 503);
    const spec = { scc: { mode: 'off' } };
    await cluster.cluster.create(
      'PortcullisConfiguration',
      { metadata: { name: 'cluster' }, spec },
      { fieldManager: 'a' },
    );
    await running.logged('cluster synced');
    await reported(/^generation 1, replicas 1$/, VALID, APPLIED);
  });

  test('is recreated with the initial settings and a warning if its deletion was confirmed', async () => {
    await running.stop();
    const initial = '--initial-settings={"scc":{"mode":"report"},"webhooks":{"timeoutSeconds":9}}';
    running = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, '--features=scc', initial, ...certificate]);
    await running.logged('cluster synced');
    const patch = { 'content-type': 'application/merge-patch+json' };
    const annotations = { 'portcullis.dev/allow-deletion': 'true' };
    await cluster.admin.send('PATCH', CONFIGURATION, { metadata: { annotations } }, patch);
    assert.equal((await cluster.admin.send('DELETE', CONFIGURATION)).status, 200);
    const message = 'the PortcullisConfiguration was deleted, and the initial settings take effect';
    assert.equal((await running.logged(message))['level'], 'warn');
    await eventually(async () => {
      const { spec } = (await cluster.admin.send('GET', CONFIGURATION)).body as PortcullisConfiguration;
      assert.deepEqual(spec, { scc: { mode: 'report' }, webhooks: { timeoutSeconds: 9 } });
    });
  });

  test('turns exceptions on and off, which their status reports', async () => {
    const { cluster: objects } = cluster;
    const by = { fieldManager: 'test' };
    const metadata = { name: 'gateway', namespace: 'strict' };
    const allow = [{ check: 'hostNamespaces', values: ['hostNetwork'] }];
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+/, '');
    const spec = { serviceAccountName: 'gateway', allow, expiresAt, reason: 'SEC-123' };
    const annotations = { 'portcullis.dev/authors': '["alice"]' };
    await objects.create('PodSecurityException', { metadata: { ...metadata, annotations }, spec }, by);
    const approval = { by: 'bob', at: new Date().toISOString().replace(/\.\d+/, ''), specHash: hashSpec(spec) };
    await objects.applyStatus('PodSecurityException', { metadata, status: { approval } }, by);
    const active = async (): Promise<string> => {
      const { status } = await objects.get('PodSecurityException', metadata.name, metadata.namespace);
      const condition = status?.conditions?.find(({ type }) => type === 'Active');
      return `${condition?.status} ${condition?.reason}: ${condition?.message}`;
    };
    for (const [mode, expected] of [
      ['approved', `True Applies: it applies to new pods until ${expiresAt}`],
      ['off', 'False Off: spec.podSecurity.exceptions.mode is off: set it to approved'],
    ] as const) {
      await eventually(() => change({ podSecurity: { exceptions: { mode } } }));
      await eventually(async () => assert.equal(await active(), expected));
    }
  });
});

const CONFIGURATION = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const VALID = /^Accepted True Valid: the settings are valid$/;
const APPLIED = /^Applied True InForce: all replicas have applied these settings$/;
const INVALID =
  /^Accepted False Invalid: PortcullisConfiguration "cluster" is invalid: spec\.scc\.exemptNamespaces\[0\]: Invalid value: "Bad_Name": /;

test('a replica is not ready until it has read valid settings', async () => {
  const cluster = await startCluster();
  await installLaxSettings(cluster.cluster);
  await installCrds(cluster.cluster);
  const spec = { scc: { exemptNamespaces: ['Bad_Name'] } };
  const write = { fieldManager: 'test' };
  await cluster.cluster.create('PortcullisConfiguration', { metadata: { name: 'cluster' }, spec }, write);
  const running = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, ...certificate]);
  try {
    await running.logged('failed to load the configuration, keeping the last valid configuration');
    const invalid = /^settings failed: PortcullisConfiguration "cluster" is invalid: spec\.scc\.exemptNamespaces\[0\]/;
    assert.match(await probe(running, '/readyz/settings'), invalid);
    assert.equal((await ask(running, 'strict')).status, 503);
    await cluster.cluster.patch('PortcullisConfiguration', { name: 'cluster' }, { spec: { scc: null } }, write);
    await running.logged('cluster synced');
  } finally {
    await running.stop();
    await cluster.stop();
  }
});

test('reviews do not wait until kinds that only controllers read have been listed', async () => {
  const cluster = await startCluster();
  const rbac = '/apis/rbac.authorization.k8s.io/v1/';
  const rules = [{ apiGroups: [''], resources: ['namespaces', 'pods'], verbs: ['list', 'watch'] }];
  const subjects = [{ kind: 'User', name: 'alice', apiGroup: 'rbac.authorization.k8s.io' }];
  const roleRef = { kind: 'ClusterRole', name: 'reviews', apiGroup: 'rbac.authorization.k8s.io' };
  await cluster.admin.send('POST', `${rbac}clusterroles`, { metadata: { name: 'reviews' }, rules });
  await cluster.admin.send('POST', `${rbac}clusterrolebindings`, { metadata: { name: 'reviews' }, subjects, roleRef });
  const file = join(folder, 'alice.kubeconfig');
  const admin = await readFile(await cluster.kubeconfig(), 'utf8');
  await writeFile(file, admin.replace('    client-key-data:', '    as: alice\n    client-key-data:'));
  const running = await serve([`--kubeconfig=${file}`, await configuration({ scc: { mode: 'off' } }), ...certificate]);
  await running.logged('cluster synced');
  assert.deepEqual(await ask(running, 'default'), { status: 200, verdict: true });
  const note = /^\[\+\]informer-sync ok: the controllers are waiting for .*Lease.* is forbidden/m;
  await eventually(async () => assert.match(await probe(running, '/readyz?verbose'), note));
  assert.equal((await running.stop()).code, 0);
  await cluster.stop();
});

test('a replica becomes ready although it cannot list all pods, and only controllers that read pods wait', async () => {
  const cluster = await startCluster();
  await installLaxSettings(cluster.cluster);
  await installCrds(cluster.cluster);
  await cluster.admin.send('POST', NAMESPACES, { metadata: { name: 'portcullis' } });
  const labels = { 'pod-security.kubernetes.io/enforce': 'baseline' };
  await cluster.admin.send('POST', NAMESPACES, { metadata: { name: 'strict', labels } });
  const proxy = await startFaultProxy(await cluster.kubeconfig());
  await proxy.set({ hangingList: '/api/v1/pods' });
  const initial = '--initial-settings={"podSecurity":{"exceptions":{"mode":"approved"}}}';
  const running = await serve([`--kubeconfig=${proxy.kubeconfig}`, initial, ...certificate]);
  try {
    await running.logged('cluster synced');
    assert.deepEqual(await ask(running, 'strict'), { status: 200, verdict: false });
    assert.equal(await probe(running, '/readyz/informer-sync'), 'ok');
    const started = (): readonly unknown[] =>
      readLog(running).flatMap(({ msg, controller }) => (msg === 'controller started' ? [controller] : []));
    await eventually(() => assert.ok(started().includes('settings-status-controller')));
    assert.match(
      await probe(running, '/readyz?verbose'),
      /^\[\+\]informer-sync ok: the controllers are waiting for Pod$/m,
    );
    const readers = ['exception-controller', 'unreviewed-pods-controller'];
    assert.deepEqual(
      readers.filter((name) => started().includes(name)),
      [],
    );
    // Completes the list response.
    await proxy.set('resets');
    await proxy.set('none');
    await eventually(
      () =>
        assert.deepEqual(
          readers.filter((name) => started().includes(name)),
          readers,
        ),
      60_000,
    );
  } finally {
    await running.stop();
    await proxy.stop();
    await cluster.stop();
  }
});

test('controllers keep running after a change to settings that need unreadable kinds was reverted', async () => {
  const cluster = await startCluster();
  await installLaxSettings(cluster.cluster);
  await installCrds(cluster.cluster);
  await cluster.admin.send('POST', NAMESPACES, { metadata: { name: 'portcullis' } });
  const proxy = await startFaultProxy(await cluster.kubeconfig());
  await proxy.set({ hangingList: '/api/v1/namespaces/portcullis/configmaps' });
  const running = await serve([`--kubeconfig=${proxy.kubeconfig}`, '--features=scc', ...certificate]);
  const changed = (msg: string): readonly unknown[] =>
    readLog(running).flatMap((line) => (line.msg === msg ? [line['controller']] : []));
  const patch = { 'content-type': 'application/merge-patch+json' };
  const change = async (spec: object): Promise<void> => {
    const { status } = await cluster.admin.send('PATCH', CONFIGURATION, { spec }, patch);
    assert.equal(status, 200);
  };
  const applied = async (expected: string): Promise<void> =>
    eventually(async () => {
      const { status } = (await cluster.admin.send('GET', CONFIGURATION)).body as PortcullisConfiguration;
      const { status: value, reason } = status?.conditions?.find(({ type }) => type === 'Applied') ?? {};
      assert.equal(`${status?.observedGeneration} ${value} ${reason}`, expected);
    }, 60_000);
  try {
    await running.logged('cluster synced');
    await applied('1 True InForce');
    await change({ rollout: { phase: 'Evaluate' } });
    await applied('2 False NotInForce');
    await change({ rollout: null });
    await applied('3 True InForce');
    await change({ webhooks: { timeoutSeconds: 9 } });
    await applied('4 True InForce');
    assert.deepEqual(changed('controller stopped'), []);
    assert.equal(await probe(running, '/readyz/cluster'), 'ok');
    assert.doesNotMatch(
      await probe(running, '/metrics'),
      /^portcullis_cluster_last_event_age_seconds\{kind="ConfigMap"\}/m,
    );
  } finally {
    await running.stop();
    await proxy.stop();
    await cluster.stop();
  }
});

test('a replica removes the labels of a rollout that ended before the replica started', async () => {
  const cluster = await startCluster();
  const { cluster: objects } = cluster;
  await installCrds(objects);
  for (const name of ['portcullis', 'shop']) await cluster.admin.send('POST', NAMESPACES, { metadata: { name } });
  const fieldManager = 'pod-security-admission-label-synchronization-controller';
  const labels = { 'pod-security.kubernetes.io/enforce': 'privileged' };
  await objects.apply('Namespace', { metadata: { name: 'shop', labels } }, { fieldManager });
  const configMap = { namespace: 'portcullis', name: 'portcullis-pod-security' };
  const annotations = {
    'portcullis.dev/pod-security-default': 'restricted',
    'portcullis.dev/pod-security-generation': '2',
    'portcullis.dev/label-sync-mode': 'Enforce',
  };
  await objects.create('ConfigMap', { metadata: { ...configMap, annotations } }, { fieldManager: 'test' });
  const running = await serve([`--kubeconfig=${await cluster.kubeconfig()}`, '--features=scc,rollout', ...certificate]);
  try {
    await eventually(async () => {
      const { metadata } = await objects.get('Namespace', 'shop');
      assert.deepEqual(metadata?.labels, { 'kubernetes.io/metadata.name': 'shop' });
      const published = await objects.get('ConfigMap', configMap.name, configMap.namespace);
      assert.deepEqual(published.metadata?.annotations, {
        'portcullis.dev/pod-security-default': 'privileged',
        'portcullis.dev/pod-security-generation': '3',
      });
    }, 60_000);
  } finally {
    await running.stop();
    await cluster.stop();
  }
});

suite('an outage of the API server', () => {
  test('does not affect decisions or readiness', async () => {
    const cluster = await startCluster();
    const labels = { 'pod-security.kubernetes.io/enforce': 'baseline' };
    await cluster.admin.send('POST', NAMESPACES, { metadata: { name: 'strict', labels } });
    const kubeconfig = await readFile(await cluster.kubeconfig(), 'utf8');
    const file = join(folder, 'kubeconfig');
    await writeFile(file, kubeconfig);
    const running = await serve([
      `--kubeconfig=${file}`,
      await configuration({ scc: { mode: 'off' } }),
      '--leader-elect=false',
      ...certificate,
    ]);
    await running.logged('cluster synced');
    await cluster.stop();
    await running.logged('watch failed, keeping the last known state');
    assert.deepEqual(await ask(running, 'strict'), { status: 200, verdict: false });
    assert.equal(await probe(running, '/readyz'), 'ok');
    assert.match(
      await probe(running, '/readyz/cluster'),
      /^cluster failed: watches are failing, so decisions use the last known state: (.*; )?[^;]*\bNamespace\b[^;]*: (the watch ended immediately|[^;]*connection refused)/m,
    );
    assert.equal((await running.stop()).code, 0);

    const cold = await serve([await configuration({ scc: { mode: 'off' } }), ...certificate], { KUBECONFIG: file });
    assert.match(
      await probe(cold, '/readyz/informer-sync'),
      /^informer-sync failed: not synced: Namespace: .*connection refused\n$/,
    );
    assert.equal(await probe(cold, '/livez'), 'ok');
    assert.deepEqual(await ask(cold, 'strict'), {
      status: 503,
      verdict: 'the replica has not read the cluster completely yet; try again\n',
    });
    assert.equal((await cold.stop()).code, 0);
  });

  test('is reported by the readiness check for the API server', () => {
    const ages = (podsMs: number, failures: readonly (readonly [Kind, string])[] = []) => ({
      failures: () => new Map(failures),
      lastEventAgesMs: () =>
        new Map([
          ['Pod', podsMs],
          ['Namespace', 1000],
        ] as const),
    });
    assert.equal(watchCheck(ages(119_000)).check(), undefined);
    const state = 'watches are failing, so decisions use the last known state';
    assert.equal(watchCheck(ages(130_400)).check(), `${state}: Pod: no event for 130 s`);
    const unauthorized = [
      ['Pod', 'Unauthorized'],
      ['Namespace', 'Unauthorized'],
    ] as const;
    assert.equal(watchCheck(ages(0, unauthorized)).check(), `${state}: Pod, Namespace: Unauthorized`);
  });
});

const NAMESPACES = '/api/v1/namespaces';
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/portcullis/leases/portcullis';
