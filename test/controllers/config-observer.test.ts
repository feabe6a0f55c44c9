/** Tests that the default level is raised after all namespaces are labeled, and lowered immediately. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { createAll } from '../../src/cli/serve/dev-cluster.ts';
import { configObserver } from '../../src/controllers/config-observer.ts';
import { replica } from '../../src/controllers/replica.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import type { EnforcementMode } from '../../src/kube/psa-enforcement-config.ts';
import {
  type ControllerRun,
  createController,
  createTestSettings,
  installCrds,
  runController,
  runControllers,
  type TestSettings,
} from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { definition, GATE_OFF } from '../support/feature-gate.ts';

const NAMESPACE = 'portcullis';
const BY_TEST = { fieldManager: 'test' };
const ENFORCE = 'pod-security.kubernetes.io/enforce';
const EXEMPTIONS = { usernames: ['builder'], namespaces: [], runtimeClasses: [] };

suite('the default level', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let running: ControllerRun;
  let settings: TestSettings;
  const alive = new Map<string, () => Promise<void>>();
  /** The creation time of all objects, which are older than the grace period. */
  const baseMs = Date.now() + 3_600_000;
  const date = (): Date => new Date(baseMs + running.clock.now());

  beforeEach(async () => {
    settings = createTestSettings({ phase: 'Enforce' }, EXEMPTIONS);
    alive.clear();
    started = await startCluster();
    ({ cluster } = started);
    await installCrds(cluster);
    await cluster.create('Namespace', { metadata: { name: NAMESPACE } }, BY_TEST);
    const annotations = { 'openshift.io/sa.scc.uid-range': '1000000000/10000' };
    await cluster.create('Namespace', { metadata: { name: 'shop', annotations } }, BY_TEST);
    await cluster.idle();
    await cluster.create('PSAEnforcementConfig', { metadata: { name: 'cluster' }, spec: {} }, BY_TEST);
  });
  afterEach(async () => {
    assert.deepEqual(running.errors(), []);
    await running.stop();
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const run = async (): Promise<void> => {
    running = runController(createController(configObserver, { settings, date: () => date() }), cluster);
    await running.idle();
  };
  const decide = async (enforcementMode: EnforcementMode): Promise<void> => {
    const metadata = { name: 'cluster' };
    const { generation } = cluster.store.get('PSAEnforcementConfig', 'cluster')?.metadata ?? {};
    const status = { enforcementMode, observedGeneration: generation ?? 0 };
    await cluster.applyStatus('PSAEnforcementConfig', { metadata, status }, { fieldManager: 'K' });
    await running.idle();
  };
  const label = async (value: string | undefined): Promise<void> => {
    const labels = value === undefined ? {} : { [ENFORCE]: value };
    await cluster.apply('Namespace', { metadata: { name: 'shop', labels } }, BY_TEST);
    await running.idle();
  };
  /** Publishes the level of a replica in its Lease. */
  const report = async (name: string, level: string, generation: number): Promise<void> => {
    const metadata = {
      name,
      namespace: NAMESPACE,
      labels: { 'app.kubernetes.io/component': 'replica' },
      annotations: {
        'portcullis.dev/pod-security-default': level,
        'portcullis.dev/pod-security-generation': String(generation),
      },
    };
    const spec = { leaseDurationSeconds: 60, renewTime: date().toISOString().replace('Z', '000Z') };
    await cluster.apply('Lease', { metadata, spec }, { ...BY_TEST, force: true });
    await running.idle();
    alive.set(name, () => report(name, level, generation));
  };
  /** Advances the clock while the replicas renew their Leases. */
  const wait = async (seconds: number): Promise<void> => {
    for (let passed = 0; passed < seconds; passed += 5) {
      await running.pass(5_000);
      if (passed % 15 === 0) for (const renew of [...alive.values()]) await renew();
    }
  };
  const published = (): string => {
    const annotations = cluster.store.get('ConfigMap', 'portcullis-pod-security', NAMESPACE)?.metadata?.annotations;
    return ['default', 'generation']
      .map((name) => annotations?.[`portcullis.dev/pod-security-${name}`])
      .concat(annotations?.['portcullis.dev/label-sync-mode'])
      .join(' ');
  };
  const conditionsOf = (...types: readonly string[]): Record<string, string> =>
    Object.fromEntries(
      (cluster.store.get('PSAEnforcementConfig', 'cluster')?.status?.conditions ?? [])
        .filter(({ type }) => types.includes(type))
        .map(({ type, status, reason, message }) => [type, `${status} ${reason}: ${message}`]),
    );
  const conditions = () => conditionsOf('Enforcing', 'Progressing');
  const ready = () => conditionsOf('Ready', 'Reconciling', 'Stalled', 'Upgradeable');
  /** Raises the default level. */
  const raise = async (): Promise<void> => {
    await run();
    await report('a', 'privileged', 1);
    await label('baseline');
    await decide('Restricted');
    await wait(40);
    assert.equal(published(), 'restricted 2 Enforce');
    await report('a', 'restricted', 2);
  };

  test('is published with the exemptions as an admission configuration', async () => {
    await run();
    assert.equal(published(), 'privileged 1 Advise');
    const configMap = cluster.store.get('ConfigMap', 'portcullis-pod-security', NAMESPACE);
    assert.deepEqual(configMap?.data, {
      'admission-configuration.yaml': `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: PodSecurity
    configuration:
      apiVersion: pod-security.admission.config.k8s.io/v1
      kind: PodSecurityConfiguration
      defaults:
        enforce: privileged
        enforce-version: latest
        audit: restricted
        audit-version: latest
        warn: restricted
        warn-version: latest
      exemptions:
        usernames:
          - builder
        namespaces: []
        runtimeClasses: []
`,
    });
  });

  test('is raised once all labels are stable, and is in effect once all replicas apply it', async () => {
    await run();
    await report('a', 'privileged', 1);
    await decide('Restricted');
    assert.equal(published(), 'privileged 1 Enforce');
    assert.deepEqual(conditions(), {
      Enforcing:
        'False LabelingNamespaces: the default level is raised after all namespaces are labeled; missing: shop',
      Progressing: 'True LabelingNamespaces: namespaces are being labeled; missing: shop',
    });
    await wait(120);
    assert.equal(published(), 'privileged 1 Enforce', 'not without labels');

    await label('baseline');
    await running.pass(5_000);
    assert.equal(published(), 'privileged 1 Enforce', 'the change is delayed');
    await wait(35);
    assert.equal(published(), 'restricted 2 Enforce');
    assert.deepEqual(conditions(), {
      Enforcing: 'False RollingOutConfiguration: replicas are switching to the restricted default level',
      Progressing: 'True RollingOutConfiguration: replicas are switching to the restricted default level',
    });
    await report('a', 'restricted', 2);
    assert.deepEqual(conditions(), {
      Enforcing: 'True Restricted: the restricted level applies to namespaces without a label',
      Progressing: 'False AsExpected: ',
    });
  });

  test('sets the object to ready once all replicas enforce it, and again once no replica enforces it', async () => {
    await run();
    await report('a', 'privileged', 1);
    const undecided = 'the leader has not decided on the current spec yet';
    const upgradeable = { Upgradeable: 'True AsExpected: ' };
    const notReady = (reason: string) => ({
      Ready: `False ${reason}`,
      Reconciling: `True ${reason}`,
      ...upgradeable,
    });
    assert.deepEqual(ready(), notReady(`DecisionPending: ${undecided}`));
    await decide('Restricted');
    assert.deepEqual(ready(), notReady('LabelingNamespaces: namespaces are being labeled; missing: shop'));
    await label('baseline');
    await wait(40);
    const rollingOut = 'RollingOutConfiguration: replicas are switching to the restricted default level';
    assert.deepEqual(ready(), notReady(rollingOut));
    await report('a', 'restricted', 2);
    await report('b', 'privileged', 1);
    assert.deepEqual(ready(), notReady(rollingOut), 'one of two replicas does not enforce it');
    await report('b', 'restricted', 2);
    const enforcing = 'the restricted level applies to namespaces without a label';
    assert.deepEqual(ready(), { Ready: `True Enforcing: ${enforcing}`, ...upgradeable });
    const metadata = { name: 'cluster' };
    const request = async (enforcementMode: '' | 'Legacy') => {
      const spec = { enforcementMode };
      await cluster.apply('PSAEnforcementConfig', { metadata, spec }, { ...BY_TEST, force: true });
      await running.idle();
    };
    await request('Legacy');
    const later = 'False LegacyMode: the cluster is in Legacy mode, which a later version may not support:';
    const legacy = { Upgradeable: `${later} set spec.enforcementMode to "" once no workload would be denied` };
    assert.deepEqual(ready(), { ...notReady(`DecisionPending: ${undecided}`), ...legacy });
    await decide('Legacy');
    const reverting = 'RevertingConfiguration: replicas are switching to the privileged default level';
    assert.deepEqual(ready(), { ...notReady(reverting), ...legacy });
    for (const name of ['a', 'b']) await report(name, 'privileged', 3);
    assert.deepEqual(ready(), { Ready: 'True LegacyMode: nothing is enforced in Legacy mode', ...legacy });
    await request('');
    assert.equal(ready()['Upgradeable'], `${later} fix the workloads that would be denied`);
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await running.pass(5_000);
    assert.deepEqual(ready(), { Ready: 'True Disabled: the rollout has ended', ...upgradeable });
  });

  const WAYS_DOWN: readonly (readonly [way: string, go: () => Promise<void>, reason: string])[] = [
    [
      'the feature gate is disabled',
      async () => {
        const crd = definition('config.openshift.io', 'v1', 'featuregates', 'FeatureGate', 'Cluster');
        await createAll(cluster, [{ value: crd, origin: 'FeatureGate' }]);
        await cluster.create('FeatureGate', GATE_OFF, BY_TEST);
        await running.pass(5_000);
      },
      'FeatureGateDisabled: the feature gate is off',
    ],
    [
      'the mode is set to Legacy',
      () => decide('Legacy'),
      'AwaitingEvaluation: enforcement is waiting for an evaluation of all namespaces',
    ],
    [
      'the phase is set to Evaluate',
      async () => {
        settings.rollout = { ...settings.rollout, phase: 'Evaluate' };
        await running.pass(5_000);
      },
      'PhaseNotEnforcing: nothing is enforced in the Evaluate phase',
    ],
    [
      'the object is deleted',
      async () => {
        await cluster.remove('PSAEnforcementConfig', 'cluster');
        await running.idle();
      },
      '',
    ],
  ];
  for (const [way, go, reason] of WAYS_DOWN) {
    test(`is lowered immediately, before labels are released, after ${way}`, async () => {
      await raise();
      await go();
      assert.equal(published(), 'privileged 3 Hold', 'replicas may still run it');
      await report('b', 'privileged', 3);
      assert.equal(published(), 'privileged 3 Hold', 'one of two replicas has not reported yet');
      await report('a', 'privileged', 3);
      assert.equal(published(), 'privileged 3 Advise');
      if (reason !== '') assert.equal(conditions()['Enforcing'], `False ${reason}`);
    });
  }

  test('does not wait for a replica whose Lease has expired', async () => {
    await raise();
    await decide('Legacy');
    assert.equal(published(), 'privileged 3 Hold');
    await running.pass(61_000);
    await running.pass(5_000);
    assert.equal(published(), 'privileged 3 Advise');
  });

  test('is raised at most once every five minutes', async () => {
    await raise();
    const { annotations } = cluster.store.get('ConfigMap', 'portcullis-pod-security', NAMESPACE)?.metadata ?? {};
    const raisedMs = Date.parse(annotations?.['portcullis.dev/raised-at'] ?? '');
    const time = new Date(raisedMs + 300_000).toISOString().replace('.000Z', 'Z');
    await decide('Legacy');
    await report('a', 'privileged', 3);
    await decide('Restricted');
    await wait(200);
    assert.equal(published(), 'privileged 3 Enforce');
    const message = `all managed namespaces have labels, and the default level is raised after all labels have existed for 30s, and not before ${time}`;
    assert.deepEqual(conditions(), {
      Enforcing: `False AwaitingRaise: ${message}`,
      Progressing: `True AwaitingRaise: ${message}`,
    });
    await wait(120);
    assert.equal(published(), 'restricted 4 Enforce');
  });

  test('is not lowered when a namespace is created', async () => {
    await raise();
    await label(undefined);
    await wait(60);
    assert.equal(published(), 'restricted 2 Enforce');
  });

  test('gets a new generation after the ConfigMap is deleted', async () => {
    await raise();
    await cluster.remove('ConfigMap', 'portcullis-pod-security', NAMESPACE);
    await running.idle();
    assert.match(published(), /^(privileged|restricted) 3 Enforce$/);
  });

  test('is raised again if its last raise was recorded with a wrong clock', async () => {
    await raise();
    await decide('Legacy');
    await report('a', 'privileged', 3);
    const ahead = [
      { op: 'replace', path: '/metadata/annotations/portcullis.dev~1raised-at', value: '2099-01-01T00:00:00Z' },
    ] as const;
    await cluster.patch('ConfigMap', { name: 'portcullis-pod-security', namespace: NAMESPACE }, ahead, BY_TEST);
    await decide('Restricted');
    await wait(320);
    assert.match(published(), /^restricted \d+ Enforce$/);
  });

  test('does not wait for a Lease with an excessively long duration', async () => {
    await raise();
    const metadata = { name: 'odd', namespace: NAMESPACE, labels: { 'app.kubernetes.io/component': 'replica' } };
    await cluster.apply('Lease', { metadata, spec: { leaseDurationSeconds: 2_147_483_647 } }, BY_TEST);
    await decide('Legacy');
    await report('a', 'privileged', 3);
    assert.equal(published(), 'privileged 3 Hold');
    await wait(70);
    assert.equal(published(), 'privileged 3 Advise');
  });

  test('is lowered when the rollout enters the Disabled phase', async () => {
    await raise();
    assert.equal(
      conditions()['Enforcing'],
      'True Restricted: the restricted level applies to namespaces without a label',
    );
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await running.pass(5_000);
    assert.equal(published(), 'privileged 3 ');
    assert.deepEqual(conditions(), ENDED);
    const { metadata, status } = cluster.store.get('PSAEnforcementConfig', 'cluster') ?? {};
    const generations = status?.conditions?.map(({ observedGeneration }) => observedGeneration);
    assert.ok(generations?.includes(metadata?.generation) && metadata?.generation !== undefined);
  });

  const ENDED = {
    Enforcing: 'False PhaseNotEnforcing: nothing is enforced in the Disabled phase',
    Progressing: 'False AsExpected: ',
  };
  const SYNCER = 'pod-security-admission-label-synchronization-controller';

  test('is published with the mode that removes labels, even if the Disabled phase begins before all replicas have reverted', async () => {
    await raise();
    const labels = { 'pod-security.kubernetes.io/enforce-version': 'latest' };
    await cluster.apply('Namespace', { metadata: { name: 'shop', labels } }, { fieldManager: SYNCER });
    settings.rollout = { ...settings.rollout, phase: 'Evaluate' };
    await running.idle();
    assert.equal(published(), 'privileged 3 Hold');
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await running.pass(5_000);
    assert.equal(published(), 'privileged 3 Advise');
    assert.equal(conditions()['Progressing'], 'True ReleasingLabels: enforce labels are being removed');
    await cluster.apply('Namespace', { metadata: { name: 'shop' } }, { fieldManager: SYNCER });
    await running.pass(5_000);
    assert.equal(published(), 'privileged 3 ');
    assert.deepEqual(conditions(), ENDED);
    await cluster.apply('Namespace', { metadata: { name: 'shop', labels } }, { fieldManager: SYNCER });
    await running.pass(5_000);
    assert.equal(published(), 'privileged 3 ', 'the labels of another installation remain');
  });

  test('does not wait for labels that no syncer removes', async () => {
    await raise();
    const labels = { 'pod-security.kubernetes.io/enforce-version': 'latest' };
    await cluster.apply('Namespace', { metadata: { name: 'shop', labels } }, { fieldManager: SYNCER });
    settings.sccMode = 'off';
    settings.rollout = { ...settings.rollout, phase: 'Evaluate' };
    await running.idle();
    await report('a', 'privileged', 3);
    assert.deepEqual(conditions(), {
      Enforcing: 'False PhaseNotEnforcing: nothing is enforced in the Evaluate phase',
      Progressing: 'False AsExpected: ',
    });
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await running.pass(5_000);
    assert.equal(published(), 'privileged 3 Advise');
    assert.deepEqual(conditions(), ENDED);
  });

  test('is raised only after all namespaces have labels if the rollout begins again after the Disabled phase', async () => {
    const context = { settings, date: () => date() };
    const controllers = [configObserver, replica].map((definition) => createController(definition, context));
    running = runControllers(controllers, cluster);
    await running.idle();
    await label('baseline');
    await decide('Restricted');
    await wait(60);
    assert.equal(published(), 'restricted 2 Enforce');
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await running.pass(5_000);
    assert.equal(published(), 'privileged 3 ');
    await label(undefined);
    settings.rollout = { ...settings.rollout, phase: 'Enforce' };
    await running.pass(5_000);
    assert.equal(published(), 'privileged 3 Enforce');
  });

  test('is not published in the Disabled phase', async () => {
    settings.rollout = { ...settings.rollout, phase: 'Disabled' };
    await run();
    await decide('Restricted');
    assert.equal(published(), '  ');
  });
});
