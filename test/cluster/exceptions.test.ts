/** Tests which exceptions apply in a namespace after exceptions, settings and time change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { activeExceptions, hashSpec } from '../../src/cluster/exceptions.ts';
import { createStore } from '../../src/cluster/store.ts';
import type { ExceptionSettings } from '../../src/policy/psa/exceptions.ts';

const SETTINGS: ExceptionSettings = {
  mode: 'approved',
  maxDurationMs: 90 * 24 * 3_600_000,
  forbiddenChecks: [],
  namespaces: [],
  selfApproval: false,
};

function exception(name: string, expiresAt: string, namespace = 'shop') {
  const allow = [{ check: 'hostNamespaces', values: ['hostNetwork'] }];
  const spec = { serviceAccountName: 'gateway', allow, expiresAt, reason: 'SEC-123' };
  return {
    metadata: { name, namespace, annotations: { 'portcullis.dev/authors': '["alice"]' } },
    spec,
    status: { approval: { by: 'bob', at: '2027-01-01T00:00:00Z', specHash: hashSpec(spec) } },
  };
}

test('active exceptions', () => {
  const store = createStore();
  const active = (time: string, settings = SETTINGS, namespace = 'shop'): readonly string[] =>
    activeExceptions(store, settings, namespace, Date.parse(time)).rules.map(({ name }) => name);
  const [first, second, third] = ['2027-01-02T00:00:00Z', '2027-01-03T00:00:00Z', '2027-01-04T00:00:00Z'];
  assert.deepEqual(active(first), []);
  store.put('PodSecurityException', exception('a', second));
  store.put('PodSecurityException', exception('b', third));
  store.put('PodSecurityException', exception('c', third, 'other'));
  assert.deepEqual(active(first), ['a', 'b']);
  assert.deepEqual(active('2027-01-02T23:59:59.999Z'), ['a', 'b']);
  assert.deepEqual(active(second), ['b']);
  // The clock can be set back.
  assert.deepEqual(active(first), ['a', 'b']);
  assert.deepEqual(active(third), []);
  assert.deepEqual(active(first, SETTINGS, 'other'), ['c']);
  assert.deepEqual(active(first, { ...SETTINGS, mode: 'off' }), []);
  assert.deepEqual(active(first, { ...SETTINGS, forbiddenChecks: ['hostNamespaces'] }), []);
  assert.deepEqual(active(first), ['a', 'b']);
  const changed = exception('b', third);
  store.put('PodSecurityException', { ...changed, spec: { ...changed.spec, reason: 'other' } });
  assert.deepEqual(active(first), ['a']);
  store.remove('PodSecurityException', 'a', 'shop');
  assert.deepEqual(active(first), []);
});
