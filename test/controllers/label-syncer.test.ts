/** Tests that the Pod Security labels of namespaces follow the SCCs that their service accounts may use. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, suite, test } from 'node:test';
import { labelSyncer } from '../../src/controllers/label-syncer.ts';
import { runLevelZeroLabeler } from '../../src/controllers/run-level-zero-labeler.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { allow, deny } from '../../src/kube/admission.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { createStatus } from '../../src/kube/status.ts';
import type { Namespace } from '../../src/kube/types.ts';
import type { SyncerMode } from '../../src/policy/rollout/index.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS } from '../../src/policy/scc/index.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import {
  type ControllerRun,
  createController,
  createTestSettings,
  installCrds,
  installStandardSccs,
  runController,
  type TestSettings,
} from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { startVerdictWebhook } from '../support/verdict-webhook.ts';

const INSTALLATION = 'portcullis';
const BY_TEST = { fieldManager: 'test' };
const ANNOTATION = 'security.openshift.io/MinimallySufficientPodSecurityStandard';
/** A floor policy. */
const FLOOR = 'floor.enforce-baseline.psa.portcullis.dev';
const RANGE = { 'openshift.io/sa.scc.uid-range': '1000000000/10000' };

/** Returns the values of the six labels and the annotation on one line, with `-` for absent values. */
function printed(namespace: Namespace | undefined): string {
  const { labels, annotations } = namespace?.metadata ?? {};
  const value = (mode: string): string => labels?.[`pod-security.kubernetes.io/${mode}`] ?? '-';
  const modes = ['enforce', 'audit', 'warn'].map((mode) => `${value(mode)}:${value(`${mode}-version`)}`);
  return [...modes, annotations?.[ANNOTATION] ?? '-'].join(' ');
}

/** Returns the printed labels of an enforced level. The warn label is privileged, because the webhook warns. */
const ENFORCED = (level: string): string => `${level}:latest ${level}:latest privileged:latest ${level}`;
const ADVISED = (level: string): string => `-:- ${level}:latest privileged:latest ${level}`;

suite('the label syncer', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let running: ControllerRun;
  let settings: TestSettings;
  let metrics: Metrics;

  beforeEach(async () => {
    settings = createTestSettings({ phase: 'Enforce' });
    metrics = createMetrics({ version: '0.0.0' });
    started = await startCluster();
    ({ cluster } = started);
    await installCrds(cluster);
    await installStandardSccs(cluster);
    await cluster.create('Namespace', { metadata: { name: INSTALLATION } }, BY_TEST);
    await publish('Enforce');
  });
  afterEach(async () => {
    assert.deepEqual(running.errors(), []);
    await running.stop();
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const run = async (): Promise<void> => {
    running = runController(createController(labelSyncer, { settings, metrics }), cluster);
    await settle();
  };
  const settle = async (): Promise<void> => {
    await cluster.idle();
    await running.idle();
  };
  const publish = async (mode: SyncerMode): Promise<void> => {
    const annotations = { 'portcullis.dev/label-sync-mode': mode };
    const metadata = { name: 'portcullis-pod-security', namespace: INSTALLATION, annotations };
    await cluster.apply('ConfigMap', { metadata }, { ...BY_TEST, force: true });
  };
  const create = async (name: string, more: Namespace['metadata'] = {}): Promise<void> => {
    await cluster.create('Namespace', { metadata: { annotations: RANGE, ...more, name } }, BY_TEST);
    await settle();
  };
  const createLabeled = async (name: string, level: string, more: Record<string, string> = {}): Promise<void> => {
    const labels = { 'pod-security.kubernetes.io/enforce': level, ...more };
    const object = { metadata: { name, labels, annotations: RANGE } };
    await cluster.apply('Namespace', object, { fieldManager: 'kubectl' });
    await cluster.idle();
  };
  const getLabels = (name: string): string => printed(cluster.store.get('Namespace', name));
  const grant = async (scc: string, namespace: string, subject: string): Promise<void> => {
    await cluster.create(
      'RoleBinding',
      {
        metadata: { name: `${scc}-${subject}`, namespace },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: `system:openshift:scc:${scc}` },
        subjects: [{ kind: 'ServiceAccount', name: subject, namespace }],
      },
      BY_TEST,
    );
    await settle();
  };
  const events = async (): Promise<readonly string[]> => {
    await running.idle();
    return cluster.storage
      .list({ group: '', resource: 'events' })
      .map(({ reason, message, note }) => `${String(reason)}: ${String(message ?? note)}`);
  };
  /** Counts the changes to objects of a kind while a function runs. */
  const getChanges = async (kind: Kind, go: () => Promise<void>): Promise<number> => {
    const before = cluster.store.revision(kind);
    await go();
    return cluster.store.revision(kind) - before;
  };

  test('labels a namespace once it has a UID range', async () => {
    await run();
    await create('shop', { annotations: {} });
    assert.equal(getLabels('shop'), '-:- -:- -:- -');
    await cluster.apply('Namespace', { metadata: { name: 'shop', annotations: RANGE } }, { fieldManager: 'allocator' });
    await settle();
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
  });

  test('changes no labels and records no events until the standard SCCs and their bindings exist', async () => {
    const missing = [...STANDARD_CLUSTER_ROLE_BINDINGS];
    for (const { metadata } of missing) await cluster.remove('ClusterRoleBinding', metadata?.name ?? '');
    await run();
    await create('shop');
    for (const binding of missing) {
      await running.pass(1_000);
      assert.equal(getLabels('shop'), '-:- -:- -:- -');
      await cluster.create('ClusterRoleBinding', binding, BY_TEST);
      await settle();
    }
    await running.pass(1_000);
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
    assert.deepEqual(await events(), []);
  });

  test('reports a namespace without a usable SCC if the standard SCCs are not managed', async () => {
    settings.disabledControllers = ['standard-scc-controller'];
    for (const { metadata } of STANDARD_CLUSTER_ROLE_BINDINGS)
      await cluster.remove('ClusterRoleBinding', metadata?.name ?? '');
    await run();
    await create('shop');
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
    assert.deepEqual(
      (await events()).filter((event) => event.includes('SCC')),
      ['NoUsableSCC: no service account in the namespace may use any SCC, so its level is restricted'],
    );
  });

  test('reports a namespace again after it was deleted and created again', async () => {
    settings.disabledControllers = ['standard-scc-controller'];
    for (const { metadata } of STANDARD_CLUSTER_ROLE_BINDINGS)
      await cluster.remove('ClusterRoleBinding', metadata?.name ?? '');
    await run();
    await create('shop');
    await cluster.remove('Namespace', 'shop');
    await settle();
    await create('shop');
    assert.equal((await events()).filter((event) => event.startsWith('NoUsableSCC')).length, 2);
  });

  test('updates the level when the grants of service accounts change, and reports the privileged level', async () => {
    await run();
    await create('shop');
    await grant('anyuid', 'shop', 'default');
    assert.equal(getLabels('shop'), ENFORCED('baseline'));
    await grant('privileged', 'shop', 'default');
    assert.equal(getLabels('shop'), ENFORCED('privileged'));
    assert.deepEqual(await events(), [
      'LevelPrivileged: the level changes to privileged because service account "default" may use SCC "privileged"',
    ]);
    for (const scc of ['privileged', 'anyuid']) await cluster.remove('RoleBinding', `${scc}-default`, 'shop');
    await settle();
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
  });

  test('changes no labels during break-glass, and labels new namespaces afterwards', async () => {
    const annotations = { 'portcullis.dev/break-glass-since': '2026-01-01T00:00:00Z' };
    const on = { metadata: { name: 'portcullis.dev', annotations } };
    await run();
    await create('shop');
    for (const kind of ['MutatingWebhookConfiguration', 'ValidatingAdmissionPolicy'] as const) {
      const name = kind === 'MutatingWebhookConfiguration' ? 'zz.portcullis.dev' : FLOOR;
      await cluster.create(kind, { metadata: { ...on.metadata, name } }, BY_TEST);
      await create(`new-${kind.toLowerCase()}`);
      await grant('anyuid', 'shop', 'default');
      assert.equal(getLabels('shop'), ENFORCED('restricted'));
      assert.equal(getLabels(`new-${kind.toLowerCase()}`), '-:- -:- -:- -');
      await cluster.remove(kind, name);
      await settle();
      assert.equal(getLabels('shop'), ENFORCED('baseline'));
      assert.equal(getLabels(`new-${kind.toLowerCase()}`), ENFORCED('restricted'));
      await cluster.remove('RoleBinding', 'anyuid-default', 'shop');
      await settle();
    }
  });

  test('does not change a namespace that break-glass relaxed until the record is removed', async () => {
    await run();
    await create('shop');
    const labels = {
      'pod-security.kubernetes.io/enforce': 'privileged',
      'portcullis.dev/break-glass-enforce': 'restricted',
    };
    const relaxed = { metadata: { name: 'shop', labels } };
    await cluster.apply('Namespace', relaxed, { fieldManager: 'portcullis-break-glass', force: true });
    await grant('anyuid', 'shop', 'default');
    assert.equal(getLabels('shop'), 'privileged:latest restricted:latest privileged:latest restricted');
    assert.deepEqual(await events(), []);
    const released = { metadata: { name: 'shop' } };
    await cluster.apply('Namespace', released, { fieldManager: 'portcullis-break-glass', force: true });
    await settle();
    assert.equal(getLabels('shop'), ENFORCED('baseline'));
  });

  test('follows changes to SCCs, and writes only namespaces whose labels change', async () => {
    await run();
    await create('shop');
    await create('bank');
    await grant('nonroot', 'bank', 'default');
    assert.equal(getLabels('bank'), ENFORCED('baseline'));
    const writes = await getChanges('Namespace', async () => {
      const scc = cluster.store.get('SecurityContextConstraints', 'nonroot');
      await cluster.update('SecurityContextConstraints', { ...scc, allowHostPorts: true }, BY_TEST);
      await settle();
    });
    assert.equal(getLabels('bank'), ENFORCED('privileged'));
    assert.equal(writes, 1);
    const more = await getChanges('Namespace', async () => {
      await running.pass(600_000);
    });
    assert.equal(more, 0, 'no namespace differs');
  });

  const UNMANAGED: readonly (readonly [name: string, metadata: NonNullable<Namespace['metadata']>])[] = [
    ['kube-public', {}],
    ['openshift-logging', {}],
    ['opted-out', { labels: { 'security.openshift.io/scc.podSecurityLabelSync': 'false' } }],
    ['without-sccs', { labels: { 'security.openshift.io/disable-securitycontextconstraints': 'true' } }],
    ['reported', { labels: { 'portcullis.dev/scc': 'report' } }],
  ];
  for (const [name, metadata] of UNMANAGED) {
    test(`does not label ${name}`, async () => {
      await run();
      const exists = cluster.store.get('Namespace', name) !== undefined;
      if (!exists) await create(name, { ...metadata, annotations: RANGE });
      assert.equal(getLabels(name), '-:- -:- -:- -');
    });
  }

  test('keeps labels set by users and adds the missing labels', async () => {
    await createLabeled('shop', 'privileged');
    await run();
    assert.equal(getLabels('shop'), 'privileged:latest restricted:latest privileged:latest restricted');
    assert.deepEqual(await events(), [
      'LabelKept: label pod-security.kubernetes.io/enforce=privileged belongs to "kubectl" and is kept, but the namespace needs restricted',
    ]);
    await running.pass(600_000);
    assert.equal((await events()).length, 1, 'recorded once');
  });

  test('restores a removed label, unless the namespace has opted out', async () => {
    await run();
    await create('shop');
    await cluster.patch(
      'Namespace',
      { name: 'shop' },
      [{ op: 'remove', path: '/metadata/labels/pod-security.kubernetes.io~1audit' }],
      BY_TEST,
    );
    await settle();
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
    await cluster.apply(
      'Namespace',
      { metadata: { name: 'shop', labels: { 'security.openshift.io/scc.podSecurityLabelSync': 'false' } } },
      { fieldManager: 'kubectl' },
    );
    await settle();
    assert.equal(
      getLabels('shop'),
      `${'restricted:latest '.repeat(2)}privileged:latest -`,
      'labels are kept, the annotation is removed',
    );
  });

  test('keeps enforce labels in Hold mode and removes them in Advise mode', async () => {
    await run();
    await create('shop');
    await publish('Hold');
    await settle();
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
    await create('late');
    assert.equal(getLabels('late'), ADVISED('restricted'), 'does not add enforce labels in Hold mode');
    await publish('Advise');
    await settle();
    assert.equal(getLabels('shop'), ADVISED('restricted'));
    await publish('Enforce');
    await settle();
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
    assert.equal(getLabels('late'), ENFORCED('restricted'));
  });

  test('removes its labels in the Disabled phase, and keeps labels of other managers', async () => {
    await createLabeled('bank', 'baseline');
    await run();
    await create('shop');
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await running.pass(5_000);
    assert.equal(getLabels('shop'), ENFORCED('restricted'), 'replicas may still run the default level');
    await publish('Advise');
    await settle();
    assert.equal(getLabels('shop'), '-:- -:- -:- -');
    assert.equal(getLabels('bank'), 'baseline:- -:- -:- -');
    const writes = await getChanges('Namespace', () => running.pass(600_000));
    assert.equal(writes, 0);
  });

  test('does not remove labels in the Disabled phase while the published syncer mode is Hold', async () => {
    await run();
    await create('shop');
    await publish('Hold');
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await running.pass(5_000);
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
  });

  test('sets labels after the Disabled phase ends', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await run();
    await create('shop');
    assert.equal(getLabels('shop'), '-:- -:- -:- -');
    settings.rollout = { ...settings.rollout, phase: 'Evaluate' };
    await running.pass(5_000);
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
  });

  test('does not label namespaces while SCCs are not enforced', async () => {
    const optIn = { 'security.openshift.io/scc.podSecurityLabelSync': 'true' };
    settings.sccMode = 'report';
    await run();
    await create('shop', { labels: optIn });
    await create('bank', { labels: { 'portcullis.dev/scc': 'enforce' } });
    assert.equal(getLabels('shop'), '-:- -:- -:- -');
    assert.equal(getLabels('bank'), ENFORCED('restricted'), 'a namespace with enforced SCCs');
    settings.sccMode = 'enforce';
    await settle();
    assert.equal(getLabels('shop'), ENFORCED('restricted'));
  });

  test('exposes metrics', async (t) => {
    const failures = [deny(createStatus(409, 'Conflict', 'no')), deny(createStatus(403, 'Forbidden', 'no'))];
    const webhook = await startVerdictWebhook(cluster, ['namespaces'], ({ operation }) =>
      operation === 'UPDATE' ? (failures.shift() ?? allow()) : allow(),
    );
    t.after(() => webhook.stop());
    await run();
    await create('shop');
    await create('bank');
    await grant('anyuid', 'bank', 'default');
    for (const ms of [5_000, 5_000, 600_000]) await running.pass(ms);
    const text = await metrics.expose();
    assert.match(text, /^psa_syncer_namespaces\{level="restricted"\} 1$/m);
    assert.match(text, /^psa_syncer_namespaces\{level="baseline"\} 1$/m);
    assert.match(text, /^psa_syncer_unlabeled_managed 0$/m);
    assert.match(text, /^psa_syncer_conflicts_total 1$/m);
    assert.match(text, /^psa_syncer_sync_errors_total 1$/m);
    assert.deepEqual(running.errors(), ['admission webhook "verdict.example.com" denied the request: no']);
    await running.stop();
    assert.doesNotMatch(await metrics.expose(), /^psa_syncer_namespaces\{/m, 'the next leader sets it');
  });
});

suite('the run-level-zero labeler', () => {
  let started: TestCluster;
  let running: ControllerRun;
  const settings = createTestSettings({ phase: 'Evaluate' });
  const PRIVILEGED = 'privileged:- privileged:- privileged:- -';
  const NONE = '-:- -:- -:- -';
  before(async () => {
    settings.sccMode = 'report';
    started = await startCluster();
    running = runController(createController(runLevelZeroLabeler, { settings }), started.cluster);
    await running.idle();
  });
  after(async () => {
    assert.deepEqual(running.errors(), []);
    await running.stop();
    await started.stop();
  });
  const labels = async (): Promise<readonly string[]> => {
    await started.cluster.idle();
    await running.idle();
    const all = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];
    return all.map((name) => printed(started.cluster.store.get('Namespace', name)));
  };
  const label = async (name: string, key: string, value: string): Promise<void> => {
    const object = { metadata: { name, labels: { [key]: value } } };
    await started.cluster.apply('Namespace', object, { fieldManager: 'kubectl', force: true });
  };

  test('does not change labels while SCCs are not enforced', async () => {
    await label('kube-public', 'pod-security.kubernetes.io/enforce', 'restricted');
    assert.deepEqual(await labels(), [NONE, NONE, 'restricted:- -:- -:- -', NONE]);
  });

  test('labels two namespaces when SCCs are enforced, and keeps a label that another manager owns', async () => {
    settings.sccMode = 'enforce';
    assert.deepEqual(await labels(), [NONE, PRIVILEGED, 'restricted:- privileged:- privileged:- -', NONE]);
  });

  test('restores a removed label, and keeps a corrected label', async () => {
    const ops = [{ op: 'remove', path: '/metadata/labels/pod-security.kubernetes.io~1enforce' }] as const;
    await started.cluster.patch('Namespace', { name: 'kube-system' }, ops, BY_TEST);
    assert.equal((await labels())[1], PRIVILEGED);
    await label('kube-system', 'pod-security.kubernetes.io/enforce', 'baseline');
    assert.equal((await labels())[1], 'baseline:- privileged:- privileged:- -');
  });
});
