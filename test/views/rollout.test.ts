/** Tests the default level that a replica derives from its store. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../src/policy/rollout/index.ts';
import { getRolloutView } from '../../src/views/rollout.ts';
import { GATE_OFF } from '../support/feature-gate.ts';

const NAMESPACE = 'portcullis';

interface Seen {
  readonly phase?: RolloutSettings['phase'];
  readonly gate?: boolean;
  readonly spec?: string;
  readonly status?: string;
  readonly published?: string;
}

function enforcedBy({
  phase = 'Enforce',
  gate = true,
  spec = '',
  status = 'Restricted',
  published = 'restricted',
}: Seen) {
  const store = createStore();
  store.put('PSAEnforcementConfig', {
    metadata: { name: 'cluster' },
    spec: { enforcementMode: spec },
    status: { enforcementMode: status },
  });
  const annotations = { 'portcullis.dev/pod-security-default': published };
  store.put('ConfigMap', { metadata: { name: 'portcullis-pod-security', namespace: NAMESPACE, annotations } });
  if (!gate) store.put('FeatureGate', GATE_OFF);
  return getRolloutView({ store, namespace: NAMESPACE, version: '0.0.0' }, { ...DEFAULT_ROLLOUT, phase }).enforce;
}

suite('the default level of a replica', () => {
  const CASES: readonly (readonly [name: string, seen: Seen, expected: string])[] = [
    ['is the published level', {}, 'restricted'],
    ['is not raised by the replica itself', { published: 'privileged' }, 'privileged'],
    ['is privileged for an invalid published level', { published: 'highest' }, 'privileged'],
    ['is lowered if the feature gate is off', { gate: false }, 'privileged'],
    ['is lowered in the Evaluate phase', { phase: 'Evaluate' }, 'privileged'],
    ['is lowered if the leader has decided on Legacy mode', { status: 'Legacy' }, 'privileged'],
    ['is lowered if Legacy mode is requested and no leader has decided yet', { spec: 'Legacy' }, 'privileged'],
    ['is not lowered by an invalid mode', { spec: 'Privileged' }, 'restricted'],
  ];
  for (const [name, seen, expected] of CASES) {
    test(name, () => assert.equal(enforcedBy(seen), expected));
  }
});
