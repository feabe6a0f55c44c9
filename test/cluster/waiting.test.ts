/** How long is waited: by limits of our own, and after failures. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createBackoff } from '../../src/cluster/reflector.ts';
import { createTokenBucket } from '../../src/cluster/clock.ts';
import { createFakeClock } from '../support/fake-clock.ts';

describe('a token bucket', () => {
  test('lets a burst through at once and then so many a second', async () => {
    const clock = createFakeClock();
    const bucket = createTokenBucket({ perSecond: 2, burst: 3 }, clock);
    const passed: string[] = [];
    for (const name of ['a', 'b', 'c', 'd', 'e']) void bucket.take().then(() => passed.push(name));
    const after = async (ms: number): Promise<string> => {
      clock.advance(ms);
      await new Promise(setImmediate);
      return passed.join('');
    };
    assert.equal(await after(0), 'abc');
    assert.equal(await after(499), 'abc');
    assert.equal(await after(1), 'abcd');
    assert.equal(await after(500), 'abcde');
  });

  test('never holds more than a burst', () => {
    const clock = createFakeClock();
    const bucket = createTokenBucket({ perSecond: 1, burst: 2 }, clock);
    clock.advance(3_600_000);
    assert.deepEqual([bucket.tryTake(), bucket.tryTake(), bucket.tryTake()], [true, true, false]);
    clock.advance(1000);
    assert.deepEqual([bucket.tryTake(), bucket.tryTake()], [true, false]);
  });

  test('each waiter has its own time limit', async () => {
    const bucket = createTokenBucket({ perSecond: 1, burst: 1 }, createFakeClock());
    await bucket.take();
    const impatient = new AbortController();
    const waiting = bucket.take(impatient.signal);
    impatient.abort();
    await waiting;
  });
});

describe('the wait after failures', () => {
  const waits = (random: number, count: number): readonly number[] => {
    const backoff = createBackoff(createFakeClock(), () => random);
    return Array.from({ length: count }, () => backoff.nextMs());
  };

  test('doubles up to 30 s', () => {
    assert.deepEqual(waits(0, 7), [800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
    assert.deepEqual(waits(0.999, 2000).at(-1), 29_985);
  });

  test('starts from the beginning after two minutes without failure', () => {
    const clock = createFakeClock();
    const backoff = createBackoff(clock, () => 0);
    for (let failures = 0; failures < 5; failures++) clock.advance(backoff.nextMs());
    clock.advance(120_000);
    assert.equal(backoff.nextMs(), 15_000);
    clock.advance(15_000 + 120_001);
    assert.equal(backoff.nextMs(), 800);
  });
});
