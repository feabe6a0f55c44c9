import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { nextEvaluationMs, type ScheduleInput } from '../../../src/policy/rollout/readiness.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = 1000 * HOUR;

suite('the next evaluation', () => {
  const cases: readonly (readonly [name: string, given: Partial<ScheduleInput>, expected: number])[] = [
    ['the first is due at once', {}, 0],
    ['others have their time, also after a restart', { completedMs: NOW - HOUR }, 3 * HOUR],
    ['one that was missed is due at once', { completedMs: NOW - 5 * HOUR }, 0],
    ['not all clusters do it at once', { completedMs: NOW, jitter: 0.1 }, 4.4 * HOUR],
    ['one that came to nothing is repeated soon', { attemptedMs: NOW, failures: 1 }, MINUTE],
    ['then later', { attemptedMs: NOW, failures: 3, completedMs: NOW - HOUR }, 4 * MINUTE],
    ['but not much later', { attemptedMs: NOW - MINUTE, failures: 100 }, 29 * MINUTE],
    ['one that is asked for is due at once', { completedMs: NOW - HOUR, requestedMs: NOW - MINUTE }, 0],
    ['one that was asked for and done is not', { completedMs: NOW - HOUR, requestedMs: NOW - 2 * HOUR }, 3 * HOUR],
    [
      'what is too old to decide is not waited for',
      { completedMs: NOW - 9 * HOUR, isAwaited: true, intervalMs: 24 * HOUR },
      0,
    ],
    ['what is old but not waited for has its time', { completedMs: NOW - 9 * HOUR, intervalMs: 24 * HOUR }, 15 * HOUR],
    ['a time to come is none', { completedMs: NOW + HOUR }, 0],
  ];
  for (const [name, given, expected] of cases) {
    test(name, () => {
      const input = { nowMs: NOW, failures: 0, isAwaited: false, intervalMs: 4 * HOUR, maxAgeMs: 8 * HOUR, jitter: 0 };
      assert.ok(Math.abs(nextEvaluationMs({ ...input, ...given }) - expected) < 1);
    });
  }
});
