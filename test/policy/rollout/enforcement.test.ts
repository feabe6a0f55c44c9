import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { withTransitionTimes } from '../../../src/kube/conditions.ts';
import type { FeatureGate } from '../../../src/kube/types.ts';
import type { PSAEnforcementConfig } from '../../../src/kube/psa-enforcement-config.ts';
import {
  currentDefault,
  ENFORCEMENT_GATE,
  enforcementConditions,
  EVALUATION_RESULTS,
  getEvaluationResult,
  forcedWarning,
  isFeatureOn,
  planEnforcement,
  planRaise,
  readEnforcement,
  replicaDefault,
  ROLLOUT_MANAGER,
  wantsEnforcement,
  type EnforcementInput,
  type EnforcementPlan,
} from '../../../src/policy/rollout/enforcement.ts';
import { ROLLOUT_PHASES } from '../../../src/policy/rollout/settings.ts';
import { parsePodSecurity } from '../../../src/config/configuration.ts';
import { buildAdmissionConfiguration, observeDefaults } from '../../../src/policy/rollout/observed-config.ts';

/** No mode is requested, no namespace violates, and the feature gate is on. */
const CLEAN: EnforcementInput = {
  phase: 'Enforce',
  gate: true,
  spec: '',
  status: '',
  evaluation: 'clean',
  isSettled: true,
  currentEnforce: 'privileged',
};

suite('the plan', () => {
  const cases: readonly (readonly [
    name: string,
    given: Partial<EnforcementInput>,
    expected: Partial<EnforcementPlan>,
  ])[] = [
    ['a clean cluster enforces', {}, { status: 'Restricted', enforce: 'restricted', syncer: 'Enforce' }],
    [
      'the default level is raised after all namespaces are labeled',
      { isSettled: false },
      { status: 'Restricted', enforce: 'privileged', syncer: 'Enforce' },
    ],
    [
      'a new namespace does not lower the default',
      { isSettled: false, currentEnforce: 'restricted', status: 'Restricted' },
      { enforce: 'restricted', syncer: 'Enforce' },
    ],
    [
      'later violations do not lower the default',
      { evaluation: 'violations', currentEnforce: 'restricted', status: 'Restricted' },
      { spec: '', status: 'Restricted', enforce: 'restricted' },
    ],
    [
      'an empty mode of another manager is not overwritten and does not enforce',
      { evaluation: 'violations', specOwner: 'others' },
      { spec: '', status: 'Legacy', enforce: 'privileged', syncer: 'Advise' },
    ],
    [
      'an empty mode of another manager is not overwritten in phase Evaluate',
      { phase: 'Evaluate', evaluation: 'violations', specOwner: 'others' },
      { spec: '', status: '', enforce: 'privileged', syncer: 'Advise' },
    ],
    [
      'nothing changes while the gate is unknown',
      { gate: undefined, syncer: 'Advise' },
      { want: undefined, status: 'Restricted', enforce: 'privileged', syncer: 'Advise' },
    ],
    [
      'labels do not change while the gate and the mode of the syncer are unknown',
      { gate: undefined, currentEnforce: 'restricted', status: 'Restricted' },
      { want: undefined, enforce: 'restricted', syncer: 'Hold' },
    ],
    [
      'mode Legacy takes effect while the gate is unknown',
      { gate: undefined, spec: 'Legacy', status: 'Restricted', currentEnforce: 'restricted' },
      { want: false, status: 'Legacy', enforce: 'privileged', syncer: 'Hold' },
    ],
    [
      'an unknown mode changes nothing',
      { spec: 'Privileged', status: 'Restricted', currentEnforce: 'restricted' },
      { spec: 'Privileged', status: 'Restricted', enforce: 'restricted', syncer: 'Enforce' },
    ],
    [
      'an unknown mode is not treated as an empty one',
      { spec: 'Privileged' },
      { spec: 'Privileged', status: '', enforce: 'privileged', syncer: 'Advise' },
    ],
    [
      'the gate takes effect despite an unknown mode',
      { spec: 'Privileged', status: 'Restricted', currentEnforce: 'restricted', gate: false },
      { status: 'Restricted', enforce: 'privileged', syncer: 'Hold' },
    ],
    [
      'any age: later violations do not count',
      { evaluation: 'violations', acceptEvaluations: 'any age' },
      { spec: '', status: 'Restricted' },
    ],
    [
      'any age: stale results count',
      { evaluation: 'stale', acceptEvaluations: 'any age' },
      { spec: '', status: 'Restricted' },
    ],
    [
      'any age: a missing result does not count',
      { evaluation: 'never', acceptEvaluations: 'any age' },
      { spec: '', status: '' },
    ],
  ];
  for (const [name, given, expected] of cases) {
    test(name, () => {
      const plan = planEnforcement({ ...CLEAN, ...given });
      const found = Object.keys(expected).map((key) => [key, plan[key as keyof EnforcementPlan]]);
      assert.deepEqual(Object.fromEntries(found), expected);
    });
  }
});

suite('the ways to end enforcement', () => {
  const ENFORCING: EnforcementInput = { ...CLEAN, status: 'Restricted', currentEnforce: 'restricted' };
  const ways: Readonly<Record<string, Partial<EnforcementInput>>> = {
    'the feature gate': { gate: false },
    'the mode Legacy': { spec: 'Legacy' },
    'the phase': { phase: 'Evaluate' },
  };
  for (const [name, change] of Object.entries(ways)) {
    test(`${name}: the default is lowered, then labels are removed`, () => {
      const lowering = planEnforcement({ ...ENFORCING, ...change });
      assert.deepEqual([lowering.enforce, lowering.syncer], ['privileged', 'Hold']);
      const { spec, status } = lowering;
      const lowered = planEnforcement({ ...ENFORCING, ...change, spec, status, currentEnforce: 'privileged' });
      assert.deepEqual([lowered.enforce, lowered.syncer], ['privileged', 'Advise']);
    });
  }

  test('the decision is kept while the gate is off', () => {
    const off = planEnforcement({ ...ENFORCING, gate: false, evaluation: 'stale' });
    assert.equal(off.status, 'Restricted');
    const on = planEnforcement({ ...ENFORCING, evaluation: 'stale', currentEnforce: 'privileged', isSettled: false });
    assert.deepEqual([on.status, on.enforce, on.syncer], ['Restricted', 'privileged', 'Enforce']);
  });

  test('a replica lowers its default on its own and never raises it', () => {
    for (const want of [true, false, undefined]) {
      assert.equal(replicaDefault({ published: 'privileged', want }), 'privileged');
      assert.equal(replicaDefault({ published: 'restricted', want }), want === false ? 'privileged' : 'restricted');
    }
    assert.equal(wantsEnforcement({ phase: 'Enforce', gate: undefined, spec: '', status: 'Legacy' }), false);
    assert.equal(wantsEnforcement({ phase: 'Enforce', gate: undefined, spec: '', status: 'Restricted' }), undefined);
  });

  test('the default is restricted while any replica runs it', () => {
    assert.equal(currentDefault(['privileged', 'restricted']), 'restricted');
    assert.equal(currentDefault([]), 'privileged');
  });
});

test('in any order of events, the default is lowered before labels are removed and raised after labels are written', () => {
  const change = fc.record(
    {
      phase: fc.constantFrom(...ROLLOUT_PHASES),
      gate: fc.constantFrom(true, false, undefined),
      spec: fc.constantFrom('', 'Restricted', 'Legacy', 'odd'),
      evaluation: fc.constantFrom(...EVALUATION_RESULTS),
      isSettled: fc.boolean(),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(change, fc.boolean()), { maxLength: 20 }), (events) => {
      let input: EnforcementInput = CLEAN;
      for (const [given, arrives] of events) {
        input = { ...input, ...given };
        const before = input.currentEnforce;
        const { spec, status, enforce, syncer } = planEnforcement(input);
        if (syncer === 'Advise') assert.equal(before, 'privileged');
        if (before === 'privileged' && enforce === 'restricted') {
          assert.ok(input.isSettled);
          assert.equal(syncer, 'Enforce');
        }
        // The configuration reaches the replicas later.
        input = { ...input, spec, status, syncer, currentEnforce: arrives ? enforce : before };
      }
    }),
  );
});

suite('conditions', () => {
  interface Given extends Partial<Omit<Parameters<typeof enforcementConditions>[0], 'input' | 'plan'>> {
    readonly input: Partial<EnforcementInput>;
  }
  const conditionsOf = ({ input: given, ...facts }: Given): Readonly<Record<string, readonly string[]>> => {
    const input = { ...CLEAN, ...given };
    const conditions = enforcementConditions({ input, plan: planEnforcement(input), ...facts });
    return Object.fromEntries(conditions.map(({ type, status, reason, message }) => [type, [status, reason, message]]));
  };
  const names = Array.from({ length: 12 }, (_, index) => `n${index + 10}`);
  const cases: readonly (readonly [
    name: string,
    given: Given,
    expected: Readonly<Record<string, readonly string[] | undefined>>,
  ])[] = [
    [
      'a clean cluster before the raise',
      {
        input: { isSettled: false },
        lastEvaluationTime: '2026-01-01T00:00:00Z',
        unlabeled: ['b', 'a'],
      },
      {
        Evaluated: ['True', 'Completed', 'all namespaces were evaluated at 2026-01-01T00:00:00Z'],
        ViolationsDetected: ['False', 'NoViolations', 'no workload would be refused'],
        Enforcing: [
          'False',
          'LabelingNamespaces',
          'the default level is raised after all namespaces are labeled; missing: a, b',
        ],
        Progressing: ['True', 'LabelingNamespaces', 'namespaces are being labeled; missing: a, b'],
        LegacyProposed: undefined,
        SpecInvalid: undefined,
      },
    ],
    [
      'violations',
      { input: { evaluation: 'violations' }, violating: names },
      {
        ViolationsDetected: [
          'True',
          'ViolatingNamespaces',
          'workloads in 12 namespaces would be refused: n10, n11, n12, n13, n14, n15, n16, n17, n18, n19 and 2 more',
        ],
        Enforcing: ['False', 'LegacyMode', 'mode Legacy enforces nothing'],
        LegacyProposed: [
          'True',
          'WrittenByController',
          'workloads would be refused: clear spec.enforcementMode after they are fixed',
        ],
      },
    ],
    [
      'a conflict about an empty mode',
      { input: { evaluation: 'violations', specOwner: 'others' }, violating: ['a'] },
      {
        LegacyProposed: [
          'True',
          'SpecConflict',
          'workloads would be refused, and spec.enforcementMode "" belongs to another field manager',
        ],
        Enforcing: ['False', 'LegacyMode', 'mode Legacy enforces nothing'],
        Progressing: ['False', 'AsExpected', ''],
      },
    ],
    [
      'an unknown mode',
      { input: { spec: 'Privileged' } },
      {
        SpecInvalid: [
          'True',
          'UnknownEnforcementMode',
          'spec.enforcementMode: "Privileged" is not one of "", "Restricted", "Legacy"; the state is not changed',
        ],
      },
    ],
    [
      'an evaluation that never ran',
      { input: { evaluation: 'never' } },
      {
        Evaluated: ['False', 'NeverRan', 'no evaluation has been completed yet'],
        ViolationsDetected: ['Unknown', 'NeverRan', 'no evaluation has been completed yet'],
        Progressing: ['True', 'EvaluationPending', 'the decision waits for an evaluation of all namespaces'],
      },
    ],
    [
      'labels that are being removed',
      { input: { spec: 'Legacy', status: 'Legacy' }, unreleased: ['a'] },
      { Progressing: ['True', 'ReleasingLabels', 'enforce labels are being removed from a'] },
    ],
    [
      'the gate is unknown',
      { input: { gate: undefined } },
      { Enforcing: ['Unknown', 'FeatureGateNotObserved', 'the state of the feature gate is unknown'] },
    ],
  ];
  for (const [name, given, expected] of cases) {
    test(name, () => {
      const found = conditionsOf(given);
      assert.deepEqual(Object.fromEntries(Object.keys(expected).map((type) => [type, found[type]])), expected);
    });
  }

  test('keep their transition time while the status does not change', () => {
    const state = { type: 'A', status: 'True', reason: 'B', message: '' } as const;
    const before = withTransitionTimes([state, { ...state, type: 'Gone' }], [], '2026-01-01T00:00:00Z');
    const later = '2026-01-02T00:00:00Z';
    assert.deepEqual(withTransitionTimes([{ ...state, reason: 'C' }], before, later), [
      { ...state, reason: 'C', lastTransitionTime: '2026-01-01T00:00:00Z' },
    ]);
    const changed = { ...state, status: 'False' } as const;
    assert.deepEqual(withTransitionTimes([changed], before, later), [{ ...changed, lastTransitionTime: later }]);
  });
});

suite('the feature gate', () => {
  const name = ENFORCEMENT_GATE;
  const ours = { version: '1', enabled: [{ name }] };
  const custom = (lists: object): FeatureGate => ({ spec: { featureSet: 'CustomNoUpgrade', customNoUpgrade: lists } });
  const cases: readonly (readonly [what: string, object: FeatureGate | undefined, expected: boolean | 'fallback'])[] = [
    ['no object', undefined, 'fallback'],
    ['an empty object', {}, 'fallback'],
    ['on for this version', { status: { featureGates: [ours] } }, true],
    [
      'off for this version despite the feature set',
      { ...custom({ enabled: [name] }), status: { featureGates: [{ version: '1', disabled: [{ name }] }] } },
      false,
    ],
    ['on for another version', { status: { featureGates: [{ ...ours, version: '2' }] } }, 'fallback'],
    [
      'not listed for this version',
      { status: { featureGates: [{ version: '1', enabled: [{ name: 'Other' }] }] } },
      'fallback',
    ],
    ['on by the custom list', custom({ enabled: [name] }), true],
    ['off by the custom list', custom({ disabled: [name] }), false],
    ['off if it is in both lists', custom({ enabled: [name], disabled: [name] }), false],
    [
      'a custom list of another feature set',
      { spec: { featureSet: 'OKD', customNoUpgrade: { enabled: [name] } } },
      'fallback',
    ],
    ['a preview', { spec: { featureSet: 'TechPreviewNoUpgrade' } }, true],
    ['another preview', { spec: { featureSet: 'DevPreviewNoUpgrade' } }, true],
  ];
  for (const [what, object, expected] of cases) {
    test(what, () => {
      for (const fallback of [true, false]) {
        const found = isFeatureOn(object, { name, version: '1', fallback });
        assert.equal(found, expected === 'fallback' ? fallback : expected);
      }
    });
  }
});

suite('the result of the evaluation', () => {
  const HOUR = 3_600_000;
  const nowMs = Date.parse('2026-01-01T12:00:00Z');
  const time = (hoursAgo: number): string => new Date(nowMs - hoursAgo * HOUR).toISOString();
  const entry = { name: 'a', state: 'Current' } as const;
  const cases: readonly {
    readonly name: string;
    readonly status?: PSAEnforcementConfig['status'];
    readonly newest?: { readonly hoursAgo: number; readonly violating: number; readonly inconclusive: number };
    readonly policy?: 'Ignore';
    readonly expected: string;
  }[] = [
    { name: 'nothing', expected: 'never' },
    { name: 'without a time', status: { violatingNamespaces: [entry] }, expected: 'never' },
    { name: 'with an invalid time', status: { lastEvaluationTime: 'yesterday' }, expected: 'never' },
    { name: 'clean', status: { lastEvaluationTime: time(1) }, expected: 'clean' },
    {
      name: 'only earlier violations',
      status: { lastEvaluationTime: time(1), violatingNamespaces: [{ ...entry, state: 'Previous' }] },
      expected: 'clean',
    },
    { name: 'old', status: { lastEvaluationTime: time(9) }, expected: 'stale' },
    { name: 'with a time in the future', status: { lastEvaluationTime: time(-9) }, expected: 'stale' },
    {
      name: 'violations',
      status: { lastEvaluationTime: time(1), violatingNamespaces: [entry] },
      expected: 'violations',
    },
    {
      name: 'old violations',
      status: { lastEvaluationTime: time(9), violatingNamespaces: [entry] },
      expected: 'stale',
    },
    {
      name: 'violations and inconclusive namespaces',
      newest: { hoursAgo: 0, violating: 1, inconclusive: 1 },
      expected: 'violations',
    },
    {
      name: 'inconclusive after a clean one',
      status: { lastEvaluationTime: time(1) },
      newest: { hoursAgo: 0, violating: 0, inconclusive: 1 },
      expected: 'inconclusive',
    },
    {
      name: 'inconclusive with policy Ignore',
      status: { lastEvaluationTime: time(1) },
      newest: { hoursAgo: 0, violating: 0, inconclusive: 1 },
      policy: 'Ignore',
      expected: 'clean',
    },
    {
      name: 'inconclusive before a restart',
      status: {
        lastEvaluationTime: time(1),
        conditions: [
          { type: 'Evaluated', status: 'False', reason: 'Inconclusive', message: '', lastTransitionTime: '' },
        ],
      },
      expected: 'inconclusive',
    },
    {
      name: 'inconclusive with stored violations',
      status: { lastEvaluationTime: time(1), violatingNamespaces: [entry] },
      newest: { hoursAgo: 0, violating: 0, inconclusive: 1 },
      expected: 'violations',
    },
  ];
  for (const { name, status, newest, policy = 'Block', expected } of cases) {
    test(name, () => {
      const sweep = newest && { ...newest, endMs: nowMs - newest.hoursAgo * HOUR };
      const given = { status, newest: sweep, nowMs, maxAgeMs: 8 * HOUR, inconclusivePolicy: policy } as const;
      assert.equal(getEvaluationResult(given), expected);
    });
  }
});

suite('the raise of the default', () => {
  const cases: readonly (readonly [string, Partial<Parameters<typeof planRaise>[0]>, ReturnType<typeof planRaise>])[] =
    [
      ['a label is missing', {}, { isSettled: false }],
      ['labels are present', { labeledSinceMs: 970_000 }, { isSettled: true }],
      ['labels have not settled', { labeledSinceMs: 990_000 }, { isSettled: false, waitMs: 20_000 }],
      ['the decision is too recent', { labeledSinceMs: 0, decidedAtMs: 980_000 }, { isSettled: false, waitMs: 10_000 }],
      [
        'the last raise is too recent',
        { labeledSinceMs: 0, lastRaiseMs: 800_000 },
        { isSettled: false, waitMs: 100_000 },
      ],
      ['the last raise is long ago', { labeledSinceMs: 0, lastRaiseMs: 700_000 }, { isSettled: true }],
    ];
  for (const [name, given, expected] of cases) {
    test(name, () => assert.deepEqual(planRaise({ nowMs: 1_000_000, settleMs: 30_000, ...given }), expected));
  }
});

suite('the configuration object', () => {
  const ownedBy = (...managers: readonly string[]): PSAEnforcementConfig => ({
    metadata: {
      managedFields: managers.map((manager) => ({ manager, fieldsV1: { 'f:spec': { 'f:enforcementMode': {} } } })),
    },
    spec: { enforcementMode: '' },
  });
  const cases: readonly (readonly [string, PSAEnforcementConfig | undefined, ReturnType<typeof readEnforcement>])[] = [
    ['missing', undefined, { spec: '', status: '', specOwner: undefined }],
    ['empty', { spec: null }, { spec: '', status: '', specOwner: undefined }],
    [
      'an unknown status',
      { status: { enforcementMode: 'Progressing' } },
      { spec: '', status: '', specOwner: undefined },
    ],
    ['owned by the rollout', ownedBy(ROLLOUT_MANAGER), { spec: '', status: '', specOwner: 'rollout' }],
    ['co-owned by another manager', ownedBy(ROLLOUT_MANAGER, 'gitops'), { spec: '', status: '', specOwner: 'others' }],
    [
      'others own something else',
      { metadata: { managedFields: [{ manager: 'gitops', fieldsV1: { 'f:spec': {} } }, { manager: 'odd' }] } },
      { spec: '', status: '', specOwner: undefined },
    ],
  ];
  for (const [name, config, expected] of cases) {
    test(name, () => assert.deepEqual(readEnforcement(config), expected));
  }

  test('a request of Restricted with violations is warned about', () => {
    const status = {
      violatingNamespaces: [{ name: 'b' }, { name: 'a', state: 'Current' }, { name: 'c', state: 'Previous' }],
    } as const;
    const forced: PSAEnforcementConfig = { spec: { enforcementMode: 'Restricted' }, status };
    const before: PSAEnforcementConfig = { spec: { enforcementMode: 'Legacy' }, status };
    assert.equal(
      forcedWarning(forced, before),
      'spec.enforcementMode: Restricted enforces at once, although workloads in 2 namespaces would be refused: a, b',
    );
    assert.equal(forcedWarning(forced, forced), undefined);
    assert.equal(forcedWarning(before, forced), undefined);
    assert.equal(forcedWarning({ spec: { enforcementMode: 'Restricted' } }, undefined), undefined);
  });
});

const ADVICE = {
  'enforce-version': 'latest',
  audit: 'restricted',
  'audit-version': 'latest',
  warn: 'restricted',
  'warn-version': 'latest',
};
const RESTRICTED = observeDefaults({ want: true, enforce: 'restricted' });
const EXEMPTIONS = { usernames: ['system:serviceaccount:builds:builder'], namespaces: [], runtimeClasses: ['kata'] };

suite('the observed defaults', () => {
  const cases = [
    ['are raised', { want: true, enforce: 'restricted' }, undefined, 'restricted'],
    ['are lowered', { want: false, enforce: 'privileged' }, RESTRICTED, 'privileged'],
    ['are kept while enforcement is unknown', { want: undefined, enforce: 'privileged' }, RESTRICTED, 'restricted'],
    ['enforce nothing without previous ones', { want: undefined, enforce: 'privileged' }, undefined, 'privileged'],
  ] as const;
  for (const [name, plan, before, enforce] of cases) {
    test(name, () => assert.deepEqual(observeDefaults(plan, before), { enforce, ...ADVICE }));
  }
});

suite('the configuration for an API server', () => {
  test('is valid, and contains the exemptions', () => {
    const document = buildAdmissionConfiguration(RESTRICTED, EXEMPTIONS);
    const { defaults, exemptions } = parsePodSecurity({ file: 'config.json', text: JSON.stringify(document) });
    assert.deepEqual(defaults.enforce, { level: 'restricted', version: 'latest' });
    assert.ok(exemptions.runtimeClass('kata') && exemptions.user('system:serviceaccount:builds:builder'));
  });

  test('is invalid without defaults', () => {
    assert.throws(
      () => parsePodSecurity({ file: 'config.json', text: JSON.stringify(buildAdmissionConfiguration({})) }),
      /^UserError: configuration error: enforce: must be one of privileged, baseline, restricted/,
    );
  });
});
