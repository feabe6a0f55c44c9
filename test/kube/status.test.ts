import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  duplicateValue,
  type FieldError,
  forbiddenField,
  formatFieldError,
  formatFieldErrors,
  invalidValue,
  notSupported,
  requiredField,
} from '../../src/kube/field-error.ts';
import * as status from '../../src/kube/status.ts';

const PODS = { group: '', resource: 'pods' };
const DEPLOYMENTS = { group: 'apps', resource: 'deployments' };

const cases: readonly (readonly [
  name: string,
  status: status.Status,
  code: number,
  reason: string,
  message: string,
  details?: status.Status['details'],
])[] = [
  [
    'forbidden',
    status.forbidden(PODS, 'a', 'because'),
    403,
    'Forbidden',
    'pods "a" is forbidden: because',
    { name: 'a', kind: 'pods' },
  ],
  [
    'forbidden without a name',
    status.forbidden(DEPLOYMENTS, '', 'because'),
    403,
    'Forbidden',
    'deployments.apps is forbidden: because',
    { group: 'apps', kind: 'deployments' },
  ],
  [
    'invalid',
    status.invalid({ group: '', kind: 'Pod' }, 'a', [requiredField('spec.a', ''), requiredField('spec.b', 'x')]),
    422,
    'Invalid',
    'Pod "a" is invalid: [spec.a: Required value, spec.b: Required value: x]',
    {
      name: 'a',
      kind: 'Pod',
      causes: [
        { reason: 'FieldValueRequired', message: 'Required value', field: 'spec.a' },
        { reason: 'FieldValueRequired', message: 'Required value: x', field: 'spec.b' },
      ],
    },
  ],
  ['not found', status.notFound(PODS, 'a'), 404, 'NotFound', 'pods "a" not found', { name: 'a', kind: 'pods' }],
  [
    'conflict',
    status.conflict(PODS, 'a', 'the object has been modified'),
    409,
    'Conflict',
    'Operation cannot be fulfilled on pods "a": the object has been modified',
    { name: 'a', kind: 'pods' },
  ],
  ['bad request', status.badRequest('what?'), 400, 'BadRequest', 'what?'],
  [
    'internal error',
    status.internalError('boom'),
    500,
    'InternalError',
    'Internal error occurred: boom',
    { causes: [{ message: 'boom' }] },
  ],
];

for (const [name, given, code, reason, message, details] of cases) {
  const expected = { metadata: {}, status: 'Failure', code, reason, message, ...(details ? { details } : {}) };
  test(`a Status for ${name} has the text and the details of Kubernetes`, () => assert.deepEqual(given, expected));
}

test('ApiError has the message of its Status', () => {
  const error = new status.ApiError(status.badRequest('what?'));
  assert.equal(`${error.name}: ${error.message} (${error.status.code})`, 'ApiError: what? (400)');
});

describe('formatFieldError returns', () => {
  const LONG = 'x'.repeat(16_385);
  const DEEP: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
  const long: FieldError = { type: 'FieldValueTooLong', path: 'p', value: LONG, detail: 'may not be longer' };
  const many: FieldError = { type: 'FieldValueTooMany', path: 'p', value: 3, detail: 'must have at most 2 items' };
  const noValue: FieldError = { type: 'FieldValueInvalid', path: '<nil>', detail: 'name must be cluster' };
  const cases: readonly (readonly [error: FieldError, expected: string])[] = [
    [requiredField('p', ''), 'p: Required value'],
    [requiredField('p', 'is required'), 'p: Required value: is required'],
    [forbiddenField('force', 'may not be specified'), 'force: Forbidden: may not be specified'],
    [duplicateValue('spec.x[1]', 'a"b'), 'spec.x[1]: Duplicate value: "a\\"b"'],
    [notSupported('p', 'c', ['a', 'b']), 'p: Unsupported value: "c": supported values: "a", "b"'],
    [invalidValue('p', 1.5, 'd'), 'p: Invalid value: 1.5: d'],
    [invalidValue('p', [999, 'a'], 'd'), 'p: Invalid value: [999,"a"]: d'],
    [invalidValue('p', ['<&>'], ''), 'p: Invalid value: ["\\u003c\\u0026\\u003e"]'],
    [invalidValue('p', null, 'd'), 'p: Invalid value: null: d'],
    [invalidValue('p', undefined, 'd'), 'p: Invalid value: null: d'],
    [noValue, '<nil>: Invalid value: name must be cluster'],
    [long, 'p: Too long: may not be longer'],
    [many, 'p: Too many: 3: must have at most 2 items'],
    [invalidValue('p', LONG, 'd'), `p: Invalid value: "${'x'.repeat(16_384)}…": d`],
    [invalidValue('p', DEEP, 'd'), 'p: Invalid value: …: d'],
  ];
  for (const [error, expected] of cases) {
    test(expected.slice(0, 60), () => assert.equal(formatFieldError(error), expected));
  }
});

test('formatFieldErrors formats several distinct errors in brackets', () => {
  const [a, b] = [requiredField('a', ''), requiredField('b', '')];
  assert.equal(formatFieldErrors([a, a]), 'a: Required value');
  assert.equal(formatFieldErrors([b, a, b]), '[b: Required value, a: Required value]');
});
