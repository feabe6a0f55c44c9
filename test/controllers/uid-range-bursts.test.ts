/** Many namespaces that come at once: nobody who creates a pod in the last of them has to wait for long. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { uidRangeAllocator } from '../../src/controllers/uid-range-allocator.ts';
import { DEFAULT_RANGES } from '../../src/policy/uid-range/ranges.ts';
import { createController, installCrds, runController, type ControllerRun } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

const UIDS = 'openshift.io/sa.scc.uid-range';
const BY_TEST = { fieldManager: 'test' };

suite('a burst of namespaces', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let run: ControllerRun;
  let stateWrites = 0;

  before(async () => {
    started = await startCluster();
    ({ cluster } = started);
    await installCrds(cluster);
    run = runController(createController(uidRangeAllocator, { ranges: DEFAULT_RANGES }), cluster);
    await run.idle();
    cluster.store.subscribe(({ kind }) => {
      if (kind === 'RangeAllocation') stateWrites++;
    });
  });
  after(async () => {
    await run.stop();
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  test('one write of the state object takes blocks for many, and each namespace gets one of its own', async () => {
    const names = Array.from({ length: 300 }, (_, index) => `burst-${index}`);
    await Promise.all(names.map((name) => cluster.create('Namespace', { metadata: { name } }, BY_TEST)));
    await run.idle();
    const blocks = names.map((name) => cluster.store.get('Namespace', name)?.metadata?.annotations?.[UIDS]);
    assert.ok(!blocks.includes(undefined));
    assert.equal(new Set(blocks).size, names.length);
    assert.deepEqual(run.errors(), []);
    assert.ok(stateWrites <= 20, `${stateWrites} writes`);
  });

  test('when there are too few blocks for all, some get one, and that is told once', async () => {
    await run.stop();
    const { start, blockSize } = DEFAULT_RANGES.uidRange;
    const uidRange = { start, end: start + 310 * blockSize - 1, blockSize };
    run = runController(createController(uidRangeAllocator, { ranges: { ...DEFAULT_RANGES, uidRange } }), cluster);
    await run.idle();
    const names = Array.from({ length: 40 }, (_, index) => `late-${index}`);
    await Promise.all(names.map((name) => cluster.create('Namespace', { metadata: { name } }, BY_TEST)));
    await run.idle();
    const blocks = cluster.store.list('Namespace').map(({ metadata }) => metadata?.annotations?.[UIDS]);
    // Of four namespaces that every cluster has, of the burst, and of the late ones.
    assert.equal(blocks.filter((block) => block !== undefined).length, 310);
    assert.equal(new Set(blocks).size, 311);
    assert.deepEqual(run.errors(), [
      'uid range exceeded',
      'the UID range 1000000000-1003099999/10000 is full; you must widen the range in order to allocate more UIDs',
    ]);
  });
});
