import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parseDurationMs } from '../../src/kube/units.ts';

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
  ['2562047h', 9_223_369_200_000],
  ['2562048h', undefined],
  ['1.5.5s', undefined],
  ['..5s', undefined],
];

suite('parseDurationMs returns the milliseconds, or undefined, for', () => {
  for (const [text, ms] of CASES) {
    test(JSON.stringify(text.slice(0, 20)), () => assert.equal(parseDurationMs(text), ms));
  }

  test('a long text, in linear time', () => {
    for (const part of ['9', '.9', '9.', '9m', '9.9ms', 'm']) {
      const startMs = performance.now();
      assert.equal(parseDurationMs(`${part.repeat(200_000)}x`), undefined);
      assert.ok(performance.now() - startMs < 1000, part);
    }
  });
});
