import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  duplicateValue,
  forbiddenField,
  invalidValue,
  notSupported,
  formatFieldError,
  formatFieldErrors,
  requiredField,
  type FieldError,
} from '../../src/kube/field-error.ts';

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
      name: 'an unsupported value, the others in the order given',
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
      name: 'a value that nobody would read',
      error: invalidValue('p', 'x'.repeat(16_385), 'd'),
      expected: `p: Invalid value: "${'x'.repeat(16_384)}…": d`,
    },
    {
      name: 'a value that has no text',
      error: invalidValue('p', JSON.parse('['.repeat(100_000) + ']'.repeat(100_000)), 'd'),
      expected: 'p: Invalid value: …: d',
    },
  ];
  for (const { name, error, expected } of cases) {
    test(name, () => assert.equal(formatFieldError(error), expected));
  }
});

test('several errors: equal ones once, in brackets if more than one is left', () => {
  const [a, b] = [requiredField('a', ''), requiredField('b', '')];
  assert.equal(formatFieldErrors([a, a]), 'a: Required value');
  assert.equal(formatFieldErrors([b, a, b]), '[b: Required value, a: Required value]');
});
