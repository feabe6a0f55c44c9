/** Tests which exceptions apply in a namespace after changes to exceptions, settings and time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listExceptions } from '../../src/cli/inventory/exceptions.ts';
import { createStore } from '../../src/cluster/store.ts';
import type { Condition } from '../../src/kube/conditions.ts';
import type { ExceptionSettings } from '../../src/policy/psa/index.ts';
import { activeExceptions, hashSpec } from '../../src/views/exceptions.ts';

const SETTINGS: ExceptionSettings = {
  mode: 'approved',
  maxDurationMs: 90 * 24 * 3_600_000,
  forbiddenChecks: [],
  namespaces: [],
  selfApproval: false,
  trustedApprovers: [],
};

function exception(name: string, expiresAt: string, namespace = 'shop', at = '2027-01-01T00:00:00Z') {
  const allow = [{ check: 'hostNamespaces', values: ['hostNetwork'] }];
  const spec = { serviceAccountName: 'gateway', allow, expiresAt, reason: 'SEC-123' };
  return {
    metadata: { name, namespace, annotations: { 'portcullis.dev/authors': '["alice"]' } },
    spec,
    status: { approval: { by: 'bob', at, specHash: hashSpec(spec) } },
  };
}

test('the active exceptions are those that are approved and have not expired', () => {
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
  // The clock may be set back.
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
  // An approval with a future time would evade maxDuration. The clocks of replicas may differ by a minute.
  store.put('PodSecurityException', exception('d', third, 'shop', second));
  assert.deepEqual(active(first), []);
  assert.deepEqual(active('2027-01-02T23:58:59.999Z'), []);
  assert.deepEqual(active('2027-01-02T23:59:00Z'), ['d']);
  assert.deepEqual(active(first), []);
});

test('an approval in annotations applies only while the settings trust the user who applied it', () => {
  const store = createStore();
  const { status, ...proposed } = exception('a', '2027-01-10T00:00:00Z');
  const annotations = (change: Readonly<Record<string, string>> = {}) => ({
    'portcullis.dev/authors': '["flux"]',
    'portcullis.dev/approved-by': 'bob',
    'portcullis.dev/proposed-by': 'carol',
    'portcullis.dev/approved-spec-hash': hashSpec(proposed.spec),
    'portcullis.dev/approved-through': 'flux',
    'portcullis.dev/approved-at': '2027-01-01T00:00:00Z',
    ...change,
  });
  const applies = (change = {}, settings: Partial<ExceptionSettings> = {}, stored?: object): boolean => {
    const metadata = { ...proposed.metadata, annotations: annotations(change) };
    store.put('PodSecurityException', { ...proposed, metadata, ...stored });
    const all = { ...SETTINGS, trustedApprovers: ['flux'], ...settings };
    return activeExceptions(store, all, 'shop', Date.parse('2027-01-02T00:00:00Z')).rules.length > 0;
  };
  const key = (name: string, value: string) => ({ [`portcullis.dev/${name}`]: value });
  assert.deepEqual(
    [
      applies(),
      applies({}, { trustedApprovers: [] }),
      applies(key('approved-through', 'mallory')),
      applies(key('approved-through', 'flux '), { trustedApprovers: ['flux', 'other'] }),
      applies(key('approved-spec-hash', hashSpec({}))),
      applies(key('approved-by', 'flux')),
      applies(key('approved-by', 'carol')),
      applies(key('approved-by', 'carol'), { selfApproval: true }),
      applies(key('authors', '["bob","flux"]')),
      applies(key('authors', '[]')),
      applies(key('approved-at', '')),
      applies(key('approved-at', '2027-01-09T00:00:00Z')),
      applies(key('approved-at', '2026-01-01T00:00:00Z')),
      applies({}, { trustedApprovers: [] }, { status }),
    ],
    [true, false, false, false, false, false, false, true, false, false, false, false, false, true],
  );
});

test('the list of exceptions uses the states in their status if the user may not read the settings', () => {
  const end = '2027-01-02T00:00:00Z';
  const condition = (type: string, status: Condition['status'], reason: string, message: string): Condition => ({
    ...{ type, status, reason, message, lastTransitionTime: '2027-01-01T00:00:00Z' },
  });
  const applies = condition('Active', 'True', 'Applies', 'it applies to new pods');
  const unused = condition('Unused', 'True', 'NoPods', 'running pods that need it: 0');
  const tooLong = condition('Active', 'False', 'TooLong', 'maxDuration does not permit it');
  const cases = [
    ['no status yet', [], '2027-01-01T00:00:00Z', 'Proposed', 'its state has not been reported yet'],
    ['active', [applies], '2027-01-01T00:00:00Z', 'Active', undefined],
    ['unused', [applies, unused], '2027-01-01T00:00:00Z', 'Unused', 'running pods that need it: 0'],
    ['beyond a limit', [tooLong], '2027-01-01T00:00:00Z', 'TooLong', 'maxDuration does not permit it'],
    ['expired at the time of the list', [applies], end, 'Expired', `it expired at ${end}`],
  ] as const;
  for (const [name, conditions, time, state, problem] of cases) {
    const store = createStore();
    const { status, ...object } = exception('a', end);
    store.put('PodSecurityException', { ...object, status: { ...status, conditions } });
    const [listed] = listExceptions(store, undefined, Date.parse(time));
    assert.deepEqual([listed?.state, listed?.problem], [state, problem], name);
  }
});
