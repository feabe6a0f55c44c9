/** Tests the scalar types of API fields with values that Go decodes in an unexpected way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FieldShape, findShapeErrors } from '../../src/kube/field-shape.ts';

const cases: readonly (readonly [shape: FieldShape, accepted: readonly unknown[], rejected: readonly unknown[]])[] = [
  ['string', ['', 'x', null], [0, true, [], {}]],
  ['int32', [0, -2147483648, 2147483647, 1e3], [0.5, 2147483648, -2147483649, '1', true]],
  ['int64', [1e18, -(2 ** 63)], [1e19, 0.5, '1', false]],
  ['intOrString', [1, '', '50%', 'x'], [0.5, 2147483648, true, {}]],
  [
    'quantity',
    [1, 0.5, 1e21, 1e-7, '1', '0.5', '500m', '1Gi', '1E', '1e3', '-1.5E-3', ' 1Gi ', '.5', '.', '+', 'Ki', '00'],
    ['', ' ', true, [], '1 Gi', '1gi', '1e', '1K', '1e3i', '0x10', '1_000', '1Gi\n', 'x', '١'],
  ],
  [
    'time',
    [
      ...[
        '2026-01-31T15:04:05Z',
        '2024-02-29T1:00:00.5+14:00',
        '2026-01-31T15:04:05,123-24:60',
        '0000-01-01T00:00:00Z',
      ],
      '2026-01-31T15:04:05.123456Z',
    ],
    [
      ...['', 0, '2026-01-31', '2026-01-31T15:04:05', '2026-01-31t15:04:05z', '2026-02-29T00:00:00Z'],
      ...['2026-01-31T24:00:00Z', '2026-01-31T23:59:60Z', '2026-00-10T15:04:05Z', '2026-01-31T15:04:05+25:00'],
    ],
  ],
  ['microTime', ['2026-01-31T15:04:05.123456Z'], ['2026-01-31T15:04:05Z', '2026-01-31T15:04:05.1234567Z', '']],
  ['bytes', ['', 'YQ==', 'YWI=', 'YW\nJj', [1, 255, null]], ['YQ', 'YQ=', 'Y_==', 'x', [256], [-1], ['a'], 1, {}]],
  [{ '*': 'string' }, [{}, { a: 'x', b: null }], [[], 'x', { a: 1 }]],
];

for (const [shape, accepted, rejected] of cases) {
  test(`findShapeErrors accepts the values that Go decodes as ${JSON.stringify(shape)}`, () => {
    for (const value of accepted) assert.deepEqual(findShapeErrors(value, shape), [], JSON.stringify(value));
    for (const value of rejected) assert.equal(findShapeErrors(value, shape).length, 1, JSON.stringify(value));
  });
}

test('findShapeErrors reports null in a list unless Go decodes the list', () => {
  assert.equal(findShapeErrors([null], ['string']).length, 1);
  assert.deepEqual(findShapeErrors([null], ['string'], true), []);
});
