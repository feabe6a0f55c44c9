/** Tests messages, actions, selection and failures of ValidatingAdmissionPolicies. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { validateWithPolicies } from '../../../src/dev-cluster/admission/policies.ts';
import type { Attributes } from '../../../src/dev-cluster/attributes.ts';
import { createStorage } from '../../../src/dev-cluster/storage.ts';
import { attributes, createRequestContext, object, rejectionStatus, resource } from './support.ts';

const RULE = { operations: ['CREATE'], apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] };
const POD = object('Pod', 'p', { spec: { containers: [{ image: 'i' }], volumes: null } }, 'a');
const BOUND = "ValidatingAdmissionPolicy 'policy' with binding 'binding'";

interface Case {
  readonly name: string;
  readonly policy?: object;
  readonly binding?: object;
  readonly validation?: object;
  readonly given?: Partial<Omit<Attributes, 'resource'>>;
  /** The denial message that follows the policy and the binding. Absent if the request is allowed. */
  readonly denied?: string;
  readonly warnings?: readonly string[];
}

const BROKEN = 'object.spec.hostNetwork';
const EVALUATION = `expression '${BROKEN}' resulted in error: No such key: hostNetwork`;
const broken = (failurePolicy: string): object => ({ failurePolicy, validations: [{ expression: BROKEN }] });

const CASES: readonly Case[] = [
  { name: 'an expression that returns true', validation: { expression: 'has(object.spec)' } },
  { name: 'an expression without a message', denied: 'failed expression: false' },
  { name: 'a message', validation: { message: ' no ' }, denied: 'no' },
  {
    name: 'both a message and a message expression, which takes precedence',
    validation: { message: 'no', messageExpression: "'user ' + request.userInfo.username" },
    denied: 'user alice',
  },
  {
    name: 'names of containers that are absent, which are empty, and a field that is null, which is absent',
    validation: { expression: "object.spec.containers[0].name == '' && !has(object.spec.volumes)" },
  },
  {
    name: 'variables that use other variables and the namespace',
    policy: {
      variables: [
        { name: 'team', expression: "namespaceObject.metadata.labels['team']" },
        { name: 'text', expression: "'team ' + variables.team" },
      ],
    },
    validation: { messageExpression: 'variables.text' },
    denied: 'team blue',
  },
  { name: 'Warn', binding: { validationActions: ['Warn', 'Audit'] }, warnings: ['failed expression: false'] },
  {
    name: 'the actions Warn and Deny',
    binding: { validationActions: ['Warn', 'Deny'] },
    warnings: ['failed expression: false'],
    denied: 'failed expression: false',
  },
  {
    name: 'a match condition that returns false',
    policy: { matchConditions: [{ name: 'c', expression: "request.userInfo.username != 'alice'" }] },
  },
  {
    name: 'a match condition that fails',
    policy: { matchConditions: [{ name: 'c', expression: BROKEN }] },
    denied: EVALUATION,
  },
  { name: 'failurePolicy Fail', policy: broken('Fail'), denied: EVALUATION },
  { name: 'failurePolicy Ignore', policy: broken('Ignore') },
  {
    name: 'an expression that cannot be compiled',
    validation: { expression: 'nothing' },
    denied: "expression 'nothing' resulted in error: compilation failed: Unknown variable: nothing",
  },
  { name: 'rules for other operations', given: { operation: 'UPDATE' } },
  { name: 'rules for other subresources', given: { subresource: 'status' } },
  {
    name: 'exclusions of resources',
    policy: { matchConstraints: { resourceRules: [RULE], excludeResourceRules: [RULE] } },
  },
  {
    name: 'a namespace selector in the binding',
    binding: { matchResources: { namespaceSelector: { matchLabels: { team: 'red' } } } },
  },
  {
    name: 'an object selector in the policy',
    policy: { matchConstraints: { resourceRules: [RULE], objectSelector: { matchLabels: { team: 'red' } } } },
  },
  { name: 'a binding to another policy', binding: { policyName: 'other' } },
  {
    name: 'parameters',
    policy: { paramKind: { apiVersion: 'v1', kind: 'ConfigMap' } },
    denied: 'the development cluster does not support policy parameters',
  },
  {
    name: 'a query of the authorizer',
    validation: { expression: "authorizer.group('').resource('pods').namespace('a').check('delete').allowed()" },
  },
  {
    name: 'a query of the authorizer about a service account',
    validation: { expression: "authorizer.serviceAccount('a', 'b').resource('pods').check('get').allowed()" },
    denied: "failed expression: authorizer.serviceAccount('a', 'b').resource('pods').check('get').allowed()",
  },
];

describe('ValidatingAdmissionPolicies are evaluated as in an API server if they contain', () => {
  const storage = createStorage();
  storage.create(resource('namespaces'), {
    ...object('Namespace', 'a'),
    metadata: { name: 'a', labels: { team: 'blue' } },
  });
  const policies = resource('validatingadmissionpolicies');
  const bindings = resource('validatingadmissionpolicybindings');
  const options = {
    reader: storage,
    access: ({ username }: { readonly username?: string }) => username === 'alice',
  };

  const evaluate = async ({ policy, binding, validation, given }: Omit<Case, 'name'>) => {
    const spec = { matchConstraints: { resourceRules: [RULE] }, validations: [{ expression: 'false', ...validation }] };
    const bound = { policyName: 'policy', validationActions: ['Deny'], ...binding };
    const stored = storage.create(
      policies,
      object('ValidatingAdmissionPolicy', 'policy', { spec: { ...spec, ...policy } }),
    );
    const storedBinding = storage.create(
      bindings,
      object('ValidatingAdmissionPolicyBinding', 'binding', { spec: bound }),
    );
    const { context, warnings } = createRequestContext();
    const request = attributes({ resource: 'pods', object: POD, user: { username: 'alice' }, ...given });
    const status = await rejectionStatus(async () => {
      await Promise.resolve();
      validateWithPolicies(options, request, context);
    });
    assert.ok(stored && storedBinding);
    storage.remove(policies, stored);
    storage.remove(bindings, storedBinding);
    return { status, warnings };
  };

  for (const { name, denied, warnings = [], ...given } of CASES) {
    test(name, async () => {
      const result = await evaluate(given);
      const message = denied === undefined ? undefined : `pods "p" is forbidden: ${BOUND} denied request: ${denied}`;
      assert.equal(result.status?.message, message);
      assert.deepEqual(
        result.warnings,
        warnings.map((text) => `Validation failed for ${BOUND}: ${text}`),
      );
    });
  }

  test('a reason, which determines the status code', async () => {
    const results: unknown[] = [];
    for (const reason of [undefined, 'Forbidden', 'RequestEntityTooLarge', 'Unauthorized']) {
      const { status } = await evaluate({ validation: reason === undefined ? {} : { reason } });
      results.push([status?.reason, status?.code, status?.details?.causes]);
    }
    const causes = [{ message: `${BOUND} denied request: failed expression: false` }];
    assert.deepEqual(results, [
      ['Invalid', 422, causes],
      ['Forbidden', 403, causes],
      ['RequestEntityTooLarge', 413, causes],
      ['Unauthorized', 401, causes],
    ]);
  });
});
