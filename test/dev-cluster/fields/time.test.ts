import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readTime } from '../../../src/dev-cluster/fields/time.ts';

suite('times in the words of Go', () => {
  const as = 'as "2006-01-02T15:04:05Z07:00"';
  const micro = 'as "2006-01-02T15:04:05.000000Z07:00"';
  const cases: [text: string, scalar: 'time' | 'micro-time', expected: object][] = [
    ['2024-02-29T23:59:59Z', 'time', { value: '2024-02-29T23:59:59Z' }],
    ['2024-01-01T00:00:00+02:00', 'time', { value: '2023-12-31T22:00:00Z' }],
    ['2024-01-01T00:00:00.5Z', 'time', { value: '2024-01-01T00:00:00Z' }],
    ['2024-01-01T00:00:00.123456Z', 'micro-time', { value: '2024-01-01T00:00:00.123456Z' }],
    [
      '2024-01-01T00:00:00Z',
      'micro-time',
      { error: `parsing time "2024-01-01T00:00:00Z" ${micro}: cannot parse "Z" as ".000000"` },
    ],
    ['', 'time', { error: `parsing time "" ${as}: cannot parse "" as "2006"` }],
    ['2024-01-01', 'time', { error: `parsing time "2024-01-01" ${as}: cannot parse "" as "T"` }],
    [
      '2024-01-01 00:00:00Z',
      'time',
      { error: `parsing time "2024-01-01 00:00:00Z" ${as}: cannot parse " 00:00:00Z" as "T"` },
    ],
    ['2024-01-01T00:00:00', 'time', { error: `parsing time "2024-01-01T00:00:00" ${as}: cannot parse "" as "Z07:00"` }],
    ['2024-01-01T00:00:00Zx', 'time', { error: `parsing time "2024-01-01T00:00:00Zx": extra text: "x"` }],
    ['2024-13-01T00:00:00Z', 'time', { error: 'parsing time "2024-13-01T00:00:00Z": month out of range' }],
    ['2023-02-29T00:00:00Z', 'time', { error: 'parsing time "2023-02-29T00:00:00Z": day out of range' }],
    [
      '2024-01-01T00:00:00+99:00',
      'time',
      { error: 'parsing time "2024-01-01T00:00:00+99:00": time zone offset hour out of range' },
    ],
    ['2024-01-01T24:00:00Z', 'time', { error: 'parsing time "2024-01-01T24:00:00Z": hour out of range' }],
  ];
  for (const [text, scalar, expected] of cases) {
    test(`${text} as ${scalar}`, () => {
      assert.deepEqual(readTime(text, scalar), expected);
    });
  }
});
