import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { matchesRule } from '../../src/kube/webhook-rules.ts';

const POD = { group: '', version: 'v1', resource: 'pods' };
const NAMESPACE = { ...POD, resource: 'namespaces' };
const RULE = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'], scope: '*' };

describe('a webhook rule matches a request only if all its fields match:', () => {
  const cases: readonly (readonly [
    name: string,
    rule: object,
    expected: boolean,
    subresource?: string,
    resource?: typeof POD,
  ])[] = [
    ['the same group, version, operation and resource', {}, true],
    ['another group', { apiGroups: ['apps'] }, false],
    ['all groups', { apiGroups: ['*'] }, true],
    ['another version', { apiVersions: ['v2'] }, false],
    ['all versions', { apiVersions: ['*'] }, true],
    ['other operations', { operations: ['DELETE', 'UPDATE'] }, false],
    ['all operations', { operations: ['*'] }, true],
    ['another resource', { resources: ['deployments'] }, false],
    ['all resources', { resources: ['*'] }, true],
    ['all subresources, which also match the object itself', { resources: ['pods/*'] }, true],
    ['all resources and subresources', { resources: ['*/*'] }, true],
    ['a subresource, for the object itself', { resources: ['pods/exec'] }, false],
    ['the object itself, for a subresource', {}, false, 'status'],
    ['a subresource', { resources: ['pods/status'] }, true, 'status'],
    ['a subresource of all resources', { resources: ['*/status'] }, true, 'status'],
    ['all resources, for a subresource', { resources: ['*'] }, false, 'status'],
    ['namespaced objects', { scope: 'Namespaced' }, true],
    ['cluster-scoped objects, for a pod', { scope: 'Cluster' }, false],
    ['cluster-scoped objects, for a Namespace', { resources: ['namespaces'], scope: 'Cluster' }, true, '', NAMESPACE],
    ['namespaced objects, for a Namespace', { resources: ['namespaces'], scope: 'Namespaced' }, false, '', NAMESPACE],
    ['without a scope', { scope: undefined }, true],
    ['an unknown scope', { scope: 'Everywhere' }, false],
  ];
  for (const [name, rule, expected, subresource = '', resource = POD] of cases) {
    test(`${name}: ${expected ? 'matches' : 'does not match'}`, () => {
      const target = { operation: 'CREATE', namespace: 'a', subresource } as const;
      assert.equal(matchesRule({ ...RULE, ...rule }, target, resource), expected);
    });
  }
});
