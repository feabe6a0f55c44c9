/** What a replica holds namespaces to, by what it sees itself. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { getRolloutView } from '../../src/cluster/rollout.ts';
import { createStore } from '../../src/cluster/store.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../src/policy/rollout/settings.ts';

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
  const featureGates = new Map([['OpenShiftPodSecurityAdmission', gate]]);
  return getRolloutView({ store, namespace: NAMESPACE, version: '0.0.0' }, { ...DEFAULT_ROLLOUT, phase, featureGates })
    .enforce;
}

suite('a replica', () => {
  const CASES: readonly (readonly [name: string, seen: Seen, expected: string])[] = [
    ['follows the leader up', {}, 'restricted'],
    ['does not go up by itself', { published: 'privileged' }, 'privileged'],
    ['takes what it cannot read for privileged', { published: 'highest' }, 'privileged'],
    ['goes down by itself: the feature is off', { gate: false }, 'privileged'],
    ['goes down by itself: the phase is Evaluate', { phase: 'Evaluate' }, 'privileged'],
    ['goes down by itself: it is decided', { status: 'Legacy' }, 'privileged'],
    ['goes down by itself: it is asked for, and nobody leads who could decide', { spec: 'Legacy' }, 'privileged'],
    ['stays up with a mode that means nothing', { spec: 'Privileged' }, 'restricted'],
  ];
  for (const [name, seen, expected] of CASES) {
    test(name, () => assert.equal(enforcedBy(seen), expected));
  }
});
