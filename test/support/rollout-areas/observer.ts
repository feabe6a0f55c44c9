import assert from 'node:assert/strict';
import type { JsonObject } from '../../../src/kube/types.ts';
import { observeDefaults } from '../../../src/policy/rollout/observed-config.ts';
import { planEnforcement } from '../../../src/policy/rollout/enforcement.ts';
import { area, type RolloutArea } from './area.ts';

interface GateCase {
  readonly existingDefaults: JsonObject;
  readonly gatesObserved: boolean;
  readonly gate?: 'enabled' | 'disabled';
  readonly gateError?: string;
}

interface GateExpect {
  readonly error: boolean;
  readonly defaults: JsonObject;
}

export const OBSERVER_AREAS: Readonly<Record<string, RolloutArea>> = {
  'observer/gate-only': area<GateCase, GateExpect>('planEnforcement, observeDefaults', (given, expect) => {
    const { existingDefaults, gatesObserved, gate, gateError } = given;
    const isKnown = gatesObserved && gateError === undefined;
    const plan = planEnforcement({
      phase: 'Disabled',
      gate: isKnown ? gate === 'enabled' : undefined,
      spec: '',
      status: '',
      evaluation: 'never',
      // Upstream does not wait for labels.
      isSettled: true,
      currentEnforce: existingDefaults['enforce'] === 'restricted' ? 'restricted' : 'privileged',
    });
    assert.deepEqual(
      { defaults: observeDefaults(plan, existingDefaults), error: gateError !== undefined },
      { defaults: expect.defaults, error: expect.error },
    );
  }),
};
