import assert from 'node:assert/strict';
import type { JsonObject } from '../../../src/kube/types.ts';
import { observeConfig, podSecurityDefaults } from '../../../src/policy/rollout/observed-config.ts';
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

function configWith(defaults: JsonObject): JsonObject {
  return { admission: { pluginConfig: { PodSecurity: { configuration: { defaults } } } } };
}

export const OBSERVER_AREAS: Readonly<Record<string, RolloutArea>> = {
  'observer/gate-only': area<GateCase, GateExpect>('planEnforcement, observeConfig', (given, expect) => {
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
    const state = { plan, exemptions: { usernames: [], namespaces: [], runtimeClasses: [] }, error: gateError };
    const { config, errors } = observeConfig(state, configWith(existingDefaults), [podSecurityDefaults]);
    assert.deepEqual(
      { config, error: errors.length > 0 },
      { config: configWith(expect.defaults), error: expect.error },
    );
  }),
};
