/** Tests the webhook that sets pod defaults. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { SCC_REGISTERED_ANNOTATION } from '../../src/api/webhooks.ts';
import { createStore } from '../../src/cluster/store.ts';
import { decodeSettings } from '../../src/config/portcullis-configuration.ts';
import { diff } from '../../src/kube/json-patch.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { podRequest } from '../support/pod-security.ts';
import { createTestWebhooks } from '../support/scc-webhooks.ts';

const POD = { metadata: { name: 'p' }, spec: { containers: [{ name: 'a', securityContext: {} }] } };

const PATCH = [
  { op: 'add', path: '/spec/containers/0/securityContext/capabilities', value: { drop: ['ALL'] } },
  { op: 'add', path: '/spec/containers/0/securityContext/allowPrivilegeEscalation', value: false },
  {
    op: 'add',
    path: '/spec/securityContext',
    value: { seccompProfile: { type: 'RuntimeDefault' }, runAsNonRoot: true },
  },
];

/**
 * Reviews a request in the namespace `ns`, which has the label `team: a`. API servers send the pods for which the
 * registered SCC mode requires it.
 */
async function review(spec: JsonObject, change: Parameters<typeof podRequest>[1] = {}, registered = 'enforce') {
  const store = createStore();
  store.put('Namespace', { metadata: { name: 'ns', labels: { team: 'a' } } });
  store.put('Namespace', { metadata: { name: 'portcullis' } });
  store.markSynced();
  const decoded = decodeSettings({ spec }, { controllers: [], namespace: 'portcullis' });
  assert.ok('settings' in decoded);
  const { scc, defaults } = decoded.settings;
  const webhooks = createTestWebhooks(store, { settings: scc, podDefaults: defaults });
  const annotations = { [SCC_REGISTERED_ANNOTATION]: registered };
  store.put('ValidatingWebhookConfiguration', { metadata: { name: 'portcullis.dev', annotations } });
  const webhook = webhooks.find(({ path }) => path === '/mutate/pods');
  const decision = await webhook?.decide(podRequest(POD, change), { store, now: () => 0, deadlineMs: 1 });
  assert.ok(decision);
  return !decision.allowed || decision.object === undefined ? [] : diff(change.object ?? POD, decision.object);
}

const APPLY = { defaults: { mode: 'apply' } };

suite('the pod defaults webhook', () => {
  const cases: readonly (readonly [string, JsonObject, Parameters<typeof podRequest>[1]?])[] = [
    ['off mode', {}],
    ['the installation namespace', APPLY, { namespace: 'portcullis' }],
    [
      'a namespace that the namespace selector excludes',
      { defaults: { mode: 'apply', namespaceSelector: { matchLabels: { team: 'b' } } } },
    ],
    ['enforced SCCs, which deny the pod', { ...APPLY, scc: { mode: 'enforce' } }],
    ['an unknown namespace, where SCCs may be enforced', APPLY, { namespace: 'other' }],
    ['an update', APPLY, { operation: 'UPDATE', oldObject: POD }],
    [
      'an added ephemeral container',
      APPLY,
      { operation: 'UPDATE', oldObject: POD, subResource: 'ephemeralcontainers' },
    ],
    [
      'another kind',
      APPLY,
      {
        kind: { group: '', version: 'v1', kind: 'Service' },
        resource: { group: '', version: 'v1', resource: 'services' },
      },
    ],
    ['a pod that cannot be decoded', APPLY, { object: { spec: { containers: 1 } } }],
  ];
  for (const [name, spec, change] of cases) {
    test(`changes no field for ${name}`, async () => assert.deepEqual(await review(spec, change), []));
  }

  test('sets all defaults in a new pod', async () => assert.deepEqual(await review(APPLY), PATCH));

  test('sets the defaults in a new pod until the stricter SCC mode of the settings is registered', async () => {
    const settings = { ...APPLY, scc: { mode: 'enforce' } };
    assert.deepEqual(await review(settings, {}, 'report'), PATCH);
  });

  test('sets all defaults in a new pod if the namespace selector selects its namespace', async () => {
    const namespaceSelector = { matchExpressions: [{ key: 'team', operator: 'Exists' }] };
    assert.deepEqual(await review({ defaults: { mode: 'apply', namespaceSelector } }), PATCH);
  });
});
