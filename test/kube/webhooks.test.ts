import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { matchesRule } from '../../src/kube/webhook-rules.ts';

const POD = { group: '', version: 'v1', resource: 'pods' };
const NAMESPACE = { ...POD, resource: 'namespaces' };
const RULE = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'], scope: '*' };

describe('the rule of a webhook matches a request only if all its fields do:', () => {
  const cases: readonly (readonly [
    name: string,
    rule: object,
    expected: boolean,
    subresource?: string,
    resource?: typeof POD,
  ])[] = [
    ['a rule for the same group, version, operation and resource', {}, true],
    ['a rule for another group', { apiGroups: ['apps'] }, false],
    ['a rule for all groups', { apiGroups: ['*'] }, true],
    ['a rule for another version', { apiVersions: ['v2'] }, false],
    ['a rule for all versions', { apiVersions: ['*'] }, true],
    ['a rule for other operations', { operations: ['DELETE', 'UPDATE'] }, false],
    ['a rule for all operations', { operations: ['*'] }, true],
    ['a rule for another resource', { resources: ['deployments'] }, false],
    ['a rule for all resources', { resources: ['*'] }, true],
    ['a rule for all subresources, with a request for the object itself', { resources: ['pods/*'] }, true],
    ['a rule for all resources and subresources', { resources: ['*/*'] }, true],
    ['a rule for a subresource, with a request for the object itself', { resources: ['pods/exec'] }, false],
    ['a rule for the object itself, with a request for a subresource', {}, false, 'status'],
    ['a rule for a subresource', { resources: ['pods/status'] }, true, 'status'],
    ['a rule for a subresource of all resources', { resources: ['*/status'] }, true, 'status'],
    ['a rule for all resources, with a request for a subresource', { resources: ['*'] }, false, 'status'],
    ['a rule for namespaced objects', { scope: 'Namespaced' }, true],
    ['a rule for cluster-scoped objects, with a request for a pod', { scope: 'Cluster' }, false],
    [
      'a rule for cluster-scoped objects, with a request for a Namespace',
      { resources: ['namespaces'], scope: 'Cluster' },
      true,
      '',
      NAMESPACE,
    ],
    [
      'a rule for namespaced objects, with a request for a Namespace',
      { resources: ['namespaces'], scope: 'Namespaced' },
      false,
      '',
      NAMESPACE,
    ],
    ['a rule without a scope', { scope: undefined }, true],
    ['a rule with an unknown scope', { scope: 'Everywhere' }, false],
  ];
  for (const [name, rule, expected, subresource = '', resource = POD] of cases) {
    test(`${name}: ${expected ? 'matches' : 'does not match'}`, () => {
      const target = { operation: 'CREATE', namespace: 'a', subresource } as const;
      assert.equal(matchesRule({ ...RULE, ...rule }, target, resource), expected);
    });
  }
});
