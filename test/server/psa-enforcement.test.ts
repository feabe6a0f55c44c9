import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import { allow, type AdmissionRequest } from '../../src/kube/admission.ts';
import { createPsaEnforcementWebhook } from '../../src/server/webhooks/psa-enforcement.ts';

const GROUP = { group: 'config.openshift.io', version: 'v1alpha1' };

function decide(change: Partial<AdmissionRequest>) {
  const request: AdmissionRequest = {
    uid: '1',
    kind: { ...GROUP, kind: 'PSAEnforcementConfig' },
    resource: { ...GROUP, resource: 'psaenforcementconfigs' },
    operation: 'UPDATE',
    userInfo: { username: 'alice' },
    ...change,
  };
  return createPsaEnforcementWebhook().decide(request, { store: createStore(), now: () => 0 });
}

const VIOLATING = [{ name: 'shop', state: 'Current' }, { name: 'bank' }, { name: 'old', state: 'Previous' }];

function config(enforcementMode: unknown, violatingNamespaces: unknown = VIOLATING) {
  return { metadata: { name: 'cluster' }, spec: { enforcementMode }, status: { violatingNamespaces } };
}

const WARNING =
  'spec.enforcementMode: Restricted enforces at once, although workloads in 2 namespaces would be refused: bank, shop';

const CASES: readonly (readonly [name: string, change: Partial<AdmissionRequest>, warnings: readonly string[]])[] = [
  ['Restricted instead of nothing', { object: config('Restricted'), oldObject: config('') }, [WARNING]],
  ['Restricted instead of Legacy', { object: config('Restricted'), oldObject: config('Legacy') }, [WARNING]],
  ['Restricted as before', { object: config('Restricted'), oldObject: config('Restricted') }, []],
  ['Legacy', { object: config('Legacy'), oldObject: config('') }, []],
  ['Restricted without violations', { object: config('Restricted', []), oldObject: config('', []) }, []],
  ['Restricted in a new object', { operation: 'CREATE', object: config('Restricted', null), oldObject: null }, []],
  ['a status', { subResource: 'status', object: config('Restricted'), oldObject: config('') }, []],
  ['the end', { operation: 'DELETE', object: null, oldObject: config('') }, []],
  [
    'another kind',
    { kind: { ...GROUP, kind: 'FeatureGate' }, object: config('Restricted'), oldObject: config('') },
    [],
  ],
  ['no object', { object: 5, oldObject: 'x' }, []],
  ['odd entries', { object: config('Restricted'), oldObject: config('', [1, null, { name: 2 }]) }, []],
  ['no list', { object: config('Restricted'), oldObject: { spec: 3, status: { violatingNamespaces: {} } } }, []],
];

for (const [name, change, warnings] of CASES) {
  test(name, () => assert.deepEqual(decide(change), warnings.length === 0 ? allow() : allow({ warnings })));
}
