import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTokenBucket } from '../../src/cluster/clock.ts';
import { createPooling } from '../../src/cluster/object-pool.ts';
import { createBackoff } from '../../src/cluster/reflector.ts';
import { createStoreWriter, type StoreWriter } from '../../src/cluster/store-writer.ts';
import { createStore } from '../../src/cluster/store.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';

const object = (version: string, uid: string) => ({
  metadata: { name: 'a', namespace: 'n', uid, resourceVersion: version, labels: { version } },
});

/** Runs a step such as `put 8`, `written 12 u2`, `list 9 u1`, `deleted`, `reached 11` or `wait`. */
function run(writer: StoreWriter, clock: FakeClock, step: string): void {
  const [verb, version = '', uid = 'u1'] = step.split(' ');
  if (verb === 'put') writer.put(object(version, uid));
  else if (verb === 'remove') writer.remove(object(version, uid));
  else if (verb === 'written') writer.written(object(version, uid));
  else if (verb === 'list') writer.retain(new Set(uid === 'none' ? [] : [uid]), version);
  else if (verb === 'reached') writer.reached(version);
  else if (verb === 'deleted') writer.deleted('u1', 'a', 'n');
  else clock.advance(60_000);
}

describe('a store writer', () => {
  const cases: readonly (readonly [name: string, steps: string, changes: string])[] = [
    ['stores watch events', 'put 1, put 2, remove 3', 'put 1, put 2, remove 2'],
    ['ignores the watch event of its own write', 'written 10, put 10', 'put 10'],
    ['ignores events older than its own write', 'put 8, written 10, put 9, put 10, put 11', 'put 8, put 10, put 11'],
    [
      'ignores a write if the watch has delivered a newer version',
      'put 10, put 11, reached 11, written 10',
      'put 10, put 11',
    ],
    [
      'ignores a write of an object that was removed after it',
      'put 9, remove 10, reached 10, written 9',
      'put 9, remove 9',
    ],
    ['ignores events older than its own deletion', 'put 8, deleted, put 9, remove 10', 'put 8, remove 8'],
    [
      'keeps a new object with the name of a deleted object',
      'put 8, deleted, written 12 u2, remove 10, put 12 u2',
      'put 8, remove 8, put 12',
    ],
    ['removes objects that a list does not contain', 'put 8, list 9 u2', 'put 8, remove 8'],
    ['removes an object before it stores a new object with its name', 'put 8, put 12 u2', 'put 8, remove 8, put 12'],
    ['ignores an unchanged object in a list', 'put 8, put 8, list 9 u1', 'put 8'],
    ['keeps a write that is newer than a list', 'written 10, list 9 none', 'put 10'],
    ['removes a write that is older than a list', 'written 10, list 11 none', 'put 10, remove 10'],
    [
      'accepts lower resource versions after the cluster is restored from a backup',
      'put 900, list 900 u1, put 7, list 20 u1, written 21',
      'put 900, put 7, put 21',
    ],
    ['drops a write if no watch event follows within a minute', 'written 900, wait, put 7', 'put 900, put 7'],
    ['compares resource versions as integers', 'written 100, put 99', 'put 100'],
  ];
  for (const [name, steps, changes] of cases) {
    test(name, () => {
      const store = createStore();
      const clock = createFakeClock();
      const seen: string[] = [];
      store.subscribe((change) => seen.push(`${change.type} ${change.object.metadata?.resourceVersion}`));
      const writer = createStoreWriter({ kind: 'Lease', store, complete: createPooling(), clock });
      for (const step of steps.split(', ')) run(writer, clock, step);
      assert.equal(seen.join(', '), changes);
    });
  }
});

describe('a token bucket', () => {
  test('permits a burst, then a constant rate', () => {
    const bucket = createTokenBucket({ perSecond: 2, burst: 3 }, createFakeClock());
    assert.deepEqual(
      Array.from({ length: 5 }, () => bucket.reserve()),
      [0, 0, 0, 500, 1000],
    );
  });

  test('holds at most the burst', () => {
    const clock = createFakeClock();
    const bucket = createTokenBucket({ perSecond: 1, burst: 2 }, clock);
    clock.advance(3_600_000);
    assert.deepEqual([bucket.tryTake(), bucket.tryTake(), bucket.tryTake()], [true, true, false]);
    clock.advance(1000);
    assert.deepEqual([bucket.tryTake(), bucket.tryTake()], [true, false]);
  });
});

describe('the backoff', () => {
  test('doubles up to 30 s, with jitter', () => {
    const delays = (random: number, count: number): readonly number[] => {
      const backoff = createBackoff(createFakeClock(), () => random);
      return Array.from({ length: count }, () => backoff.nextMs());
    };
    assert.deepEqual(delays(0, 7), [800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
    assert.equal(delays(0.999, 2000).at(-1), 29_985);
  });

  test('resets after more than two minutes without failures', () => {
    const clock = createFakeClock();
    const backoff = createBackoff(clock, () => 0);
    for (let failures = 0; failures < 5; failures++) clock.advance(backoff.nextMs());
    clock.advance(120_000);
    assert.equal(backoff.nextMs(), 15_000);
    clock.advance(15_000 + 120_001);
    assert.equal(backoff.nextMs(), 800);
  });
});
