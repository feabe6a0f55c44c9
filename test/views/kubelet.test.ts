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

suite('requestedMinimum returns the minimum:', () => {
  const putConfig = (spec: JsonObject | null) => (store: WritableStore) =>
    store.put('NodesConfig', { metadata: { name: 'cluster' }, spec });
  const cases: readonly (readonly [name: string, scope: KubeletScope, expected: string])[] = [
    ['of the settings', scopeOf(MINIMUM), '1.33.0'],
    ['none', scopeOf({}), ''],
    ['in the node configuration', scopeOf(MINIMUM, putConfig({ minimumKubeletVersion: '1.30.0' })), '1.30.0'],
    ['none in the node configuration', scopeOf(MINIMUM, putConfig({ minimumKubeletVersion: '' })), ''],
    ['a CRD without the field', scopeOf(MINIMUM, putConfig(null)), ''],
  ];
  for (const [name, scope, expected] of cases) {
    test(name, () => assert.equal(requestedMinimum(scope), expected));
  }
});

suite('the minimum reader returns the minimum in force:', () => {
  const putStatus = (minimumVersion: string) => (store: WritableStore) =>
    store.put('PortcullisConfiguration', { metadata: { name: 'cluster' }, status: { kubelet: { minimumVersion } } });
  const cases: readonly (readonly [name: string, scope: KubeletScope, expected: string | undefined])[] = [
    ['of the status', scopeOf(MINIMUM, putStatus('1.30.0')), '1.30.0'],
    ['not yet in the status', scopeOf(MINIMUM), undefined],
    ['not a version', scopeOf(MINIMUM, putStatus('12')), undefined],
    ['without the section in the settings', scopeOf(undefined, putStatus('1.30.0')), undefined],
    ['of a file', scopeOf(MINIMUM, putStatus('1.30.0'), false), '1.33.0'],
    ['none in a file', scopeOf({}, undefined, false), undefined],
  ];
  for (const [name, scope, expected] of cases) {
    test(name, () => assert.equal(createMinimumReader(scope)()?.text, expected));
  }

  test('changes with the status', () => {
    const scope = scopeOf(MINIMUM, putStatus('1.30.0'));
    const read = createMinimumReader(scope);
    const texts = ['1.30.0', '1.31.0', '', '1.31.0'].map((text) => {
      putStatus(text)(scope.store as WritableStore);
      return read()?.text;
    });
    assert.deepEqual(texts, ['1.30.0', '1.31.0', undefined, '1.31.0']);
  });
});

test('listNodeStates and findNodeState return the state of nodes', () => {
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
