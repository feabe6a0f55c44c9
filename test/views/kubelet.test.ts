/** Tests how the minimum kubelet version and the nodes are read from the store. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import { decodeSettings } from '../../src/config/portcullis-configuration.ts';
import type { JsonObject, Node } from '../../src/kube/types.ts';
import {
  createMinimumReader,
  findNodeState,
  type KubeletScope,
  listNodeStates,
  requestedMinimum,
} from '../../src/views/kubelet.ts';

/** Returns the scope for settings with a `kubelet` section and a store that the function fills. */
function scopeOf(
  kubelet: JsonObject | undefined,
  fill: (store: WritableStore) => void = () => undefined,
  hasSettingsObject = true,
): KubeletScope {
  const decoded = decodeSettings({ spec: { kubelet } }, { controllers: [], namespace: 'portcullis' });
  assert.ok('settings' in decoded, JSON.stringify(decoded));
  const store = createStore();
  fill(store);
  return { store, settings: () => decoded.settings.kubelet, hasSettingsObject };
}

const MINIMUM = { minimumVersion: '1.33.0' };

suite('requestedMinimum returns', () => {
  const putConfig = (spec: JsonObject | null) => (store: WritableStore) =>
    store.put('NodesConfig', { metadata: { name: 'cluster' }, spec });
  const cases: readonly (readonly [name: string, scope: KubeletScope, expected: string])[] = [
    ['the minimum in the settings', scopeOf(MINIMUM), '1.33.0'],
    ['none if the settings contain none', scopeOf({}), ''],
    [
      'the minimum in the node configuration',
      scopeOf(MINIMUM, putConfig({ minimumKubeletVersion: '1.30.0' })),
      '1.30.0',
    ],
    ['none if the node configuration contains none', scopeOf(MINIMUM, putConfig({ minimumKubeletVersion: '' })), ''],
    ['none if the CRD does not have the field', scopeOf(MINIMUM, putConfig(null)), ''],
  ];
  for (const [name, scope, expected] of cases) {
    test(name, () => assert.equal(requestedMinimum(scope), expected));
  }
});

suite('the reader of the minimum in force returns', () => {
  const putStatus = (minimumVersion: string) => (store: WritableStore) =>
    store.put('PortcullisConfiguration', { metadata: { name: 'cluster' }, status: { kubelet: { minimumVersion } } });
  const cases: readonly (readonly [name: string, scope: KubeletScope, expected: string | undefined])[] = [
    ['the minimum in the status', scopeOf(MINIMUM, putStatus('1.30.0')), '1.30.0'],
    ['none if the status does not contain it yet', scopeOf(MINIMUM), undefined],
    ['none if the status does not contain a version', scopeOf(MINIMUM, putStatus('12')), undefined],
    ['none if the settings have no section for kubelets', scopeOf(undefined, putStatus('1.30.0')), undefined],
    ['the minimum in a settings file', scopeOf(MINIMUM, putStatus('1.30.0'), false), '1.33.0'],
    ['none if a settings file contains none', scopeOf({}, undefined, false), undefined],
  ];
  for (const [name, scope, expected] of cases) {
    test(name, () => assert.equal(createMinimumReader(scope)()?.text, expected));
  }

  test('another minimum after the status changes', () => {
    const scope = scopeOf(MINIMUM, putStatus('1.30.0'));
    const read = createMinimumReader(scope);
    const texts = ['1.30.0', '1.31.0', '', '1.31.0'].map((text) => {
      putStatus(text)(scope.store as WritableStore);
      return read()?.text;
    });
    assert.deepEqual(texts, ['1.30.0', '1.31.0', undefined, '1.31.0']);
  });
});

test('listNodeStates and findNodeState return the kubelet state of nodes', () => {
  const nodes: readonly unknown[] = [
    { metadata: { name: 'new' } },
    {
      metadata: { name: 'ready', labels: { type: 'kwok' } },
      status: { nodeInfo: { kubeletVersion: 'v1.33.0' }, conditions: [{ type: 'Ready', status: 'False' }] },
    },
    { metadata: { name: 'odd' }, status: { nodeInfo: { kubeletVersion: 1 }, conditions: [null, 'Ready'] } },
  ];
  const scope = scopeOf({ exemptNodes: { matchLabels: { type: 'kwok' } } }, (store) => {
    for (const node of nodes) store.put('Node', node as Node);
  });
  const unreported = { kubeletVersion: '', hasReadyCondition: false, isExempt: false };
  assert.deepEqual(listNodeStates(scope), [
    { name: 'new', ...unreported },
    { name: 'ready', kubeletVersion: 'v1.33.0', hasReadyCondition: true, isExempt: true },
    { name: 'odd', ...unreported },
  ]);
  assert.deepEqual(findNodeState(scope, 'odd'), { name: 'odd', ...unreported });
  assert.equal(findNodeState(scope, 'absent'), undefined);
});
