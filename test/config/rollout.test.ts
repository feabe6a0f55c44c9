import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parseConfiguration } from '../../src/config/configuration.ts';
import { UserError } from '../../src/config/files.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../src/policy/rollout/settings.ts';

function read(text: string): RolloutSettings {
  const head = 'apiVersion: config.portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\n';
  return parseConfiguration({ file: 'c.yaml', text: head + text }, []).rollout;
}

suite('what is said of the rollout', () => {
  const CASES: readonly (readonly [name: string, text: string, expected: Partial<RolloutSettings>])[] = [
    ['nothing', '', {}],
    ['null', 'rollout:\nfeatureGates:\n', {}],
    ['a phase', 'rollout: {phase: Evaluate}\n', { phase: 'Evaluate' }],
    [
      'everything',
      `rollout:
  phase: Enforce
  enforcementDate: 2028-02-29
  evaluationInterval: 30m
  maxEvaluationAge: 1h30m
  recheckBeforeEnforce: false
  inconclusivePolicy: Ignore
  raiseSettleSeconds: 0
  evaluator: DryRun
  clientQPS: 0.5
  clientBurst: 10
featureGates:
  OpenShiftPodSecurityAdmission: false
`,
      {
        phase: 'Enforce',
        enforcementDate: '2028-02-29',
        evaluationIntervalMs: 1_800_000,
        maxEvaluationAgeMs: 5_400_000,
        recheckBeforeEnforce: false,
        inconclusivePolicy: 'Ignore',
        raiseSettleMs: 0,
        evaluator: 'DryRun',
        clientQps: 0.5,
        clientBurst: 10,
        featureGates: new Map([['OpenShiftPodSecurityAdmission', false]]),
      },
    ],
    [
      'exemptions beside it',
      'rollout: {phase: Enforce}\npodSecurity: {exemptions: {namespaces: [a]}}\n',
      { phase: 'Enforce' },
    ],
    [
      'defaults, which count while it is disabled',
      'rollout: {phase: Disabled}\npodSecurity: {defaults: {warn: baseline}}\n',
      {},
    ],
  ];
  for (const [name, text, expected] of CASES) {
    test(name, () => assert.deepEqual(read(text), { ...DEFAULT_ROLLOUT, ...expected }));
  }
});

suite('what cannot be is refused', () => {
  const CASES: readonly (readonly [text: string, message: string])[] = [
    [
      'rollout: {phase: enforce}\n',
      'invalid configuration: rollout.phase: Invalid value: "enforce": must be one of Disabled, Evaluate, Enforce (c.yaml:3:11, rollout.phase)',
    ],
    [
      'rollout: {enforcementDate: 2027-02-29}\n',
      'invalid configuration: rollout.enforcementDate: Invalid value: "2027-02-29": must be a date such as 2027-01-31 (c.yaml:3:11, rollout.enforcementDate)',
    ],
    [
      'rollout: {enforcementDate: soon}\n',
      'invalid configuration: rollout.enforcementDate: Invalid value: "soon": must be a date such as 2027-01-31 (c.yaml:3:11, rollout.enforcementDate)',
    ],
    ['rollout: {fase: Enforce}\n', 'strict decoding error: unknown field "fase" (c.yaml:3:11, rollout.fase)'],
    [
      'rollout: {recheckBeforeEnforce: "yes"}\n',
      'json: cannot unmarshal string into Go struct field RolloutConfiguration.recheckBeforeEnforce of type bool (c.yaml:3:11, rollout.recheckBeforeEnforce)',
    ],
    [
      'rollout: {evaluationInterval: 5s, raiseSettleSeconds: -1, clientQPS: 0}\n',
      `invalid configuration: rollout.evaluationInterval: Invalid value: "5s": must be a duration of at least 1m, such as 4h or 1h30m (c.yaml:3:11, rollout.evaluationInterval)
invalid configuration: rollout.raiseSettleSeconds: Invalid value: -1: must be a number from 0 to 3600 (c.yaml:3:35, rollout.raiseSettleSeconds)
invalid configuration: rollout.clientQPS: Invalid value: 0: must be greater than 0 (c.yaml:3:59, rollout.clientQPS)`,
    ],
    [
      'rollout: {maxEvaluationAge: 1h}\n',
      'invalid configuration: rollout.maxEvaluationAge: must not be less than evaluationInterval, because results would expire before the next evaluation (c.yaml:3:11, rollout.maxEvaluationAge)',
    ],
    [
      'featureGates: {Other: true}\n',
      'unknown feature "Other"; the known features are OpenShiftPodSecurityAdmission (c.yaml:3:16, featureGates.Other)',
    ],
    [
      'featureGates: {OpenShiftPodSecurityAdmission: "true"}\n',
      'must be true or false (c.yaml:3:16, featureGates.OpenShiftPodSecurityAdmission)',
    ],
    [
      'rollout: {phase: Evaluate}\npodSecurity: {defaults: {enforce: baseline}}\n',
      'invalid configuration: podSecurity.defaults and rollout.phase Evaluate exclude each other: the rollout manages the defaults (c.yaml:4:15, podSecurity.defaults)',
    ],
  ];
  for (const [text, message] of CASES) {
    test(text, () => {
      assert.throws(
        () => read(text),
        (error) => {
          assert.ok(error instanceof UserError);
          assert.equal(error.message, message);
          return true;
        },
      );
    });
  }
});
