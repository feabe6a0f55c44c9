/** Tests when the settings are reported as ready. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { DEFAULTS_KINDS } from '../../src/api/admission-policies.ts';
import { INSTALLATION } from '../../src/api/names.ts';
import { createObservable, type Settings, type SettingsStatus } from '../../src/config/settings.ts';
import { admissionPolicies } from '../../src/controllers/admission-policies.ts';
import { settingsStatus } from '../../src/controllers/settings-status.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import type { RolloutPhase } from '../../src/policy/rollout/index.ts';
import type { SccMode } from '../../src/policy/scc/index.ts';
import { createController, createTestSettings, installCrds, runControllers } from '../support/controllers.ts';
import { startEmptyCluster } from '../support/dev-cluster.ts';

const BY_TEST = { fieldManager: 'test' };
const { namespace } = INSTALLATION;

/** Changes to the state of a cluster with two replicas. Without changes, everything is in force. */
interface State {
  readonly scc?: SccMode;
  readonly phase?: RolloutPhase;
  readonly disabled?: readonly string[];
  readonly guard?: Settings['guard']['labels'];
  readonly floor?: Settings['floor']['mode'];
  readonly defaults?: Settings['defaults']['mode'];
  /** Kinds that API servers do not serve. */
  readonly unserved?: readonly Kind[];
  /** Name of a webhook that is registered. */
  readonly webhook?: string;
  /** Time since the leader has started. */
  readonly afterMs?: number;
  /** The generation that the second replica applies. */
  readonly second?: number;
  readonly settings?: Partial<SettingsStatus>;
  readonly spec?: JsonObject;
  /** Annotations of the webhook configurations. */
  readonly webhooks?: Readonly<Record<string, string>>;
  /** The Ready condition of the PSAEnforcementConfig. */
  readonly rollout?: readonly [status: 'True' | 'False', reason: string];
}

const REGISTERED = { 'portcullis.dev/registered-scc-mode': 'enforce' };
const BREAK_GLASS = { 'portcullis.dev/break-glass-since': '2026-11-30T00:00:00Z' };
const WEBHOOK = { admissionReviewVersions: ['v1'], sideEffects: 'None', clientConfig: { url: 'https://127.0.0.1:1' } };
const IN_FORCE = 'Ready=True InForce: all replicas enforce these settings';
const NOT_REPORTED = 'the leader has not reported the state of the rollout yet';
const unready = (type: 'Reconciling' | 'Stalled', text: string) => `Ready=False ${text}; ${type}=True ${text}`;

const cases: readonly (readonly [name: string, state: State, expected: string])[] = [
  ['everything is in force', {}, IN_FORCE],
  [
    'the settings are invalid',
    { settings: { generation: 0, problem: 'spec.scc.mode: Unsupported value' } },
    unready('Stalled', 'Invalid: spec.scc.mode: Unsupported value'),
  ],
  [
    'the leader has not read the settings yet',
    { settings: { generation: 0 } },
    unready('Reconciling', 'NotInForce: the leader applies the default settings'),
  ],
  [
    'another replica has not applied the settings',
    { second: 0 },
    unready('Reconciling', 'Progressing: these replicas have not applied the settings yet: b'),
  ],
  [
    'a feature in the settings is not installed',
    { spec: { olm: {} } },
    unready(
      'Stalled',
      'FeatureNotInstalled: spec.olm has no effect, because the olm feature is not installed: set spec.olm to null, or install the feature with portcullis install --olm',
    ),
  ],
  [
    'break-glass is on',
    { webhooks: BREAK_GLASS },
    unready(
      'Stalled',
      'BreakGlass: break-glass is on, so nothing is enforced. To turn it off: portcullis break-glass off',
    ),
  ],
  [
    'API servers do not call the webhook that defaults pods',
    { scc: 'enforce', webhooks: { 'portcullis.dev/registered-scc-mode': 'report' } },
    unready(
      'Reconciling',
      'WebhookNotRegistered: SCCs are enforced once API servers call the webhook that defaults pods',
    ),
  ],
  [
    'API servers may not have observed the guard yet',
    { guard: 'enforce', afterMs: 4_000 },
    unready('Reconciling', 'PoliciesNotObserved: API servers have not observed the policies of spec.guard yet'),
  ],
  ['API servers have observed the guard', { guard: 'enforce', afterMs: 5_000 }, IN_FORCE],
  [
    'API servers may not have observed the floor yet',
    { floor: 'enforce', afterMs: 4_000 },
    unready('Reconciling', 'PoliciesNotObserved: API servers have not observed the policies of spec.floor yet'),
  ],
  ['API servers have observed the floor', { floor: 'enforce', afterMs: 5_000 }, IN_FORCE],
  [
    'neither a policy nor a webhook defaults pods',
    { defaults: 'apply', unserved: DEFAULTS_KINDS, afterMs: 9_000 },
    unready('Reconciling', 'PoliciesNotObserved: API servers have not observed the policies of spec.defaults yet'),
  ],
  [
    'API servers may not have observed the policy that defaults pods yet',
    { defaults: 'apply', afterMs: 4_000 },
    unready('Reconciling', 'PoliciesNotObserved: API servers have not observed the policies of spec.defaults yet'),
  ],
  ['API servers have observed the policy that defaults pods', { defaults: 'apply', afterMs: 5_000 }, IN_FORCE],
  [
    'API servers call the webhook that defaults pods',
    { defaults: 'apply', unserved: DEFAULTS_KINDS, webhook: 'defaults.mutate.pods.portcullis.dev', afterMs: 5_000 },
    IN_FORCE,
  ],
  ['SCCs are enforced', { scc: 'enforce', webhooks: REGISTERED }, IN_FORCE],
  [
    'the rollout has not been reported',
    { phase: 'Evaluate' },
    unready('Reconciling', `RolloutProgressing: ${NOT_REPORTED}`),
  ],
  [
    'the rollout was reported for the previous phase',
    { phase: 'Enforce', rollout: ['True', 'Evaluated'] },
    unready('Reconciling', 'RolloutProgressing: the Enforce phase has not started yet'),
  ],
  [
    'the rollout is in progress',
    { phase: 'Enforce', rollout: ['False', 'LabelingNamespaces'] },
    unready('Reconciling', 'RolloutProgressing: of the rollout'),
  ],
  ['the rollout enforces the default level', { phase: 'Enforce', rollout: ['True', 'Enforcing'] }, IN_FORCE],
  ['only a user can continue the rollout', { phase: 'Enforce', rollout: ['True', 'LegacyMode'] }, IN_FORCE],
  ['no controller runs the rollout', { phase: 'Enforce', disabled: ['PodSecurityReadinessController'] }, IN_FORCE],
];

suite('the Ready condition of the settings has the expected status and reason if', () => {
  for (const [name, state, expected] of cases) {
    test(name, async () => {
      const started = await startEmptyCluster();
      const { cluster } = started;
      await installCrds(cluster);
      await cluster.create('Namespace', { metadata: { name: namespace } }, BY_TEST);
      const { scc = 'off', phase = 'Disabled', disabled = [], second = 1, spec = {}, webhooks = {} } = state;
      const { guard = 'off', floor = 'off', defaults = 'off', unserved = [], webhook, afterMs = 0 } = state;
      await cluster.create('PortcullisConfiguration', { metadata: { name: 'cluster' }, spec }, BY_TEST);
      await cluster.create(
        'ValidatingWebhookConfiguration',
        { metadata: { name: 'portcullis.dev', annotations: webhooks } },
        BY_TEST,
      );
      await cluster.create(
        'MutatingWebhookConfiguration',
        {
          metadata: { name: 'zz.portcullis.dev' },
          webhooks: webhook === undefined ? [] : [{ ...WEBHOOK, name: webhook }],
        },
        BY_TEST,
      );
      if (state.rollout) {
        const [status, reason] = state.rollout;
        const condition = {
          type: 'Ready',
          status,
          reason,
          message: 'of the rollout',
          lastTransitionTime: '2026-11-30T00:00:00Z',
        };
        const metadata = { name: 'cluster' };
        await cluster.create('PSAEnforcementConfig', { metadata, spec: {} }, BY_TEST);
        await cluster.applyStatus('PSAEnforcementConfig', { metadata, status: { conditions: [condition] } }, BY_TEST);
      }
      for (const [replica, generation] of Object.entries({ a: 1, b: second })) {
        const labels = { 'app.kubernetes.io/component': 'replica' };
        const annotations = { 'portcullis.dev/settings-generation': String(generation) };
        const lease = {
          metadata: { name: replica, namespace, labels, annotations },
          spec: { leaseDurationSeconds: 60 },
        };
        await cluster.create('Lease', lease, BY_TEST);
      }
      const { value } = createTestSettings({ phase });
      const context = {
        settings: createObservable<Settings>({
          ...value,
          scc: { ...value.scc, mode: scc },
          disabledControllers: disabled,
          guard: { labels: guard },
          floor: { mode: floor },
          defaults: { ...value.defaults, mode: defaults },
        }),
        settingsStatus: () => ({ generation: 1, spec: {}, ...state.settings }),
        features: { scc: true, kubelet: false, olm: false },
      };
      const controllers = [admissionPolicies, settingsStatus].map((definition) =>
        createController(definition, context),
      );
      const serves = (kind: Kind): boolean => !unserved.includes(kind) && cluster.serves(kind);
      const running = runControllers(controllers, { ...cluster, serves });
      try {
        await running.idle();
        for (let ms = 0; ms < afterMs; ms += 1_000) await running.pass(1_000);
        const { conditions = [], replicas } = cluster.store.get('PortcullisConfiguration', 'cluster')?.status ?? {};
        const found = (conditions ?? []).filter(({ type }) => ['Ready', 'Reconciling', 'Stalled'].includes(type));
        const texts = found.map((one) => `${one.type}=${one.status} ${one.reason}: ${one.message}`);
        assert.equal(texts.join('; '), expected);
        assert.deepEqual(replicas, [
          { name: 'a', generation: 1 },
          { name: 'b', generation: second },
        ]);
        assert.deepEqual(
          found.map(({ observedGeneration }) => observedGeneration),
          found.map(() => 1),
        );
      } finally {
        await running.stop();
        await started.stop();
      }
    });
  }
});
