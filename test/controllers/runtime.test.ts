import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import {
  type Controller,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
  runYielding,
  watch,
} from '../../src/controllers/controller.ts';
import { type RunningController, startController, startControllers } from '../../src/controllers/runtime.ts';
import { ApiError, conflict, createStatus, notFound } from '../../src/kube/status.ts';
import { createRecorder, type Recorder } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';

const NAMESPACES = { group: '', resource: 'namespaces' };

suite('the controller runtime', () => {
  let started: TestCluster;
  let cluster: Cluster;
  let recorder: Recorder;
  let clock: FakeClock;
  /** The keys that were reconciled, in order. */
  let seen: string[];

  before(async () => {
    started = await startCluster();
    cluster = started.cluster;
  });
  after(() => started.stop());
  beforeEach(() => {
    recorder = createRecorder();
    clock = createFakeClock();
    seen = [];
  });

  const controller = (
    reconcile: (key: string, context: ReconcileContext) => Promise<ReconcileResult>,
    { name = 'demo', ...parts }: Partial<Reconciler & Controller> = {},
  ): Controller => ({
    name,
    runsOn: 'leader',
    create: () => ({
      sources: [],
      ...parts,
      reconcile(key, context) {
        seen.push(key);
        return reconcile(key, context);
      },
    }),
  });
  const start = (one: Controller): RunningController => startController(one, { ...recorder, cluster, clock });
  const pass = async (running: RunningController, ms: number): Promise<void> => {
    clock.advance(ms);
    await running.idle();
  };
  const messages = () => recorder.log.map(({ level, msg, key, delayMs }) => ({ level, msg, key, delayMs }));
  const fine = () => Promise.resolve(undefined);
  const byLabel = watch('Namespace', ({ metadata }) => (metadata?.labels?.['team'] ? [metadata.labels['team']] : []));

  const createNamespace = (name: string, team: string) =>
    cluster.create('Namespace', { metadata: { name, labels: { team } } }, { fieldManager: 'test' });

  test('processes the initial keys first, then the keys of existing objects', async () => {
    const running = start(
      controller(fine, {
        initialKeys: ['first'],
        sources: [watch('Namespace', ({ metadata }) => [metadata?.name ?? ''])],
      }),
    );
    await running.idle();
    assert.deepEqual(seen, ['first', 'default', 'kube-node-lease', 'kube-public', 'kube-system']);
    await running.stop();
  });

  test('enqueues keys for created, changed and deleted objects, and merges equal keys', async () => {
    const running = start(controller(fine, { sources: [byLabel] }));
    await createNamespace('hears-1', 'red');
    await running.idle();
    assert.deepEqual(seen, ['red']);
    await cluster.patch(
      'Namespace',
      { name: 'hears-1' },
      [{ op: 'add', path: '/metadata/labels/team', value: 'green' }],
      { fieldManager: 'test' },
    );
    await running.idle();
    assert.deepEqual(seen, ['red', 'green']);
    await cluster.remove('Namespace', 'hears-1');
    await started.cluster.idle();
    await running.idle();
    assert.deepEqual(new Set(seen.slice(2)), new Set(['green']));
    await running.stop();
    await createNamespace('hears-2', 'late');
    await running.idle();
    assert.ok(!seen.includes('late'));
  });

  test('logs an error in a source, which does not affect the writer', async () => {
    const broken = watch('Namespace', ({ metadata }) => {
      if (metadata?.name === 'broken-source') throw new Error('boom');
      return [];
    });
    const running = start(controller(fine, { sources: [broken, byLabel] }));
    await createNamespace('broken-source', 'blue');
    await running.idle();
    assert.ok(seen.includes('blue'));
    const [line] = recorder.log.filter(({ msg }) => msg === 'failed to compute keys for an object');
    assert.deepEqual([line?.['level'], line?.['kind'], line?.['name']], [50, 'Namespace', 'broken-source']);
    await running.stop();
  });

  const conflicting = new ApiError(conflict(NAMESPACES, 'a', 'it has changed'));
  const failures: readonly (readonly [name: string, error: Error, expected: { level: number; msg: string }])[] = [
    ['an exception', new TypeError('boom'), { level: 50, msg: 'failed to reconcile, retrying' }],
    [
      'an API error',
      new ApiError(createStatus(403, 'Forbidden', 'no')),
      { level: 50, msg: 'failed to reconcile, retrying' },
    ],
    [
      'a webhook that is not reachable yet',
      new ApiError(
        createStatus(500, 'InternalError', 'Internal error occurred: failed calling webhook "a.b.c": refused'),
      ),
      { level: 20, msg: 'failed to reconcile, retrying' },
    ],
    ['a conflict', conflicting, { level: 20, msg: 'conflict, retrying' }],
    // Load balancers without a backend also respond with 404.
    [
      'an object that does not exist',
      new ApiError(notFound(NAMESPACES, 'a')),
      { level: 20, msg: 'object not found, retrying' },
    ],
  ];
  for (const [name, error, expected] of failures) {
    test(`retries a reconcile after its delay that fails with ${name}`, async () => {
      const running = start(controller(() => Promise.reject(error), { initialKeys: ['a'] }));
      await running.idle();
      await pass(running, 4);
      assert.deepEqual(seen, ['a']);
      await pass(running, 1);
      assert.deepEqual(seen, ['a', 'a']);
      await pass(running, 9);
      await pass(running, 1);
      assert.equal(seen.length, 3);
      const retried = [5, 10, 20].map((delayMs) => ({ ...expected, key: 'a', delayMs }));
      assert.deepEqual(
        messages().filter(({ key }) => key === 'a'),
        retried,
      );
      const metrics = await recorder.metrics.expose();
      const errors = expected.msg === 'failed to reconcile, retrying' ? 3 : 0;
      assert.match(metrics, new RegExp(`portcullis_controller_reconcile_errors_total{controller="demo"} ${errors}\\n`));
      assert.match(metrics, /workqueue_retries_total\{name="demo"\} 3\n/);
      await running.stop();
      assert.equal(clock.pending(), 0);
    });
  }

  const many = (count: number): readonly string[] => Array.from({ length: count }, (_, index) => `key-${index}`);
  const delays = (): readonly unknown[] => recorder.log.flatMap(({ delayMs }) => delayMs ?? []);

  for (const [maxRetryMs, last] of [
    [undefined, [655_360, 1_000_000, 1_000_000]],
    [12, [12, 12, 12]],
  ] as const) {
    test(`doubles delays up to a maximum of ${maxRetryMs ?? 'the default'}`, async () => {
      const failing = () => Promise.reject(new Error('boom'));
      const running = start(controller(failing, { initialKeys: ['a'], ...(maxRetryMs ? { maxRetryMs } : {}) }));
      await running.idle();
      for (let count = 1; count < 20; count++) await pass(running, Number(delays().at(-1)));
      const first = [5, 10, 20, 40, 80].map((delayMs) => Math.min(delayMs, maxRetryMs ?? Infinity));
      assert.deepEqual([delays().slice(0, 5), delays().slice(17)], [first, last]);
      await running.stop();
    });
  }

  test('limits retries of all keys to a burst of 100, then ten per second', async () => {
    const running = start(controller(() => Promise.reject(new Error('boom')), { initialKeys: many(103) }));
    await running.idle();
    assert.deepEqual(delays().slice(98), [5, 5, 100, 200, 300]);
    await running.stop();
  });

  test('does not count conflicts against the retry rate of all keys', async () => {
    const failing = (key: string) => Promise.reject(key === 'last' ? new Error('boom') : conflicting);
    const running = start(controller(failing, { initialKeys: [...many(1000), 'last'] }));
    await running.idle();
    assert.deepEqual(new Set(delays()), new Set([5]));
    assert.equal(delays().length, 1001);
    await running.stop();
  });

  test('processes keys in order, and each key once', async () => {
    const initialKeys = ['a', 'b', 'a', '__proto__', 'constructor', 'b'];
    const running = start(controller(fine, { initialKeys }));
    await running.idle();
    assert.deepEqual(seen, ['a', 'b', '__proto__', 'constructor']);
    await running.stop();
  });

  test('applies the shortest of several delays for a key', async () => {
    const enqueueAll = (key: string, { enqueue }: ReconcileContext) => {
      if (key === 'start') for (const delayMs of [100, 30, 60]) enqueue('a', delayMs);
      return fine();
    };
    const running = start(controller(enqueueAll, { initialKeys: ['start'] }));
    await running.idle();
    await pass(running, 29);
    assert.deepEqual(seen, ['start']);
    await pass(running, 1);
    await pass(running, 1000);
    assert.deepEqual(seen, ['start', 'a']);
    await running.stop();
  });

  test('exposes metrics of the queue', async () => {
    let finish = (): void => undefined;
    const blocked = () => new Promise<undefined>((resolve) => (finish = () => resolve(undefined)));
    const running = start(controller(blocked, { initialKeys: ['a', 'b', 'a'] }));
    clock.advance(2000);
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(3000);
    const text = await recorder.metrics.expose();
    const lines = text.split('\n').filter((line) => line.startsWith('workqueue_') && !line.includes('_bucket'));
    assert.deepEqual(lines, [
      'workqueue_depth{name="demo"} 1',
      'workqueue_unfinished_work_seconds{name="demo"} 3',
      'workqueue_longest_running_processor_seconds{name="demo"} 3',
      'workqueue_adds_total{name="demo"} 2',
      'workqueue_retries_total{name="demo"} 0',
      'workqueue_queue_duration_seconds_sum{name="demo"} 2',
      'workqueue_queue_duration_seconds_count{name="demo"} 1',
      'workqueue_work_duration_seconds_sum{name="demo"} 0',
      'workqueue_work_duration_seconds_count{name="demo"} 0',
    ]);
    const stopping = running.stop();
    finish();
    await stopping;
    const ended = await recorder.metrics.expose();
    assert.match(ended, /workqueue_work_duration_seconds_sum\{name="demo"\} 3\n/);
    assert.doesNotMatch(ended, /workqueue_depth\{/);
  });

  test('resets the delay of a key after a success', async () => {
    const outcomes = ['fail', 'fail', 'ask', 'fail', 'done'];
    const running = start(
      controller(
        () => {
          const outcome = outcomes.shift();
          if (outcome === 'fail') return Promise.reject(new Error('boom'));
          return Promise.resolve(outcome === 'ask' ? { requeueAfterMs: 100 } : undefined);
        },
        { initialKeys: ['a'] },
      ),
    );
    await running.idle();
    for (const ms of [5, 10, 100, 5]) await pass(running, ms);
    assert.equal(seen.length, 5);
    assert.equal(clock.pending(), 0);
    await running.stop();
  });

  test('processes a key again after requeueAfterMs', async () => {
    const running = start(controller(() => Promise.resolve({ requeueAfterMs: 1000 }), { initialKeys: ['a'] }));
    await running.idle();
    await pass(running, 999);
    assert.equal(seen.length, 1);
    await pass(running, 1);
    assert.equal(seen.length, 2);
    await pass(running, 1000);
    assert.equal(seen.length, 3);
    await running.stop();
  });

  /** Produces one key from changes to namespaces whose names have the prefix. */
  const byName = (prefix: string) =>
    watch('Namespace', ({ metadata }) => (metadata?.name?.startsWith(prefix) ? ['busy'] : []), true);

  test('does not process a key again after its earlier delay if an event has caused its processing', async () => {
    const running = start(
      controller(() => Promise.resolve(seen.length === 1 ? { requeueAfterMs: 1000 } : undefined), {
        initialKeys: ['busy'],
        sources: [byName('early-event')],
      }),
    );
    await running.idle();
    await createNamespace('early-event', '');
    await running.idle();
    assert.deepEqual(seen, ['busy', 'busy']);
    assert.equal(clock.pending(), 0);
    await running.stop();
  });

  test('delays a key after long work by nine times the duration, and merges its events in between', async () => {
    const work = function* (): Generator<void, void> {
      for (let step = 0; step < 10; step++) {
        clock.advance(2);
        yield;
      }
    };
    const running = start(
      controller(
        async (_key, context) => {
          await runYielding(work(), context);
          return undefined;
        },
        { initialKeys: ['busy'], sources: [byName('rest-')] },
      ),
    );
    await running.idle();
    assert.equal(clock.now(), 20);
    await createNamespace('rest-1', '');
    await createNamespace('rest-2', '');
    await pass(running, 179);
    assert.deepEqual(seen, ['busy']);
    await pass(running, 1);
    assert.deepEqual(seen, ['busy', 'busy']);
    await running.stop();
    assert.equal(clock.pending(), 0);
  });

  test('runs one slice of all controllers in each turn of the event loop', async () => {
    const turns: number[] = [];
    let turn = 0;
    let isOver = false;
    const count = (): void => {
      turn++;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const work = function* (): Generator<void, void> {
      for (let slice = 0; slice < 10; slice++) {
        clock.advance(5);
        turns.push(turn);
        yield;
      }
    };
    const reconcile = async (_key: string, context: ReconcileContext): Promise<undefined> => {
      await runYielding(work(), context);
      return undefined;
    };
    const many = ['one', 'two', 'three'].map((name) => controller(reconcile, { name, initialKeys: [name] }));
    const running = startControllers(many, { ...recorder, cluster, clock });
    await running.idle();
    isOver = true;
    assert.equal(turns.length, 30);
    const perTurn = Map.groupBy(turns.slice(3), (one) => one);
    assert.deepEqual(
      [...perTurn.values()].filter(({ length }) => length > 1),
      [],
    );
    await running.stop();
  });

  test('enqueues the keys of all objects in a resync', async () => {
    await createNamespace('resync', 'grey');
    const running = start(controller(fine, { sources: [byLabel], initialKeys: ['once'], resyncMs: 60_000 }));
    await running.idle();
    const first = seen.length;
    await pass(running, 59_999);
    assert.equal(seen.length, first);
    await pass(running, 1);
    await pass(running, 60_000);
    assert.equal(seen.filter((key) => key === 'grey').length, 3);
    assert.equal(seen.filter((key) => key === 'once').length, 1);
    await running.stop();
    assert.equal(clock.pending(), 0);
  });

  for (const concurrency of [1, 3]) {
    test(`processes ${concurrency} keys at a time, but no key concurrently with itself`, async () => {
      const keys = Array.from({ length: 12 }, (_, index) => `key-${index}`);
      const running = new Set<string>();
      let most = 0;
      const one = start(
        controller(
          async (key, { enqueue }) => {
            assert.ok(!running.has(key));
            running.add(key);
            most = Math.max(most, running.size);
            if (seen.length <= keys.length) enqueue(key);
            await new Promise((resolve) => setImmediate(resolve));
            running.delete(key);
            return undefined;
          },
          { initialKeys: keys, concurrency },
        ),
      );
      await one.idle();
      assert.equal(most, concurrency);
      assert.equal(seen.length, 2 * keys.length);
      await one.stop();
    });
  }

  for (const concurrency of [1, 16]) {
    test(`yields to the event loop under load, with ${concurrency} keys at a time`, async () => {
      const keys = Array.from({ length: 32 }, (_, index) => `key-${index}`);
      let turns = 0;
      const timer = setInterval(() => turns++, 0);
      const one = startController(
        controller(
          () => {
            const endMs = performance.now() + 3;
            while (performance.now() < endMs);
            return fine();
          },
          { initialKeys: keys, concurrency },
        ),
        { ...recorder, cluster, clock: { ...clock, now: () => performance.now() } },
      );
      await one.idle();
      clearInterval(timer);
      assert.equal(seen.length, keys.length);
      assert.ok(turns >= 5, `${turns} turns`);
      await one.stop();
    });
  }

  test('waits for running reconciles when it stops, and starts no further reconciles', async () => {
    let finish = (): void => undefined;
    let signal: AbortSignal | undefined;
    let ended = false;
    const running = start(
      controller(
        async (_key, context) => {
          ({ signal } = context);
          await new Promise<void>((resolve) => (finish = resolve));
          ended = true;
          return { requeueAfterMs: 1 };
        },
        { initialKeys: ['a', 'b'] },
      ),
    );
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(signal?.aborted, false);
    const stopping = running.stop();
    assert.equal(signal?.aborted, true);
    assert.equal(ended, false);
    finish();
    await stopping;
    assert.equal(ended, true);
    await pass(running, 1000);
    assert.deepEqual(seen, ['a']);
  });

  test('logs no errors after it has stopped', async () => {
    const running = start(
      controller(
        (_key, { signal }) =>
          new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted')))),
        { initialKeys: ['a'] },
      ),
    );
    await new Promise((resolve) => setImmediate(resolve));
    await running.stop();
    assert.deepEqual(
      recorder.log.map(({ msg }) => msg),
      ['controller started', 'controller stopped'],
    );
  });

  test('does not fail a reconcile whose event cannot be recorded', async () => {
    const pod = { metadata: { name: 'p', namespace: 'no-such-namespace' } };
    const running = start(
      controller(
        (_key, { recordEvent }) => {
          recordEvent('Pod', pod, { type: 'Normal', reason: 'Demo', action: 'Demo', message: 'demo' });
          return fine();
        },
        { initialKeys: ['a'] },
      ),
    );
    await running.idle();
    assert.deepEqual(
      recorder.log.filter(({ reason }) => reason === 'Demo').map(({ level, msg }) => [level, msg]),
      [[20, 'event not recorded']],
    );
    await running.stop();
  });

  test('runs several controllers concurrently, and restarts them without their earlier state', async () => {
    const counting = (name: string): Controller => ({
      name,
      runsOn: 'leader',
      create() {
        let count = 0;
        return {
          initialKeys: ['key'],
          sources: [],
          reconcile: () => Promise.resolve(void seen.push(`${name} ${++count}`)),
        };
      },
    });
    const pair = [counting('a'), counting('b')];
    for (let round = 1; round <= 2; round++) {
      const running = startControllers(pair, { ...recorder, cluster, clock });
      await running.idle();
      await running.stop();
      assert.deepEqual(seen, Array.from({ length: round }, () => ['a 1', 'b 1']).flat());
    }
  });
});
