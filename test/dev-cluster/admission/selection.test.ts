import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { matchesRule } from '../../../src/kube/webhooks.ts';
import { isExempt, select } from '../../../src/dev-cluster/admission/webhooks/selection.ts';
import { createStorage } from '../../../src/dev-cluster/storage.ts';
import type { ResourceInfo } from '../../../src/dev-cluster/types.ts';
import { attributes, object, resource } from './support.ts';

const RULE = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'], scope: '*' };
const POD = { resource: 'pods', object: object('Pod', 'p') };

describe('rules', () => {
  const cases: { name: string; rule: object; given?: Parameters<typeof attributes>[0]; expected: boolean }[] = [
    { name: 'the very thing', rule: {}, expected: true },
    { name: 'another group', rule: { apiGroups: ['apps'] }, expected: false },
    { name: 'any group', rule: { apiGroups: ['*'] }, expected: true },
    { name: 'another version', rule: { apiVersions: ['v2'] }, expected: false },
    { name: 'any version', rule: { apiVersions: ['*'] }, expected: true },
    { name: 'another operation', rule: { operations: ['DELETE', 'UPDATE'] }, expected: false },
    { name: 'any operation', rule: { operations: ['*'] }, expected: true },
    { name: 'another resource', rule: { resources: ['deployments'] }, expected: false },
    { name: 'any resource', rule: { resources: ['*'] }, expected: true },
    { name: 'any subresource is the whole, too', rule: { resources: ['pods/*'] }, expected: true },
    { name: 'any of both', rule: { resources: ['*/*'] }, expected: true },
    { name: 'a subresource is not the whole', rule: { resources: ['pods/exec'] }, expected: false },
    { name: 'the whole is not a subresource', rule: {}, given: { ...POD, subresource: 'status' }, expected: false },
    {
      name: 'a subresource',
      rule: { resources: ['pods/status'] },
      given: { ...POD, subresource: 'status' },
      expected: true,
    },
    {
      name: 'a subresource of any',
      rule: { resources: ['*/status'] },
      given: { ...POD, subresource: 'status' },
      expected: true,
    },
    {
      name: 'any resource is no subresource',
      rule: { resources: ['*'] },
      given: { ...POD, subresource: 'status' },
      expected: false,
    },
    { name: 'in namespaces', rule: { scope: 'Namespaced' }, expected: true },
    { name: 'cluster-wide', rule: { scope: 'Cluster' }, expected: false },
    {
      name: 'a Namespace is cluster-wide',
      rule: { resources: ['namespaces'], scope: 'Cluster' },
      given: { resource: 'namespaces', namespace: 'a', object: object('Namespace', 'a') },
      expected: true,
    },
    {
      name: 'a Namespace lies in none',
      rule: { resources: ['namespaces'], scope: 'Namespaced' },
      given: { resource: 'namespaces', namespace: 'a', object: object('Namespace', 'a') },
      expected: false,
    },
    { name: 'no scope is any', rule: { scope: undefined }, expected: true },
    { name: 'an unknown scope is none', rule: { scope: 'Everywhere' }, expected: false },
  ];
  for (const { name, rule, given = POD, expected } of cases) {
    test(name, () => {
      const request = attributes(given);
      assert.equal(matchesRule({ ...RULE, ...rule }, request, request.resource), expected);
    });
  }
});

describe('which requests a webhook hears of', () => {
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
    { name: 'its rule matches', webhook: {}, expected: true },
    { name: 'no rule matches', webhook: { rules: [] }, expected: false },
    { name: 'the labels of the namespace', webhook: HOOKED, expected: true },
    {
      name: 'other labels of the namespace',
      webhook: { namespaceSelector: { matchLabels: { hooked: 'no' } } },
      expected: false,
    },
    {
      name: 'a namespace that is missing',
      webhook: HOOKED,
      given: { ...POD, namespace: 'b' },
      expected: 'namespaces "b" not found',
    },
    {
      name: 'a namespace that is missing does not matter where no rule matches',
      webhook: { ...HOOKED, rules: [] },
      given: { ...POD, namespace: 'b' },
      expected: false,
    },
    {
      name: 'a namespace that is missing does not matter to all',
      webhook: {},
      given: { ...POD, namespace: 'b' },
      expected: true,
    },
    {
      name: 'a Namespace counts by its own new labels',
      webhook: { ...HOOKED, ...ALL },
      given: { resource: 'namespaces', namespace: 'a', name: 'a', object: labelled('Namespace', {}) },
      expected: false,
    },
    {
      name: 'a Namespace that is deleted counts by those it has',
      webhook: { ...HOOKED, ...ALL },
      given: { resource: 'namespaces', operation: 'DELETE', namespace: 'a', name: 'a' },
      expected: true,
    },
    {
      name: 'what lies in no namespace is never left out',
      webhook: { ...HOOKED, ...ALL },
      given: { resource: 'clusterroles', namespace: '', object: labelled('ClusterRole', {}) },
      expected: true,
    },
    {
      name: 'labels of the object',
      webhook: NAMED,
      given: { ...POD, object: labelled('Pod', { app: 'web' }) },
      expected: true,
    },
    {
      name: 'other labels of the object',
      webhook: NAMED,
      given: { ...POD, object: labelled('Pod', { app: 'db' }) },
      expected: false,
    },
    {
      name: 'labels that the object had',
      webhook: { ...NAMED, ...ALL },
      given: { ...POD, operation: 'UPDATE', object: labelled('Pod', {}), oldObject: labelled('Pod', { app: 'web' }) },
      expected: true,
    },
    {
      name: 'options of a connection have no labels',
      webhook: { ...NAMED, ...ALL },
      given: { ...POD, operation: 'CONNECT', subresource: 'exec', object: { kind: 'PodExecOptions' } },
      expected: false,
    },
    { name: 'a condition that holds', webhook: condition("object.metadata.name == 'p'"), expected: true },
    { name: 'a condition that does not', webhook: condition("request.operation != 'CREATE'"), expected: false },
    {
      name: 'who asks',
      webhook: condition("!('system:masters' in request.userInfo.groups)"),
      given: { ...POD, user: { username: 'a', groups: ['system:masters'] } },
      expected: false,
    },
    { name: 'nobody in particular asks', webhook: condition("request.userInfo.username == ''"), expected: true },
    {
      name: 'a condition that cannot be told',
      webhook: condition("object.metadata.labels['a'] == 'b'"),
      expected:
        "pods \"p\" is forbidden: expression 'object.metadata.labels['a'] == 'b'' resulted in error: No such key: labels",
    },
    {
      name: 'a condition that cannot be told, where failures do not matter',
      webhook: { ...condition("object.metadata.labels['a'] == 'b'"), failurePolicy: 'Ignore' },
      expected: false,
    },
    {
      name: 'one that does not hold wins over one that cannot be told',
      webhook: {
        matchConditions: [
          { name: 'a', expression: "oldObject.metadata.name == 'p'" },
          { name: 'b', expression: 'false' },
        ],
      },
      expected: false,
    },
  ];
  for (const { name, webhook, given = POD, expected } of cases) {
    test(name, () => {
      const hook = { id: 'c/0', name: 'h.example.com', webhook: { rules: [RULE], ...webhook } };
      const selection = select(hook, attributes(given), { reader: storage, versionsOf: () => [] });
      assert.equal('refusal' in selection ? selection.refusal.message : selection.called, expected);
    });
  }

  test('another version of the resource, unless it must be exact', () => {
    const older: ResourceInfo = { ...resource('pods'), version: 'v0' };
    const webhook = { rules: [{ ...RULE, apiVersions: ['v0'] }] };
    const surroundings = { reader: storage, versionsOf: () => [older, resource('pods')] };
    const hook = (matchPolicy: string) => ({ id: 'c/0', name: 'h.example.com', webhook: { ...webhook, matchPolicy } });
    assert.deepEqual(select(hook('Equivalent'), attributes(POD), surroundings), { called: true, resource: older });
    assert.deepEqual(select(hook('Exact'), attributes(POD), surroundings), { called: false });
  });

  test('webhook configurations are no business of webhooks', () => {
    assert.equal(isExempt(attributes({ resource: 'validatingwebhookconfigurations' })), true);
    assert.equal(isExempt(attributes({ resource: 'pods' })), false);
  });
});
