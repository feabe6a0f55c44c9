import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { validateWithWebhooks, type WebhookOptions } from '../../../src/dev-cluster/admission/webhooks.ts';
import { createStorage } from '../../../src/dev-cluster/storage.ts';
import { at } from '../../../src/dev-cluster/types.ts';
import { attributes, createRequestContext, object, rejectionStatus, resource } from './support.ts';

const RULE = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'], scope: '*' };
const POD = { resource: 'pods', object: object('Pod', 'p') };

describe('webhooks are called depending on their rules, selectors and match conditions:', () => {
  const storage = createStorage();
  storage.create(resource('namespaces'), { kind: 'Namespace', metadata: { name: 'a', labels: { hooked: 'yes' } } });
  const labelled = (kind: string, labels: object): ReturnType<typeof object> => ({
    apiVersion: 'v1',
    kind,
    metadata: { name: 'x', labels },
  });
  const HOOKED = { namespaceSelector: { matchLabels: { hooked: 'yes' } } };
  const NAMED = { objectSelector: { matchLabels: { app: 'web' } } };
  const ALL = { rules: [{ ...RULE, resources: ['*/*'], apiGroups: ['*'], operations: ['*'] }] };
  const condition = (expression: string): object => ({ matchConditions: [{ name: 'c', expression }] });

  const cases: { name: string; webhook: object; given?: Parameters<typeof attributes>[0]; expected: unknown }[] = [
    { name: 'a webhook with a rule that matches', webhook: {}, expected: true },
    { name: 'a webhook without a rule that matches', webhook: { rules: [] }, expected: false },
    { name: 'a namespace that the namespaceSelector selects', webhook: HOOKED, expected: true },
    {
      name: 'a missing namespace',
      webhook: HOOKED,
      given: { ...POD, namespace: 'b' },
      expected: 'namespaces "b" not found',
    },
    {
      name: 'a Namespace is selected by its new labels',
      webhook: { ...HOOKED, ...ALL },
      given: { resource: 'namespaces', namespace: 'a', name: 'a', object: labelled('Namespace', {}) },
      expected: false,
    },
    {
      name: 'a deleted Namespace is selected by its stored labels',
      webhook: { ...HOOKED, ...ALL },
      given: { resource: 'namespaces', operation: 'DELETE', namespace: 'a', name: 'a' },
      expected: true,
    },
    {
      name: 'a cluster-scoped object, to which the namespaceSelector does not apply',
      webhook: { ...HOOKED, ...ALL },
      given: { resource: 'clusterroles', namespace: '', object: labelled('ClusterRole', {}) },
      expected: true,
    },
    {
      name: 'an object that the objectSelector does not select',
      webhook: NAMED,
      given: { ...POD, object: labelled('Pod', { app: 'db' }) },
      expected: false,
    },
    {
      name: 'an object whose old version the objectSelector selects',
      webhook: { ...NAMED, ...ALL },
      given: { ...POD, operation: 'UPDATE', object: labelled('Pod', {}), oldObject: labelled('Pod', { app: 'web' }) },
      expected: true,
    },
    { name: 'a match condition that is true', webhook: condition("object.metadata.name == 'p'"), expected: true },
    { name: 'a match condition that is false', webhook: condition("request.operation != 'CREATE'"), expected: false },
    {
      name: "a match condition on the user's groups",
      webhook: condition("!('system:masters' in request.userInfo.groups)"),
      given: { ...POD, user: { username: 'a', groups: ['system:masters'] } },
      expected: false,
    },
    {
      name: 'a match condition that fails to evaluate',
      webhook: condition("object.metadata.labels['a'] == 'b'"),
      expected:
        "pods \"p\" is forbidden: expression 'object.metadata.labels['a'] == 'b'' resulted in error: No such key: labels",
    },
    {
      name: 'a match condition that fails to evaluate, with failurePolicy Ignore',
      webhook: { ...condition("object.metadata.labels['a'] == 'b'"), failurePolicy: 'Ignore' },
      expected: false,
    },
    {
      name: 'a match condition that is false next to a match condition that fails',
      webhook: {
        matchConditions: [
          { name: 'a', expression: "oldObject.metadata.name == 'p'" },
          { name: 'b', expression: 'false' },
        ],
      },
      expected: false,
    },
  ];
  /** Resolves to the object versions in the calls to a webhook, or to the message of a denial. */
  const calledVersions = async (
    webhook: object,
    given: Parameters<typeof attributes>[0],
  ): Promise<string | readonly unknown[]> => {
    const versions: unknown[] = [];
    const configuration = object('ValidatingWebhookConfiguration', 'c', {
      webhooks: [{ name: 'h.example.com', rules: [RULE], sideEffects: 'None', ...webhook }],
    });
    const configurations = resource('validatingwebhookconfigurations');
    const stored = storage.create(configurations, configuration);
    assert.ok(stored);
    const options: WebhookOptions = {
      reader: storage,
      access: () => false,
      call({ review }) {
        versions.push(at(review, 'request', 'resource', 'version'));
        return Promise.resolve({
          ok: true,
          review: { response: { uid: at(review, 'request', 'uid'), allowed: true } },
        });
      },
    };
    const status = await rejectionStatus(() =>
      validateWithWebhooks(options, attributes(given), createRequestContext().context),
    );
    storage.remove(configurations, stored);
    return status?.message ?? versions;
  };

  for (const { name, webhook, given = POD, expected } of cases) {
    test(`${name}: ${expected === false ? 'not called' : expected === true ? 'called' : 'denied'}`, async () => {
      const calls = await calledVersions(webhook, given);
      assert.deepEqual(calls, typeof expected === 'string' ? expected : expected === true ? ['v1'] : []);
    });
  }

  test('webhook configurations themselves are not sent to webhooks', async () => {
    const given = { resource: 'validatingwebhookconfigurations', namespace: '' };
    assert.deepEqual(await calledVersions(ALL, given), []);
  });
});
