/**
 * Tests that a policy in the API server sets the pod defaults, or a webhook if the API server does not serve such
 * policies.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { DEFAULTS_KINDS, DEFAULTS_POLICY } from '../../src/api/admission-policies.ts';
import { createObservable, type Settings } from '../../src/config/settings.ts';
import { admissionPolicies } from '../../src/controllers/admission-policies.ts';
import { webhookConfigurations } from '../../src/controllers/webhook-configurations.ts';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/index.ts';
import { WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { NAMES, NAMESPACE, START_DATE, TEST_MANAGER } from '../support/certificates.ts';
import {
  type ControllerRun,
  createController,
  createTestSettings,
  installCrds,
  runController,
} from '../support/controllers.ts';

const PAIR = createServing(createAuthority({ now: START_DATE, days: 365 }), NAMES, { now: START_DATE, days: 30 });
const BREAK_GLASS = { 'portcullis.dev/break-glass-since': '2026-01-01T00:00:00Z' };

suite('pod defaults', () => {
  let cluster: DevCluster;
  let isServed: boolean;
  let running: readonly ControllerRun[];
  let settings: ReturnType<typeof createObservable<Settings>>;

  beforeEach(async () => {
    cluster = createDevCluster({
      clock: () => START_DATE,
      call: () => Promise.resolve({ ok: false, error: 'unavailable' }),
    });
    await installCrds(cluster);
    await cluster.create('Namespace', { metadata: { name: NAMESPACE } }, TEST_MANAGER);
    const { value } = createTestSettings({ phase: 'Disabled' });
    settings = createObservable<Settings>({ ...value, defaults: { ...value.defaults, mode: 'apply' } });
    isServed = true;
    running = [];
  });
  afterEach(async () => {
    for (const one of running) {
      assert.deepEqual(one.errors(), []);
      await one.stop();
    }
  });

  const start = async (): Promise<void> => {
    const serving = { ...cluster, serves: () => isServed };
    running = [admissionPolicies, webhookConfigurations].map((definition) =>
      runController(
        createController(definition, {
          settings,
          date: () => START_DATE,
          certificate: {
            served: { current: () => PAIR, isTemporary: () => false, use: () => undefined },
            names: NAMES,
            source: 'provided',
          },
          webhooks: { registrations: WEBHOOK_REGISTRATIONS, url: 'https://127.0.0.1:8443', annotations: {} },
        }),
        serving,
      ),
    );
    await pass(0);
  };
  const pass = async (ms: number): Promise<void> => {
    for (const one of running) await one.pass(ms);
  };
  /** Returns the kinds of the objects that set defaults. */
  const kinds = (): readonly string[] => [
    ...DEFAULTS_KINDS.filter((kind) => cluster.store.get(kind, DEFAULTS_POLICY)),
    ...cluster.store
      .list('MutatingWebhookConfiguration')
      .filter(({ webhooks = [] }) => webhooks.some(({ name }) => name === 'defaults.mutate.pods.portcullis.dev'))
      .map(() => 'MutatingWebhookConfiguration'),
  ];
  const setMode = async (mode: 'off' | 'apply'): Promise<void> => {
    settings.set({ ...settings.value, defaults: { ...settings.value.defaults, mode } });
    await pass(10_000);
  };

  test('are set by a policy in apply mode', async () => {
    await start();
    await pass(10_000);
    assert.deepEqual(kinds(), DEFAULTS_KINDS);
    // The label of policies of an installation without a server must not select these objects.
    const { labels } = cluster.store.get('MutatingAdmissionPolicy', DEFAULTS_POLICY)?.metadata ?? {};
    assert.equal(labels?.['app.kubernetes.io/component'], 'floor');
    await setMode('off');
    assert.deepEqual(kinds(), []);
    await setMode('apply');
    assert.deepEqual(kinds(), DEFAULTS_KINDS);
  });

  test('are set by a webhook until the API server serves policies, and by both until the API server has observed the policy', async () => {
    isServed = false;
    await start();
    assert.deepEqual(kinds(), ['MutatingWebhookConfiguration']);
    isServed = true;
    await pass(30_000);
    assert.deepEqual(kinds(), [...DEFAULTS_KINDS, 'MutatingWebhookConfiguration']);
    await pass(4_000);
    assert.deepEqual(kinds(), [...DEFAULTS_KINDS, 'MutatingWebhookConfiguration']);
    await pass(2_000);
    assert.deepEqual(kinds(), DEFAULTS_KINDS);
  });

  test('are restored after other clients change the policy, except during break-glass', async () => {
    await start();
    await pass(10_000);
    const [kind] = DEFAULTS_KINDS;
    const policy = cluster.store.get(kind, DEFAULTS_POLICY);
    await cluster.update(kind, { ...policy, spec: { ...policy?.spec, variables: [] } }, TEST_MANAGER);
    await pass(0);
    assert.deepEqual(cluster.store.get(kind, DEFAULTS_POLICY)?.spec, policy?.spec);
    await cluster.remove(kind, DEFAULTS_POLICY);
    await pass(10_000);
    assert.deepEqual(kinds(), DEFAULTS_KINDS);
    const psa = cluster.store.get('ValidatingWebhookConfiguration', 'portcullis.dev');
    const metadata = { ...psa?.metadata, annotations: BREAK_GLASS };
    await cluster.update('ValidatingWebhookConfiguration', { ...psa, metadata }, TEST_MANAGER);
    await cluster.remove('MutatingAdmissionPolicyBinding', DEFAULTS_POLICY);
    await pass(10_000);
    assert.deepEqual(kinds(), [kind]);
  });

  test('are removed with the installation namespace', async () => {
    await start();
    await cluster.remove('Namespace', NAMESPACE);
    await pass(0);
    assert.deepEqual(kinds(), []);
  });
});
