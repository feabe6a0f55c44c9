/** Tests the warning about settings with which more namespaces fail closed. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { createEvaluations } from '../../src/server/evaluations.ts';
import { createSettingsReviewer } from '../../src/server/webhooks/objects/settings.ts';
import { settingsDeps } from '../support/scc-webhooks.ts';

const LEVEL = 'pod-security.kubernetes.io/enforce';
/** The labels of the namespaces. */
const NAMESPACES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'kube-system': {},
  portcullis: { [LEVEL]: 'restricted' },
  open: { 'portcullis.dev/admission': 'fail-open' },
  own: { 'portcullis.dev/enforce': 'restricted' },
  privileged: { [LEVEL]: 'privileged' },
  shop: {},
  sccs: { 'portcullis.dev/scc': 'enforce', [LEVEL]: 'baseline' },
  without: { 'portcullis.dev/scc': 'off' },
};

const LEVELS = { podSecurity: { defaults: { enforce: 'baseline' } } };
const FLOOR = { floor: { mode: 'enforce' }, webhooks: { failurePolicy: 'Ignore' } };
const closing = (count: string, names: string): string =>
  `the settings make ${count} fail closed, so no pods can be created there while no replica responds: ${names}`;

/** The settings before and after the change, and the warning. */
const CASES: readonly (readonly [name: string, before: JsonObject, after: JsonObject, warning: string])[] = [
  ['a default level', {}, LEVELS, closing('3 namespaces', 'privileged, shop, without')],
  ['a weaker default level', LEVELS, {}, ''],
  ['another default level', LEVELS, { podSecurity: { defaults: { enforce: 'restricted' } } }, ''],
  ['SCCs', {}, { scc: { mode: 'enforce' } }, closing('2 namespaces', 'privileged, shop')],
  [
    'SCCs without exemptions',
    { scc: { mode: 'enforce', exemptNamespaces: ['shop'] } },
    { scc: { mode: 'enforce' } },
    closing('1 namespace', 'shop'),
  ],
  ['off mode for SCCs', { scc: { mode: 'enforce' } }, {}, ''],
  ['exceptions', {}, { podSecurity: { exceptions: { mode: 'approved' } } }, ''],
  ['the floor', LEVELS, { ...LEVELS, ...FLOOR }, ''],
  [
    'a floor that is turned off',
    { ...LEVELS, ...FLOOR },
    LEVELS,
    closing('4 namespaces', 'privileged, sccs, shop, without'),
  ],
  ['a default level while the floor is enforced', FLOOR, { ...LEVELS, ...FLOOR }, ''],
  ['the same settings', LEVELS, LEVELS, ''],
  ['invalid settings', {}, { scc: { mode: 5 } }, ''],
];

suite('a change to the settings', () => {
  const store = createStore();
  for (const [name, labels] of Object.entries(NAMESPACES)) {
    store.put('Namespace', { metadata: { name, labels: { ...labels, 'kubernetes.io/metadata.name': name } } });
  }
  store.markSynced();
  const review = async (before: JsonObject, after: JsonObject, showsNames: boolean): Promise<readonly string[]> => {
    const deps = settingsDeps(store);
    const current = deps.readSettings({ spec: before });
    assert.ok(current);
    const reviewer = createSettingsReviewer({
      ...deps,
      previewRanges: (namespace) => namespace,
      settings: () => current,
      date: () => new Date(),
      evaluate: createEvaluations(() => 0),
      discloses: () => showsNames,
    });
    const group = 'config.portcullis.dev';
    const request = {
      uid: 'u',
      kind: { group, version: 'v1alpha1', kind: 'PortcullisConfiguration' },
      resource: { group, version: 'v1alpha1', resource: 'portcullisconfigurations' },
      operation: 'UPDATE',
      userInfo: {},
      object: { spec: after },
      oldObject: { spec: before },
    } as const;
    const decision = await reviewer.validate(request, { store, now: () => 0, deadlineMs: 1e9 });
    assert.equal(decision.allowed, true);
    return decision.warnings ?? [];
  };

  for (const [name, before, after, warning] of CASES) {
    test(`to ${name} ${warning === '' ? 'causes no warning' : 'warns about an outage'}`, async () => {
      assert.deepEqual(await review(before, after, true), warning === '' ? [] : [warning]);
    });
  }

  test('does not reveal names in a warning to clients that may not be API servers', async () => {
    const [, , , warning] = CASES[0] ?? [];
    assert.deepEqual(await review({}, LEVELS, false), [warning?.replace(/: privileged.*/, '')]);
  });
});
