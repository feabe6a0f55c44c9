/**
 * Tests the inputs and the conditions of enforcement, in addition to the recorded state table. The cases are in
 * `test/fixtures/rollout/enforcement.yaml`.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parsePodSecurity } from '../../../src/config/configuration.ts';
import { type ConditionState, withTransitionTimes } from '../../../src/kube/conditions.ts';
import type { PSAEnforcementConfig } from '../../../src/kube/psa-enforcement-config.ts';
import type { FeatureGate } from '../../../src/kube/types.ts';
import {
  enforcementConditions,
  findPendingPhase,
  phaseConditions,
} from '../../../src/policy/rollout/enforcement-conditions.ts';
import {
  areAllRaised,
  defaultInForce,
  type EnforcementInput,
  type EvaluationResult,
  forcedWarning,
  getEvaluationResult,
  planEnforcement,
  planRaise,
  readEnforcement,
  buildAdmissionConfiguration,
  podSecurityDefaultsFor,
  ENFORCEMENT_GATE,
  isFeatureOn,
} from '../../../src/policy/rollout/enforcement.ts';
import { type RolloutPhase } from '../../../src/policy/rollout/settings.ts';
import { readFixture } from '../../support/fixtures.ts';

/** No mode is requested, no namespace has violations, and the feature gate is on. */
const CLEAN: EnforcementInput = {
  phase: 'Enforce',
  gate: true,
  spec: '',
  status: '',
  evaluation: 'clean',
  isSettled: true,
  currentEnforce: 'privileged',
};

type Json = Readonly<Record<string, unknown>>;
type Case<Expected = Json> = { readonly name: string; readonly expected: Expected };

/** Returns the members of the first object whose keys the second object contains. Absent members are `null`. */
function membersIn(found: object, expected: Json): Json {
  return Object.fromEntries(Object.keys(expected).map((key) => [key, (found as Json)[key] ?? null]));
}

const CASES = readFixture<{
  readonly conditions: readonly (Case &
    Omit<Parameters<typeof enforcementConditions>[0], 'input' | 'plan'> & { readonly input: Json })[];
  readonly featureGate: readonly (Case<boolean | 'fallback'> & { readonly object?: FeatureGate })[];
  readonly evaluationResult: readonly (Case<string> & {
    readonly status?: PSAEnforcementConfig['status'];
    readonly newest?: { readonly violating: number; readonly inconclusive: number };
  })[];
  readonly raise: readonly (Case & { readonly given: Partial<Parameters<typeof planRaise>[0]> })[];
  readonly configurationObject: readonly (Case & { readonly object?: PSAEnforcementConfig })[];
}>('rollout/enforcement.yaml');

test('the default level is in effect while any replica may apply it', () => {
  const raised = { level: 'restricted', generation: 2 } as const;
  const lowered = { level: 'privileged', generation: 3 } as const;
  assert.equal(defaultInForce(lowered, [lowered, raised], true), 'restricted');
  assert.equal(defaultInForce(lowered, [{ ...lowered, generation: 2 }], true), 'restricted');
  assert.equal(defaultInForce({ level: 'privileged', generation: 0 }, [], true), 'restricted');
  assert.equal(defaultInForce(lowered, [lowered], true), 'privileged');
  assert.equal(defaultInForce(lowered, [raised], false), 'privileged');
  assert.deepEqual([areAllRaised(raised, [raised]), areAllRaised(raised, [])], [true, false]);
});

suite('the conditions of the PSAEnforcementConfig state why the default level is or is not enforced:', () => {
  for (const { name, input: given, expected, ...facts } of CASES.conditions) {
    test(name, () => {
      const input: EnforcementInput = { ...CLEAN, ...given };
      const found = enforcementConditions({ input, plan: planEnforcement(input), ...facts });
      const printed = found.map(({ type, status, reason, message }) => [type, `${status} ${reason}: ${message}`]);
      assert.deepEqual(membersIn(Object.fromEntries(printed) as Json, expected), expected);
    });
  }

  test('a condition keeps its transition time until its status changes', () => {
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

suite('isFeatureOn returns whether the FeatureGate enables the feature:', () => {
  for (const { name, object, expected } of CASES.featureGate) {
    test(name, () => {
      for (const fallback of [true, false]) {
        const found = isFeatureOn(object, { name: ENFORCEMENT_GATE, version: '1', fallback });
        assert.equal(found, expected === 'fallback' ? fallback : expected);
      }
    });
  }
});

suite('getEvaluationResult returns the newest results:', () => {
  const nowMs = Date.parse('2026-01-01T12:00:00Z');
  for (const { name, status, newest, expected } of CASES.evaluationResult) {
    test(name, () => {
      const sweep = newest && { ...newest, endMs: nowMs };
      const given = { status, newest: sweep, nowMs, maxAgeMs: 8 * 3_600_000 } as const;
      assert.equal(getEvaluationResult(given), expected);
    });
  }
});

suite('planRaise returns when the default level may be raised:', () => {
  for (const { name, given, expected } of CASES.raise) {
    test(name, () => assert.deepEqual(planRaise({ nowMs: 1_000_000, settleMs: 30_000, ...given }), expected));
  }
});

suite('readEnforcement returns the mode of the PSAEnforcementConfig:', () => {
  for (const { name, object, expected } of CASES.configurationObject) {
    test(name, () =>
      assert.deepEqual(readEnforcement(object), { spec: '', status: '', specOwner: undefined, ...expected }),
    );
  }

  test('a request for Restricted mode causes a warning if there are violations', () => {
    const status = {
      violatingNamespaces: [{ name: 'b' }, { name: 'a', state: 'Current' }, { name: 'c', state: 'Previous' }],
    } as const;
    const forced: PSAEnforcementConfig = { spec: { enforcementMode: 'Restricted' }, status };
    const before: PSAEnforcementConfig = { spec: { enforcementMode: 'Legacy' }, status };
    assert.equal(
      forcedWarning(forced, before),
      'spec.enforcementMode: Restricted is enforced immediately although workloads in 2 namespaces would be denied: a, b',
    );
    assert.equal(forcedWarning(forced, forced), undefined);
    assert.equal(forcedWarning(before, forced), undefined);
    assert.equal(forcedWarning({ spec: { enforcementMode: 'Restricted' } }, undefined), undefined);
  });
});

const RESTRICTED = podSecurityDefaultsFor('restricted');
const EXEMPTIONS = { usernames: ['system:serviceaccount:builds:builder'], namespaces: [], runtimeClasses: ['kata'] };

test('the admission configuration for API servers is valid, and contains the exemptions', () => {
  const document = buildAdmissionConfiguration(RESTRICTED, EXEMPTIONS);
  const { defaults, exemptions } = parsePodSecurity({ file: 'config.json', text: JSON.stringify(document) });
  assert.deepEqual(defaults.enforce, { level: 'restricted', version: 'latest' });
  assert.ok(exemptions.runtimeClass('kata') && exemptions.user('system:serviceaccount:builds:builder'));
});

suite('the conditions state whether the cluster has reached the phase:', () => {
  const state = (text: string): ConditionState => {
    const [, type = '', status, reason = ''] = /^(\w+)=(\w+) (\w+)$/.exec(text) ?? [];
    return { type, status: status === 'True' ? 'True' : 'False', reason, message: 'm' };
  };
  const [idle, waiting] = ['Progressing=False AsExpected', 'Progressing=True EvaluationPending'];
  const cases: readonly (readonly [
    phase: RolloutPhase,
    evaluation: EvaluationResult,
    states: readonly string[],
    expected: string,
  ])[] = [
    ['Disabled', 'never', [idle], 'Ready=True Disabled'],
    ['Disabled', 'never', ['Progressing=True ReleasingLabels'], 'Reconciling=True ReleasingLabels'],
    ['Evaluate', 'never', [idle], 'Reconciling=True NeverRan'],
    ['Evaluate', 'stale', [idle], 'Reconciling=True Stale'],
    ['Evaluate', 'inconclusive', [idle], 'Reconciling=True Inconclusive'],
    ['Evaluate', 'violations', [idle], 'Ready=True Evaluated'],
    ['Evaluate', 'clean', ['Progressing=True RevertingConfiguration'], 'Reconciling=True RevertingConfiguration'],
    ['Enforce', 'inconclusive', [waiting, 'Enforcing=False AwaitingEvaluation'], 'Reconciling=True EvaluationPending'],
    ['Enforce', 'violations', [idle, 'Enforcing=False AwaitingEvaluation'], 'Reconciling=True AwaitingEvaluation'],
    ['Enforce', 'violations', [idle, 'Enforcing=False LegacyMode'], 'Ready=True LegacyMode'],
    ['Enforce', 'clean', [idle, 'Enforcing=False FeatureGateDisabled'], 'Ready=True FeatureGateDisabled'],
    ['Enforce', 'clean', [idle, 'Enforcing=True Restricted'], 'Ready=True Enforcing'],
    ['Enforce', 'clean', [idle, 'SpecInvalid=True UnknownEnforcementMode'], 'Stalled=True UnknownEnforcementMode'],
  ];
  for (const [phase, evaluation, states, expected] of cases) {
    test(`${phase}, ${evaluation}: ${states.join(', ')}`, () => {
      const input = { phase, evaluation, spec: '', status: '', states: states.map(state) } as const;
      const found = phaseConditions({ ...input, generation: 2, decidedGeneration: 2 });
      const last = found.filter(({ type }) => type !== 'Upgradeable').at(-1);
      assert.equal(last && `${last.type}=${last.status} ${last.reason}`, expected);
      assert.equal(found[0]?.observedGeneration, 2);
    });
  }

  test('findPendingPhase returns a message until the conditions report the current phase', () => {
    const condition = { type: 'Ready', status: 'True', message: '', lastTransitionTime: '' } as const;
    const find = (reason: string, phase: RolloutPhase) => findPendingPhase([{ ...condition, reason }], phase)?.message;
    assert.equal(find('Evaluated', 'Evaluate'), undefined);
    assert.equal(find('Evaluated', 'Enforce'), 'the Enforce phase has not started yet');
    assert.equal(find('LegacyMode', 'Enforce'), undefined);
    assert.equal(findPendingPhase([], 'Enforce')?.message, 'the leader has not reported the state of the rollout yet');
  });
});
