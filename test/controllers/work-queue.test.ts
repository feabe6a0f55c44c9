import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createRetryDelays, MAX_RETRY_MS, createWorkQueue, type WorkQueue } from '../../src/controllers/runtime.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';

interface TestQueue extends WorkQueue {
  readonly clock: FakeClock;
  readonly metrics: Metrics;
  ready(): number;
  takeAll(): string[];
}

function startQueue(): TestQueue {
  const clock = createFakeClock();
  const metrics = createMetrics({ version: '0.0.0' });
  let ready = 0;
  const queue = createWorkQueue({ name: 'demo', clock, metrics: metrics.workQueue, onReady: () => ready++ });
  return {
    ...queue,
    clock,
    metrics,
    ready: () => ready,
    takeAll() {
      const taken: string[] = [];
      for (let key = queue.take(); key !== undefined; key = queue.take()) taken.push(key);
      return taken;
    },
  };
}

suite('a work queue', () => {
  test('gives keys in the order in which they came, each once', () => {
    const queue = startQueue();
    for (const key of ['a', 'b', 'a', '__proto__', 'constructor', 'b']) queue.add(key);
    assert.equal(queue.ready(), 4);
    assert.deepEqual(queue.takeAll(), ['a', 'b', '__proto__', 'constructor']);
    assert.equal(queue.take(), undefined);
  });

  test('gives a key that comes while it is worked on again once that is done', () => {
    const queue = startQueue();
    queue.add('a');
    queue.take();
    queue.add('a');
    queue.add('a');
    assert.equal(queue.take(), undefined);
    queue.done('a');
    assert.equal(queue.take(), 'a');
    queue.done('a');
    assert.equal(queue.take(), undefined);
  });

  test('of several delays the shortest counts', () => {
    const queue = startQueue();
    queue.addAfter('a', 100);
    queue.addAfter('a', 30);
    queue.addAfter('a', 60);
    queue.clock.advance(29);
    assert.deepEqual(queue.takeAll(), []);
    queue.clock.advance(1);
    assert.deepEqual(queue.takeAll(), ['a']);
    queue.done('a');
    queue.clock.advance(1000);
    assert.deepEqual(queue.takeAll(), []);
  });

  test('after it was closed nothing waits and nothing comes', () => {
    const queue = startQueue();
    queue.add('a');
    queue.addAfter('b', 10);
    queue.close();
    queue.add('c');
    queue.addAfter('d', 10);
    assert.deepEqual(queue.takeAll(), []);
    assert.equal(queue.clock.pending(), 0);
  });

  test('counts what it does', async () => {
    const queue = startQueue();
    for (const key of ['a', 'b', 'a']) queue.add(key);
    queue.clock.advance(2000);
    queue.take();
    queue.clock.advance(3000);
    const text = await queue.metrics.expose();
    const lines = text.split('\n').filter((line) => line.startsWith('workqueue_') && !line.includes('_bucket'));
    assert.deepEqual(lines, [
      'workqueue_depth{name="demo"} 1',
      'workqueue_unfinished_work_seconds{name="demo"} 3',
      'workqueue_longest_running_processor_seconds{name="demo"} 3',
      'workqueue_adds_total{name="demo"} 2',
      'workqueue_queue_duration_seconds_sum{name="demo"} 2',
      'workqueue_queue_duration_seconds_count{name="demo"} 1',
      'workqueue_work_duration_seconds_sum{name="demo"} 0',
      'workqueue_work_duration_seconds_count{name="demo"} 0',
    ]);
    queue.done('a');
    assert.match(await queue.metrics.expose(), /workqueue_work_duration_seconds_sum\{name="demo"\} 3\n/);
    queue.close();
    assert.doesNotMatch(await queue.metrics.expose(), /workqueue_depth\{/);
  });
});

suite('the delays of retries', () => {
  test('double with every failure, up to the longest', () => {
    const delays = createRetryDelays(createFakeClock());
    const computed = Array.from({ length: 20 }, () => delays.afterFailure('a'));
    assert.deepEqual(computed.slice(0, 5), [5, 10, 20, 40, 80]);
    assert.deepEqual(computed.slice(-3), [655_360, MAX_RETRY_MS, MAX_RETRY_MS]);
    assert.equal(delays.afterFailure('b'), 5);
    delays.reset('a');
    assert.equal(delays.afterFailure('a'), 5);
  });

  test('the longest can be another', () => {
    const delays = createRetryDelays(createFakeClock(), 12);
    assert.deepEqual(
      [delays.afterFailure('a'), delays.afterFailure('a'), delays.afterFailure('a'), delays.afterFailure('a')],
      [5, 10, 12, 12],
    );
  });

  test('of all keys together: a hundred at once, then ten in a second', () => {
    const clock = createFakeClock();
    const delays = createRetryDelays(clock);
    const computed = Array.from({ length: 103 }, (_, index) => delays.afterFailure(`key-${index}`));
    assert.deepEqual(computed.slice(98), [5, 5, 100, 200, 300]);
    clock.advance(1300);
    assert.equal(delays.afterFailure('later'), 5);
  });

  test('conflicts hold nobody else back', () => {
    const delays = createRetryDelays(createFakeClock());
    for (let index = 0; index < 1000; index++) delays.afterConflict(`key-${index}`);
    assert.equal(delays.afterFailure('a'), 5);
    assert.deepEqual([delays.afterConflict('b'), delays.afterConflict('b')], [5, 10]);
  });
});
