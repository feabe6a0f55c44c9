import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseQuantity } from '../../src/kube/units.ts';

const cases: [given: unknown, billionths: bigint | undefined][] = [
  ['0', 0n],
  ['1', 1_000_000_000n],
  [2, 2_000_000_000n],
  ['100m', 100_000_000n],
  ['0.1', 100_000_000n],
  ['.5', 500_000_000n],
  ['1.', 1_000_000_000n],
  ['1n', 1n],
  ['1u', 1000n],
  ['1.5Gi', 1_610_612_736_000_000_000n],
  ['1Ki', 1_024_000_000_000n],
  ['1k', 1_000_000_000_000n],
  ['1e3', 1_000_000_000_000n],
  ['12E', 12_000_000_000_000_000_000_000_000_000n],
  ['-1', -1_000_000_000n],
  ['+1', 1_000_000_000n],
  ['0.0000000001', 1n],
  ['', undefined],
  ['1 Gi', undefined],
  ['Gi', undefined],
  ['1gi', undefined],
  ['1e', undefined],
  ['0x10', undefined],
  [null, undefined],
  [{}, undefined],
];

for (const [given, billionths] of cases) {
  test(JSON.stringify(given), () => assert.equal(parseQuantity(given), billionths));
}
