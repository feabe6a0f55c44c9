/**
 * Tests that the webhook configurations follow the settings, the readiness of replicas, and the trust in their
 * certificate.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { CONFIGURATION_KINDS, type WebhookConfiguration } from '../../src/api/webhooks.ts';
import { createObservable, type Settings } from '../../src/config/settings.ts';
import { webhookConfigurations } from '../../src/controllers/webhook-configurations.ts';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/index.ts';
import { draft, type EndpointSlice } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/index.ts';
import { STANDARD_SCCS } from '../../src/policy/scc/index.ts';
import { WEBHOOK_REGISTRATIONS as REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { NAMES, NAMESPACE, SERVICE, START_DATE, TEST_MANAGER } from '../support/certificates.ts';
import {
  type ControllerRun,
  createController,
  createTestSettings,
  installCrds,
  runController,
} from '../support/controllers.ts';

const AUTHORITY = createAuthority({ now: START_DATE, days: 365 });
const PAIR = createServing(AUTHORITY, NAMES, { now: START_DATE, days: 30 });
const ROLE = 'portcullis-webhook-configurations';
/** The webhook that fails closed even if nothing is enforced by default. */
const OWN_LABEL = 'own-label.validate.pods';
/** The webhooks that fail closed unless SCC admission is off, because namespaces may have the label for enforcement. */
const SCCS = ['connect.pods', 'mutate.objects', 'mutate.pods', 'objects', OWN_LABEL, 'validate.pods'];

/** Returns an EndpointSlice of the Service. */
function slice(ready: boolean): EndpointSlice {
  const labels = { 'kubernetes.io/service-name': SERVICE.name };
  return {
    metadata: { name: 'portcullis-x', namespace: NAMESPACE, labels },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready } }],
  };
}

suite('the webhook configurations', () => {
  let cluster: DevCluster;
  let running: ControllerRun;
  let served: { temporary: boolean };
  let settings: ReturnType<typeof createObservable<Settings>>;

  beforeEach(async () => {
    cluster = createDevCluster({
      clock: () => START_DATE,
      call: () => Promise.resolve({ ok: false, error: 'unavailable' }),
    });
    await installCrds(cluster);
    for (const name of [NAMESPACE, 'shop']) await cluster.create('Namespace', { metadata: { name } }, TEST_MANAGER);
    const { value } = createTestSettings({ phase: 'Disabled' });
    settings = createObservable<Settings>({ ...value, scc: { ...value.scc, mode: 'report' } });
    served = { temporary: false };
  });
  afterEach(async () => {
    assert.deepEqual(running.errors(), []);
    await running.stop();
  });

  const start = (url?: string): void => {
    const controller = createController(webhookConfigurations, {
      settings,
      date: () => START_DATE,
      certificate: {
        served: { current: () => PAIR, isTemporary: () => served.temporary, use: () => undefined },
        names: NAMES,
        source: 'provided',
      },
      ...(url === undefined ? {} : { webhooks: withUrl(url) }),
    });
    running = runController(controller, cluster);
  };
  const withUrl = (url: string) => ({ registrations: REGISTRATIONS, url, annotations: { 'example.com/a': 'b' } });
  const list = (): readonly WebhookConfiguration[] =>
    CONFIGURATION_KINDS.flatMap((kind) => cluster.store.list(kind) as readonly WebhookConfiguration[]);
  const names = () => list().map(({ metadata }) => metadata?.name);
  const hooks = () => list().flatMap(({ webhooks = [] }) => webhooks.map(({ name }) => name));
  /** Returns the names of fail-closed webhooks, without the domain. */
  const closed = (): readonly string[] =>
    list()
      .flatMap(({ webhooks = [] }) => webhooks)
      .filter(({ failurePolicy }) => failurePolicy === 'Fail')
      .map(({ name }) => name.replace('.portcullis.dev', ''))
      .sort();
  const change = (fields: Partial<Settings['scc']>, others: Partial<Settings> = {}): Promise<void> => {
    settings.set({ ...settings.value, ...others, scc: { ...settings.value.scc, ...fields } });
    return running.idle();
  };
  /** Changes all configurations as another component does. */
  const edit = async (change: (one: ReturnType<typeof draft<WebhookConfiguration>>) => void): Promise<void> => {
    for (const kind of CONFIGURATION_KINDS) {
      for (const one of cluster.store.list(kind)) {
        const changed = draft<WebhookConfiguration>(one);
        change(changed);
        await cluster.update(kind, changed, TEST_MANAGER);
      }
    }
    await running.idle();
  };
  const trust = (): Promise<void> => {
    const caBundle = Buffer.from(AUTHORITY.cert).toString('base64');
    return edit(({ webhooks = [] }) => webhooks.forEach(({ clientConfig }) => (clientConfig.caBundle = caBundle)));
  };
  const registeredMode = (): string | undefined =>
    list().find(({ metadata }) => metadata?.name === 'portcullis.dev')?.metadata?.annotations?.[
      'portcullis.dev/registered-scc-mode'
    ];

  test('are registered when a replica is ready, and fail open', async () => {
    served.temporary = true;
    await cluster.create('EndpointSlice', slice(false), TEST_MANAGER);
    start();
    await running.idle();
    assert.deepEqual(names(), []);
    served.temporary = false;
    await running.pass(1000);
    assert.deepEqual(names(), []);
    await cluster.update('EndpointSlice', slice(true), TEST_MANAGER);
    await running.idle();
    assert.deepEqual(names(), ['portcullis.dev', 'zz.portcullis.dev']);
    assert.deepEqual(closed(), []);
  });

  test('fail closed for enforced namespaces once API servers trust the certificate', async () => {
    start('https://127.0.0.1:8443');
    await running.idle();
    await change({ mode: 'enforce' });
    await running.pass(60_000);
    assert.deepEqual(closed(), [], 'without a caBundle');
    await trust();
    await running.pass(4_000);
    assert.deepEqual(closed(), [], 'before API servers have observed the caBundle');
    await running.pass(1_000);
    assert.deepEqual(closed(), SCCS);
    await change({ mode: 'report' });
    assert.deepEqual(closed(), SCCS);
    const enforce = {
      ...DEFAULT_CONFIGURATION,
      defaults: { ...DEFAULT_CONFIGURATION.defaults, enforce: 'baseline' },
    } as const;
    await change({}, { podSecurity: createPodSecurity(enforce) });
    assert.deepEqual(closed(), SCCS);
    await change({ mode: 'off' });
    assert.deepEqual(names(), ['portcullis.dev']);
    assert.deepEqual(closed(), [OWN_LABEL, 'validate.pods']);
    await change({}, { podSecurity: createPodSecurity(DEFAULT_CONFIGURATION) });
    assert.deepEqual(closed(), [OWN_LABEL]);
    const waits = list().flatMap(({ webhooks = [] }) => webhooks.map((one) => [one.name, one.timeoutSeconds] as const));
    const long = waits.filter(([, timeoutSeconds = 10]) => timeoutSeconds > 5);
    assert.deepEqual(long, [
      ['validate.pods.portcullis.dev', 15],
      ['own-label.validate.pods.portcullis.dev', 15],
      ['fail-open.validate.pods.portcullis.dev', 15],
      ['kube-system.validate.pods.portcullis.dev', 15],
    ]);
    const { exceptions } = settings.value;
    await change({}, { exceptions: { ...exceptions, mode: 'approved' } });
    await trust();
    await running.pass(5_000);
    assert.deepEqual(closed(), ['mutate.objects', 'objects', OWN_LABEL], 'exceptions');
    await change({}, { exceptions });
    assert.deepEqual(closed(), [OWN_LABEL], 'exceptions turned off again');
  });

  test('skip exec reviews for users of the privileged SCC only while this SCC allows every pod', async () => {
    const skipped = (): boolean => JSON.stringify(list()).includes('not-privileged');
    const standard = STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === 'privileged')?.scc;
    assert.ok(standard);
    start('https://127.0.0.1:8443');
    await running.idle();
    assert.equal(skipped(), false, 'missing');
    await cluster.create('SecurityContextConstraints', standard, TEST_MANAGER);
    await running.idle();
    assert.equal(skipped(), true, 'standard');
    for (const { scc, isSkipped, compatibility = 'portcullis' as const } of [
      { scc: { allowHostPID: false }, isSkipped: false },
      { scc: { users: ['alice'], groups: [], priority: 5 }, isSkipped: true },
      { scc: { volumes: ['configMap'] }, isSkipped: false },
      { scc: {}, isSkipped: true },
      { scc: { requiredDropCapabilities: ['KILL'] }, isSkipped: false },
      { scc: {}, compatibility: 'openshift' as const, isSkipped: false },
      { scc: {}, isSkipped: true },
    ]) {
      const { metadata = {} } = cluster.store.get('SecurityContextConstraints', 'privileged') ?? {};
      await cluster.update('SecurityContextConstraints', { ...standard, ...scc, metadata }, TEST_MANAGER);
      await change({ compatibility });
      assert.equal(skipped(), isSkipped, JSON.stringify({ scc, compatibility }));
    }
    await cluster.remove('SecurityContextConstraints', 'privileged');
    await running.idle();
    assert.equal(skipped(), false, 'deleted');
  });

  test('exist for OLM hardening unless its mode is off, and fail open', async () => {
    start('https://127.0.0.1:8443');
    await running.idle();
    const { olm } = settings.value;
    for (const mode of ['report', 'fill', 'force'] as const) {
      await change({}, { olm: { ...olm, hardening: { mode } } });
      assert.ok(hooks().includes('olm.mutate.pods.portcullis.dev'), mode);
      await trust();
      await running.pass(60_000);
      assert.deepEqual(closed(), SCCS);
      await change({}, { olm: { ...olm, hardening: { mode: 'off' } } });
      assert.ok(!hooks().includes('olm.mutate.pods.portcullis.dev'));
    }
  });

  test('stay fail-open with the caBundle of another CA, even next to webhooks that fail closed', async () => {
    start('https://127.0.0.1:8443');
    await change({ mode: 'enforce' });
    await trust();
    const caBundle = Buffer.from(createAuthority({ now: START_DATE, days: 365 }).cert).toString('base64');
    await edit(({ webhooks = [] }) => {
      for (const { name, clientConfig } of webhooks) if (name.startsWith('mutate.')) clientConfig.caBundle = caBundle;
    });
    await running.pass(60_000);
    // The other webhooks of the mutating configuration are not trusted either.
    assert.deepEqual(closed(), ['connect.pods', 'objects', OWN_LABEL, 'validate.pods']);
    assert.equal(registeredMode(), undefined);
  });

  test('keep failing closed while the trust in the certificate is interrupted', async () => {
    start('https://127.0.0.1:8443');
    await running.idle();
    await trust();
    await change({ mode: 'enforce' });
    await running.pass(5_000);
    const before = closed();
    assert.ok(before.length > 0);
    await edit(({ webhooks = [] }) => webhooks.forEach(({ clientConfig }) => delete clientConfig.caBundle));
    await running.pass(10_000);
    assert.deepEqual(closed(), before);
  });

  test('are restored after changes by other clients, except for metadata and caBundle', async () => {
    start('https://127.0.0.1:8443');
    await running.idle();
    await trust();
    const before = list();
    await edit((one) => {
      one.metadata = { ...one.metadata, annotations: { note: 'kept' } };
      one.webhooks = (one.webhooks ?? []).slice(0, 1).map((webhook) => ({
        ...webhook,
        objectSelector: { matchLabels: { skip: 'true' } },
        matchConditions: [{ name: 'none', expression: 'false' }],
        timeoutSeconds: 30,
      }));
    });
    assert.deepEqual(
      list().map(({ webhooks }) => webhooks),
      before.map(({ webhooks }) => webhooks),
    );
    for (const { metadata } of list()) {
      assert.deepEqual(metadata?.annotations, {
        note: 'kept',
        'admissions.enforcer/disabled': 'true',
        'example.com/a': 'b',
      });
    }
    await cluster.remove('ValidatingWebhookConfiguration', 'portcullis.dev');
    await running.idle();
    assert.equal(names().length, 2);
  });

  test('record an SCC mode after its webhooks have been registered and trusted for 5 s', async () => {
    start('https://127.0.0.1:8443');
    await running.idle();
    await running.pass(60_000);
    assert.equal(registeredMode(), undefined, 'without a caBundle');
    await trust();
    await running.pass(4_000);
    assert.equal(registeredMode(), undefined, 'before API servers have observed the registration');
    await running.pass(1_000);
    assert.equal(registeredMode(), 'report');

    await change({ mode: 'enforce' });
    await running.pass(4_000);
    assert.equal(registeredMode(), 'report', 'before API servers have observed the changed registration');
    await edit(({ webhooks = [] }) => webhooks.forEach(({ clientConfig }) => delete clientConfig.caBundle));
    await running.pass(60_000);
    assert.equal(registeredMode(), 'report', 'while trust is interrupted');
    await trust();
    await running.pass(4_000);
    assert.equal(registeredMode(), 'report', 'trusted again');
    await running.pass(1_000);
    assert.equal(registeredMode(), 'enforce');
  });

  test('keep the recorded SCC mode while exempt namespaces and trust change, and after a configuration is deleted', async () => {
    start('https://127.0.0.1:8443');
    await change({ mode: 'enforce' });
    await trust();
    await running.pass(5_000);
    for (const exemptNamespaces of [['shop'], [], ['kube-system']]) {
      await change({ exemptNamespaces });
      assert.equal(registeredMode(), 'enforce', exemptNamespaces.join());
    }
    await edit(({ webhooks = [] }) => webhooks.forEach(({ clientConfig }) => delete clientConfig.caBundle));
    await running.pass(60_000);
    assert.equal(registeredMode(), 'enforce', 'without a caBundle');
    await trust();
    await running.pass(5_000);
    await edit((one) => delete one.metadata?.annotations);
    assert.equal(registeredMode(), 'enforce', 'removed by another client');
    await cluster.remove('MutatingWebhookConfiguration', 'zz.portcullis.dev');
    await running.idle();
    assert.deepEqual([names(), registeredMode()], [['portcullis.dev', 'zz.portcullis.dev'], 'enforce']);
    await running.pass(5_000);
    await cluster.remove('ValidatingWebhookConfiguration', 'portcullis.dev');
    await running.idle();
    assert.equal(registeredMode(), 'enforce', 'after the validating configuration was deleted');
  });

  test('record a less strict SCC mode at once, and no mode while SCC admission is off', async () => {
    const { olm } = settings.value;
    start('https://127.0.0.1:8443');
    await change({ mode: 'enforce' }, { olm: { ...olm, hardening: { mode: 'report' } } });
    await trust();
    await running.pass(5_000);
    assert.equal(registeredMode(), 'enforce');
    await change({ mode: 'report' });
    assert.equal(registeredMode(), 'report');
    await change({ mode: 'off' });
    assert.deepEqual([names(), registeredMode()], [['portcullis.dev', 'zz.portcullis.dev'], undefined]);
    await running.pass(60_000);
    assert.equal(registeredMode(), undefined);
    await change({ mode: 'enforce' });
    await running.pass(4_000);
    assert.equal(registeredMode(), undefined, 'before API servers have observed the registration');
    await running.pass(1_000);
    assert.equal(registeredMode(), 'enforce');
  });

  test('do not change during break-glass', async () => {
    start('https://127.0.0.1:8443');
    await running.idle();
    await edit((one) => {
      one.metadata = { ...one.metadata, annotations: { 'portcullis.dev/break-glass-since': '2026-01-01T00:00:00Z' } };
      one.webhooks?.forEach((webhook) => (webhook.matchConditions = [{ name: 'break-glass', expression: 'false' }]));
    });
    const before = list();
    await change({ mode: 'enforce' });
    await running.pass(60_000);
    assert.deepEqual(list(), before);
    await change({ mode: 'off' });
    assert.deepEqual(list(), before);
    await change({ mode: 'enforce' });
    await edit((one) => delete one.metadata?.annotations);
    assert.ok(list().every(({ webhooks = [] }) => !JSON.stringify(webhooks).includes('break-glass')));
  });

  test('are owned by the ClusterRole of the controller, and are deleted with the installation namespace', async () => {
    const role = await cluster.create('ClusterRole', { metadata: { name: ROLE }, rules: [] }, TEST_MANAGER);
    start('https://127.0.0.1:8443');
    await running.idle();
    const { uid } = role.metadata ?? {};
    const owner = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', name: ROLE, uid };
    for (const { metadata } of list()) assert.deepEqual(metadata?.ownerReferences, [owner]);
    await cluster.remove('Namespace', NAMESPACE);
    await running.idle();
    assert.deepEqual(names(), []);
  });
});
