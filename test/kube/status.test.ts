import assert from 'node:assert/strict';
import { test, describe } from 'node:test';
import * as status from '../../src/kube/status.ts';
import {
  requiredField,
  duplicateValue,
  forbiddenField,
  invalidValue,
  notSupported,
  formatFieldError,
  formatFieldErrors,
  type FieldError,
} from '../../src/kube/field-error.ts';

const PODS = { group: '', resource: 'pods' };
const DEPLOYMENTS = { group: 'apps', resource: 'deployments' };

const cases: readonly { name: string; given: status.Status; expected: Omit<status.Status, 'metadata' | 'status'> }[] = [
  {
    name: 'forbidden',
    given: status.forbidden(PODS, 'a', 'because'),
    expected: {
      message: 'pods "a" is forbidden: because',
      reason: 'Forbidden',
      details: { name: 'a', kind: 'pods' },
      code: 403,
    },
  },
  {
    name: 'forbidden without a name',
    given: status.forbidden(DEPLOYMENTS, '', 'because'),
    expected: {
      message: 'deployments.apps is forbidden: because',
      reason: 'Forbidden',
      details: { group: 'apps', kind: 'deployments' },
      code: 403,
    },
  },
  {
    name: 'forbidden without a resource',
    given: status.forbidden({ group: '', resource: '' }, '', 'because'),
    expected: { message: 'forbidden: because', reason: 'Forbidden', details: {}, code: 403 },
  },
  {
    name: 'invalid',
    given: status.invalid({ group: '', kind: 'Pod' }, 'a', [requiredField('spec.a', ''), requiredField('spec.b', 'x')]),
    expected: {
      message: 'Pod "a" is invalid: [spec.a: Required value, spec.b: Required value: x]',
      reason: 'Invalid',
      details: {
        name: 'a',
        kind: 'Pod',
        causes: [
          { reason: 'FieldValueRequired', message: 'Required value', field: 'spec.a' },
          { reason: 'FieldValueRequired', message: 'Required value: x', field: 'spec.b' },
        ],
      },
      code: 422,
    },
  },
  {
    name: 'invalid without a name',
    given: status.invalid({ group: 'meta.k8s.io', kind: 'PatchOptions' }, '', [
      requiredField('fieldManager', 'is required for apply patch'),
    ]),
    expected: {
      message: 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
      reason: 'Invalid',
      details: {
        group: 'meta.k8s.io',
        kind: 'PatchOptions',
        causes: [
          {
            reason: 'FieldValueRequired',
            message: 'Required value: is required for apply patch',
            field: 'fieldManager',
          },
        ],
      },
      code: 422,
    },
  },
  {
    name: 'invalid without errors',
    given: status.invalid({ group: '', kind: 'Pod' }, 'a', []),
    expected: { message: 'Pod "a" is invalid', reason: 'Invalid', details: { name: 'a', kind: 'Pod' }, code: 422 },
  },
  {
    name: 'not found',
    given: status.notFound({ group: '', resource: 'namespaces' }, 'missing'),
    expected: {
      message: 'namespaces "missing" not found',
      reason: 'NotFound',
      details: { name: 'missing', kind: 'namespaces' },
      code: 404,
    },
  },
  {
    name: 'already exists',
    given: status.alreadyExists(DEPLOYMENTS, 'd'),
    expected: {
      message: 'deployments.apps "d" already exists',
      reason: 'AlreadyExists',
      details: { name: 'd', group: 'apps', kind: 'deployments' },
      code: 409,
    },
  },
  {
    name: 'conflict',
    given: status.conflict({ group: '', resource: 'configmaps' }, 'cm', 'the object has been modified'),
    expected: {
      message: 'Operation cannot be fulfilled on configmaps "cm": the object has been modified',
      reason: 'Conflict',
      details: { name: 'cm', kind: 'configmaps' },
      code: 409,
    },
  },
  {
    name: 'bad request',
    given: status.badRequest('what?'),
    expected: { message: 'what?', reason: 'BadRequest', code: 400 },
  },
  {
    name: 'internal error',
    given: status.internalError('boom'),
    expected: {
      message: 'Internal error occurred: boom',
      reason: 'InternalError',
      details: { causes: [{ message: 'boom' }] },
      code: 500,
    },
  },
];

for (const { name, given, expected } of cases) {
  test(name, () => assert.deepEqual(given, { metadata: {}, status: 'Failure', ...expected }));
}

test('ApiError has the message of its status', () => {
  const error = new status.ApiError(status.badRequest('what?'));
  assert.equal(`${error.name}: ${error.message} (${error.status.code})`, 'ApiError: what? (400)');
});

describe('printFieldError', () => {
  const cases: readonly { name: string; error: FieldError; expected: string }[] = [
    { name: 'required', error: requiredField('fieldManager', ''), expected: 'fieldManager: Required value' },
    {
      name: 'required with a detail',
      error: requiredField('fieldManager', 'is required for apply patch'),
      expected: 'fieldManager: Required value: is required for apply patch',
    },
    {
      name: 'forbidden',
      error: forbiddenField('force', 'may not be specified for non-apply patch'),
      expected: 'force: Forbidden: may not be specified for non-apply patch',
    },
    { name: 'duplicate', error: duplicateValue('spec.x[1]', 'a"b'), expected: 'spec.x[1]: Duplicate value: "a\\"b"' },
    {
      name: 'an unsupported value',
      error: notSupported('spec.restartPolicy', 'Sometimes', ['Always', 'OnFailure', 'Never']),
      expected: 'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
    },
    { name: 'a number', error: invalidValue('p', 1.5, 'd'), expected: 'p: Invalid value: 1.5: d' },
    { name: 'a list', error: invalidValue('p', [999, 'a'], 'd'), expected: 'p: Invalid value: [999,"a"]: d' },
    {
      name: 'characters of HTML',
      error: invalidValue('p', ['<&>'], ''),
      expected: 'p: Invalid value: ["\\u003c\\u0026\\u003e"]',
    },
    { name: 'null', error: invalidValue('p', null, 'd'), expected: 'p: Invalid value: null: d' },
    { name: 'undefined', error: invalidValue('p', undefined, 'd'), expected: 'p: Invalid value: null: d' },
    {
      name: 'no value',
      error: { type: 'FieldValueInvalid', path: '<nil>', detail: 'name must be cluster' },
      expected: '<nil>: Invalid value: name must be cluster',
    },
    {
      name: 'too long',
      error: { type: 'FieldValueTooLong', path: 'p', value: 'x'.repeat(300), detail: 'may not be more than 128 bytes' },
      expected: 'p: Too long: may not be more than 128 bytes',
    },
    {
      name: 'too many',
      error: { type: 'FieldValueTooMany', path: 'p', value: 3, detail: 'must have at most 2 items' },
      expected: 'p: Too many: 3: must have at most 2 items',
    },
    {
      name: 'a long value',
      error: invalidValue('p', 'x'.repeat(16_385), 'd'),
      expected: `p: Invalid value: "${'x'.repeat(16_384)}…": d`,
    },
    {
      name: 'a value that is nested too deeply',
      error: invalidValue('p', JSON.parse('['.repeat(100_000) + ']'.repeat(100_000)), 'd'),
      expected: 'p: Invalid value: …: d',
    },
  ];
  for (const { name, error, expected } of cases) {
    test(name, () => assert.equal(formatFieldError(error), expected));
  }
});

test('several errors without duplicates, in brackets', () => {
  const [a, b] = [requiredField('a', ''), requiredField('b', '')];
  assert.equal(formatFieldErrors([a, a]), 'a: Required value');
  assert.equal(formatFieldErrors([b, a, b]), '[b: Required value, a: Required value]');
});
