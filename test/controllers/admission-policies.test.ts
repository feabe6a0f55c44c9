/**
 * Tests that the floor policies follow the settings, and that webhooks fail open only while the policies are in force.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { type AdmissionPolicy, FLOOR_POLICIES, POLICY_KINDS } from '../../src/api/admission-policies.ts';
import { CONFIGURATION_KINDS } from '../../src/api/webhooks.ts';
import { createObservable, type Settings } from '../../src/config/settings.ts';
import { admissionPolicies, admissionPolicyStandby } from '../../src/controllers/admission-policies.ts';
import { webhookConfigurations } from '../../src/controllers/webhook-configurations.ts';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/index.ts';
import { draft, isObject } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/index.ts';
import type { Level, Version } from '../../src/policy/pss/index.ts';
import type { SccMode } from '../../src/policy/scc/index.ts';
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

const BASELINE = 'floor.enforce-baseline.psa.portcullis.dev';
const UNLABELED = 'floor.enforce-baseline-unlabeled.psa.portcullis.dev';
const RESTRICTED = 'floor.enforce-restricted.psa.portcullis.dev';
const ROLE = 'portcullis-admission-policies';
const BREAK_GLASS = { 'portcullis.dev/break-glass-since': '2026-01-01T00:00:00Z' };

const AUTHORITY = createAuthority({ now: START_DATE, days: 365 });
const PAIR = createServing(AUTHORITY, NAMES, { now: START_DATE, days: 30 });

/** Returns a JSON object with its members in alphabetical order. */
function sorted(value: unknown): unknown {
  return isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;
}

suite('the floor policies', () => {
  let cluster: DevCluster;
  let running: ControllerRun[];
  let settings: ReturnType<typeof createObservable<Settings>>;
  let version: ReturnType<typeof createObservable<Version | undefined>>;

  beforeEach(async () => {
    cluster = createDevCluster({
      clock: () => START_DATE,
      call: () => Promise.resolve({ ok: false, error: 'unavailable' }),
    });
    await installCrds(cluster);
    await cluster.create('Namespace', { metadata: { name: NAMESPACE } }, TEST_MANAGER);
    const { value } = createTestSettings({ phase: 'Disabled' });
    settings = createObservable<Settings>({
      ...value,
      scc: { ...value.scc, mode: 'off' },
      floor: { ...value.floor, mode: 'enforce' },
    });
    version = createObservable<Version | undefined>('v1.36');
    running = [];
  });
  afterEach(async () => {
    for (const one of running) {
      assert.deepEqual(one.errors(), []);
      await one.stop();
    }
  });

  const start = async (definition = admissionPolicies, serving: DevCluster = cluster): Promise<ControllerRun> => {
    const controller = createController(definition, {
      settings,
      apiServerVersion: version,
      date: () => START_DATE,
      certificate: {
        served: { current: () => PAIR, isTemporary: () => false, use: () => undefined },
        names: NAMES,
        source: 'provided',
      },
      webhooks: { registrations: WEBHOOK_REGISTRATIONS, url: 'https://127.0.0.1:8443', annotations: {} },
    });
    const run = runController(controller, serving);
    running.push(run);
    await run.idle();
    return run;
  };
  const idle = async (): Promise<void> => {
    for (const one of running) await one.idle();
  };
  const change = (others: Partial<Settings>): Promise<void> => {
    settings.set({ ...settings.value, ...others });
    return idle();
  };
  const setLevel = (enforce: Level, usernames: readonly string[] = ['admin']): Promise<void> =>
    change({
      podSecurity: createPodSecurity({
        defaults: { ...DEFAULT_CONFIGURATION.defaults, enforce },
        exemptions: { usernames, runtimeClasses: [], namespaces: ['legacy'] },
      }),
    });
  const list = (): readonly AdmissionPolicy[] => POLICY_KINDS.flatMap((kind) => [...cluster.store.list(kind)]);
  const names = (): readonly string[] => list().map(({ metadata }) => metadata?.name ?? '');
  /** Returns the specs as text, sorted by name. */
  const specs = (): readonly string[] =>
    list()
      .map(({ metadata, spec }) => `${metadata?.name} ${JSON.stringify(spec, (_key, value: unknown) => sorted(value))}`)
      .sort();
  const edit = async (
    kind: (typeof POLICY_KINDS)[number],
    name: string,
    modify: (one: ReturnType<typeof draft<AdmissionPolicy>>) => void,
  ): Promise<void> => {
    const object = draft<AdmissionPolicy>(cluster.store.get(kind, name) ?? {});
    modify(object);
    await cluster.update(kind, object, TEST_MANAGER);
    await idle();
  };

  /** Sets the caBundle of all webhooks. */
  const trustAll = async (caBundle = Buffer.from(AUTHORITY.cert).toString('base64')): Promise<void> => {
    for (const kind of CONFIGURATION_KINDS) {
      for (const one of cluster.store.list(kind)) {
        const trusted = draft(one);
        trusted.webhooks?.forEach(({ clientConfig }: { clientConfig: { caBundle?: string } }) => {
          clientConfig.caBundle = caBundle;
        });
        await cluster.update(kind, trusted, TEST_MANAGER);
      }
    }
    await idle();
  };

  test('exist in enforce mode, and are deleted in other modes', async () => {
    const run = await start();
    assert.deepEqual(names(), [BASELINE, RESTRICTED, BASELINE, RESTRICTED]);
    await setLevel('baseline');
    assert.deepEqual(names(), [BASELINE, RESTRICTED, BASELINE, RESTRICTED, UNLABELED]);
    const seen = new Set(names());
    await setLevel('restricted');
    assert.deepEqual(
      names().map((name) => name.replace('-unlabeled', '')),
      [BASELINE, RESTRICTED, BASELINE, RESTRICTED, RESTRICTED],
    );
    for (const name of [...names(), ...seen]) assert.ok(FLOOR_POLICIES.ValidatingAdmissionPolicyBinding.includes(name));
    await change({ floor: { ...settings.value.floor, mode: 'off' } });
    await run.pass(5_000);
    assert.deepEqual(names(), []);
  });

  test('apply to all namespaces except exempt namespaces and the installation namespace', async () => {
    await start();
    await setLevel('baseline');
    const policy = cluster.store.get('ValidatingAdmissionPolicy', BASELINE);
    assert.deepEqual(policy?.spec?.matchConstraints?.namespaceSelector?.matchExpressions, [
      { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['legacy'] },
      { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: [NAMESPACE] },
    ]);
    const binding = cluster.store.get('ValidatingAdmissionPolicyBinding', UNLABELED);
    assert.deepEqual([binding?.spec?.policyName, binding?.spec?.validationActions], [BASELINE, ['Deny']]);
  });

  test('that earlier versions created for SCCs are deleted by the controller', async () => {
    await start();
    const { spec } = cluster.store.get('ValidatingAdmissionPolicy', BASELINE) ?? {};
    const former = ['floor.named.scc.portcullis.dev', 'floor.unnamed.scc.portcullis.dev'];
    for (const name of former) {
      await cluster.create(
        'ValidatingAdmissionPolicy',
        { metadata: { name }, ...(spec ? { spec } : {}) },
        TEST_MANAGER,
      );
      await cluster.create(
        'ValidatingAdmissionPolicyBinding',
        { metadata: { name }, spec: { policyName: name, validationActions: ['Deny'] } },
        TEST_MANAGER,
      );
    }
    await idle();
    assert.deepEqual(names(), [BASELINE, RESTRICTED, BASELINE, RESTRICTED]);
  });

  test('depend on the API server version and on the version in the settings', async () => {
    version.set(undefined);
    await start();
    assert.deepEqual(names(), []);
    version.set('v1.35');
    await idle();
    const before = specs();
    await change({ emulationVersion: 'v1.24' });
    assert.notDeepEqual(specs(), before);
  });

  test('are restored after changes by other clients', async () => {
    await start();
    const before = specs();
    await edit('ValidatingAdmissionPolicy', BASELINE, (one) => {
      one.metadata = { ...one.metadata, labels: {}, annotations: { note: 'kept' } };
      Object.assign(one.spec ?? {}, { matchConditions: [{ name: 'none', expression: 'false' }] });
    });
    await edit('ValidatingAdmissionPolicyBinding', RESTRICTED, (one) => {
      Object.assign(one.spec ?? {}, { validationActions: ['Audit'] });
    });
    await cluster.remove('ValidatingAdmissionPolicyBinding', BASELINE);
    await idle();
    assert.deepEqual(specs(), before);
    const { metadata } = cluster.store.get('ValidatingAdmissionPolicy', BASELINE) ?? {};
    assert.equal(metadata?.labels?.['app.kubernetes.io/component'], 'floor');
    assert.equal(metadata.annotations?.['note'], 'kept');
  });

  test('do not include policies of other owners, which the controller does not change', async () => {
    const run = await start();
    const { spec, metadata } = cluster.store.get('ValidatingAdmissionPolicy', BASELINE) ?? {};
    for (const name of ['enforce-baseline.psa.portcullis.dev', 'floor.copy']) {
      await cluster.create(
        'ValidatingAdmissionPolicy',
        { metadata: { name, labels: metadata?.labels ?? {} }, ...(spec ? { spec } : {}) },
        TEST_MANAGER,
      );
    }
    await change({ floor: { ...settings.value.floor, mode: 'off' } });
    await run.pass(5_000);
    assert.deepEqual(names(), ['enforce-baseline.psa.portcullis.dev', 'floor.copy']);
  });

  test('are neither created nor corrected during break-glass', async () => {
    await start();
    await cluster.create(
      'ValidatingWebhookConfiguration',
      { metadata: { name: 'portcullis.dev', annotations: BREAK_GLASS } },
      TEST_MANAGER,
    );
    await edit('ValidatingAdmissionPolicyBinding', RESTRICTED, (one) => {
      Object.assign(one.spec ?? {}, { validationActions: ['Audit'] });
    });
    const before = specs();
    await setLevel('baseline');
    assert.deepEqual(specs(), before);
    await cluster.remove('ValidatingWebhookConfiguration', 'portcullis.dev');
    await idle();
    assert.equal(names().length, 5);
    assert.ok(!specs().join().includes('Audit'));
    // The break-glass annotation on a policy suffices, for example with static webhooks.
    await edit('ValidatingAdmissionPolicy', BASELINE, (one) => {
      one.metadata = { ...one.metadata, annotations: BREAK_GLASS };
    });
    await cluster.remove('ValidatingAdmissionPolicyBinding', BASELINE);
    await idle();
    assert.equal(names().length, 4);
    await setLevel('privileged');
    assert.equal(names().length, 4);
    await change({ floor: { ...settings.value.floor, mode: 'off' } });
    assert.deepEqual(names(), []);
  });

  test('are created by every replica while no leader renews the Lease', async () => {
    const at = (second: number) => `2026-01-01T00:00:0${second}.000000Z`;
    const lease = { metadata: { name: 'portcullis', namespace: NAMESPACE }, spec: { holderIdentity: 'a' } };
    await cluster.create('Lease', lease, TEST_MANAGER);
    const renew = async (second: number): Promise<void> => {
      const current = cluster.store.get('Lease', 'portcullis', NAMESPACE);
      await cluster.update('Lease', { ...current, spec: { ...current?.spec, renewTime: at(second) } }, TEST_MANAGER);
    };
    const standby = await start(admissionPolicyStandby);
    for (const second of [1, 2, 3]) {
      await renew(second);
      await standby.pass(5_000);
      assert.deepEqual(names(), []);
    }
    await standby.pass(4_999);
    assert.deepEqual(names(), []);
    await standby.pass(1);
    assert.equal(names().length, 4);

    // Only the leader corrects and deletes policies.
    const required = specs();
    await edit('ValidatingAdmissionPolicyBinding', RESTRICTED, (one) => {
      Object.assign(one.spec ?? {}, { validationActions: ['Audit'] });
    });
    const changed = specs();
    assert.notDeepEqual(changed, required);
    await cluster.remove('ValidatingAdmissionPolicy', BASELINE);
    await idle();
    await standby.pass(5_000);
    assert.deepEqual(specs(), changed);
    await change({ floor: { ...settings.value.floor, mode: 'off' } });
    await standby.pass(60_000);
    assert.deepEqual(specs(), changed);
  });

  test('are not created during break-glass, even without a leader', async () => {
    const standby = await start(admissionPolicyStandby);
    const configuration = { metadata: { name: 'portcullis.dev', annotations: BREAK_GLASS } };
    await cluster.create('ValidatingWebhookConfiguration', configuration, TEST_MANAGER);
    await standby.pass(60_000);
    assert.deepEqual(names(), []);
  });

  test('are owned by the ClusterRole of the controller, and are deleted with the installation namespace', async () => {
    const role = await cluster.create('ClusterRole', { metadata: { name: ROLE }, rules: [] }, TEST_MANAGER);
    await start();
    for (const { metadata } of list()) assert.equal(metadata?.ownerReferences?.[0]?.uid, role.metadata?.uid);
    await cluster.remove('Namespace', NAMESPACE);
    await idle();
    assert.deepEqual(names(), []);
  });

  test('are reported once if the API server rejects them', async () => {
    await cluster.create('Namespace', { metadata: { name: 'default' } }, TEST_MANAGER);
    version.set('v1.34');
    const configuration = { metadata: { name: 'cluster' }, spec: { floor: { mode: 'enforce' } } };
    await cluster.create('PortcullisConfiguration', configuration, TEST_MANAGER);
    const run = await start();
    const problem =
      'spec.floor has no effect: its policies require Kubernetes 1.35, and the version of the API server is v1.34';
    assert.deepEqual(run.errors(), [problem]);
    await run.pass(60_000);
    assert.deepEqual([run.errors(), names()], [[], []]);
    assert.deepEqual(
      cluster.storage.list({ group: '', resource: 'events' }).map(({ reason, message }) => [reason, message]),
      [['FloorNotEnforced', problem]],
    );
    version.set('v1.35');
    await idle();
    assert.equal(names().length, 4);
  });

  test('let webhooks fail open once the policies are stable, and fail closed again as soon as one changes', async () => {
    const policies = await start();
    await change({ scc: { ...settings.value.scc, mode: 'enforce' } });
    const run = await start(webhookConfigurations);
    // If users are exempt, webhooks fail closed for all pods where SCCs are enforced.
    await setLevel('baseline', []);
    await trustAll();
    const webhookPolicy = (webhook: string): unknown =>
      cluster.store
        .get('ValidatingWebhookConfiguration', 'portcullis.dev')
        ?.webhooks?.find(({ name }) => name === webhook)?.failurePolicy;
    // Without the floor, one webhook fails closed. With the floor, only the pods that the floor restricts fail open.
    const policy = (): unknown => {
      assert.equal(webhookPolicy('validate.pods.portcullis.dev'), 'Fail');
      return webhookPolicy('floor.validate.pods.portcullis.dev') ?? 'Fail';
    };
    await run.pass(5_000);
    assert.equal(policy(), 'Fail');
    await change({ webhooks: { ...settings.value.webhooks, failurePolicy: 'Ignore' } });
    await run.pass(4_000);
    assert.equal(policy(), 'Fail', 'before API servers have observed the policies');
    await run.pass(1_000);
    assert.equal(policy(), 'Ignore');
    await run.pass(60_000);
    assert.equal(policy(), 'Ignore');
    const annotate = (annotations: Readonly<Record<string, string>>) =>
      edit('ValidatingAdmissionPolicy', BASELINE, (one) => {
        one.metadata = { ...one.metadata, annotations };
        Object.assign(one.spec ?? {}, { failurePolicy: annotations === BREAK_GLASS ? 'Ignore' : 'Fail' });
      });
    await annotate(BREAK_GLASS);
    await run.pass(10_000);
    assert.equal(policy(), 'Ignore', 'while break-glass switches off policies before webhooks');
    await annotate({});
    await run.pass(10_000);
    assert.equal(policy(), 'Ignore');
    // A new leader keeps fail-open webhooks, even before it reads the version of the API server.
    await run.stop();
    const versions = () =>
      cluster.store.list('ValidatingWebhookConfiguration').map(({ metadata }) => metadata?.resourceVersion);
    const before = versions();
    version.set(undefined);
    const next = await start(webhookConfigurations);
    await next.pass(3_000);
    version.set('v1.36');
    await next.pass(60_000);
    assert.deepEqual([policy(), ...versions()], ['Ignore', ...before]);
    await next.stop();
    // A policy was deleted while no leader ran.
    await policies.stop();
    await cluster.remove('ValidatingAdmissionPolicyBinding', UNLABELED);
    const last = await start(webhookConfigurations);
    await last.pass(5_000);
    assert.equal(policy(), 'Fail');
    await start();
    await idle();
    await last.pass(4_000);
    assert.equal(policy(), 'Fail');
    await last.pass(1_000);
    assert.equal(policy(), 'Ignore');
    await change({ webhooks: { ...settings.value.webhooks, failurePolicy: 'Fail' } });
    assert.equal(policy(), 'Fail');
  });

  test('do not delay the registered-scc-mode annotation when webhooks are split because of the floor', async () => {
    await start();
    const run = await start(webhookConfigurations);
    await setLevel('baseline', []);
    const setMode = (mode: SccMode): Promise<void> => change({ scc: { ...settings.value.scc, mode } });
    const mutating = () => cluster.store.get('MutatingWebhookConfiguration', 'zz.portcullis.dev');
    const validating = () => cluster.store.get('ValidatingWebhookConfiguration', 'portcullis.dev');
    const state = () => [
      validating()?.metadata?.annotations?.['portcullis.dev/registered-scc-mode'],
      mutating()?.webhooks?.some(({ name }) => name.startsWith('floor.')),
    ];
    await setMode('report');
    await trustAll();
    await run.pass(5_000);
    assert.deepEqual(state(), ['report', false]);
    await change({ webhooks: { ...settings.value.webhooks, failurePolicy: 'Ignore' } });
    await run.pass(3_000);
    await setMode('enforce');
    await run.pass(3_000);
    assert.deepEqual(state(), ['report', true]);
    await run.pass(2_000);
    assert.deepEqual(state(), ['enforce', true]);
  });

  for (const { name, isTrusted, remainingMs } of [
    { name: 'until webhooks have failed closed for 5 s', isTrusted: true, remainingMs: 10_000 },
    { name: 'for 30 s if webhooks cannot fail closed', isTrusted: false, remainingMs: 30_000 },
  ]) {
    test(`stay in place after the floor is turned off and the leader has changed, ${name}`, async () => {
      await change({ webhooks: { ...settings.value.webhooks, failurePolicy: 'Ignore' } });
      await setLevel('baseline');
      await start();
      const run = await start(webhookConfigurations);
      await trustAll();
      await run.pass(10_000);
      const webhooksInForce = () => cluster.store.get('ValidatingWebhookConfiguration', 'portcullis.dev')?.webhooks;
      const policy = (): unknown =>
        webhooksInForce()?.find((one) => one.name === 'validate.pods.portcullis.dev')?.failurePolicy;
      assert.equal(policy(), 'Ignore');
      for (const one of running) await one.stop();
      running = [];
      if (!isTrusted) await trustAll('');
      settings.set({ ...settings.value, floor: { ...settings.value.floor, mode: 'off' } });
      const policies = await start();
      const webhooks = await start(webhookConfigurations);
      const before = names();
      for (let passedMs = 0; passedMs < remainingMs; passedMs += 1_000) {
        assert.deepEqual(names(), before, `${passedMs} ms`);
        await webhooks.pass(1_000);
        await policies.pass(1_000);
      }
      await policies.pass(1_000);
      assert.deepEqual([names(), policy()], [[], isTrusted ? 'Fail' : 'Ignore']);
    });
  }
});
