import assert from 'node:assert/strict';
import { test, suite } from 'node:test';
import { parseQuantity, parseDurationMs } from '../../src/kube/units.ts';

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

const CASES: readonly (readonly [text: string, ms: number | undefined])[] = [
  ['5s', 5000],
  ['1m30s', 90_000],
  ['1h0m0.5s', 3_600_500],
  ['250ms', 250],
  ['1.5s', 1500],
  ['.5s', 500],
  ['1.s', 1000],
  ['10us', 0.01],
  ['10µs', 0.01],
  ['0', 0],
  ['0s', 0],
  ['', undefined],
  ['5', undefined],
  ['s', undefined],
  ['-5s', undefined],
  ['5 s', undefined],
  ['5S', undefined],
  ['5s ', undefined],
  ['.s', undefined],
  ['1d', undefined],
  [`${'9'.repeat(400)}h`, undefined],
];

suite('parseDurationMs', () => {
  for (const [text, ms] of CASES) {
    test(JSON.stringify(text.slice(0, 20)), () => assert.equal(parseDurationMs(text), ms));
  }
});
