/** Several replicas that allot at the same time, each with a view of the cluster that is late: no block is given twice. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { createStore } from '../../src/cluster/store.ts';
import { systemClock } from '../../src/cluster/clock.ts';
import { startController, type RunningController } from '../../src/controllers/runtime.ts';
import { uidRangeAllocator } from '../../src/controllers/uid-range-allocator.ts';
import type { Kind } from '../../src/kube/types.ts';
import { parseBitmap } from '../../src/policy/uid-range/bitmap.ts';
import { DEFAULT_RANGES } from '../../src/policy/uid-range/ranges.ts';
import { createController, createRecorder, eventually, installCrds } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

const UIDS = 'openshift.io/sa.scc.uid-range';
const MCS = 'openshift.io/sa.scc.mcs';
const BY_TEST = { fieldManager: 'test' };

suite('replicas that allot at the same time', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  const running: RunningController[] = [];
  /** By block or label: the namespaces that have it now. */
  const holders = new Map<string, Set<string>>();
  const violations: string[] = [];

  before(async () => {
    started = await startCluster();
    ({ cluster } = started);
    await installCrds(cluster);
    cluster.store.subscribe(({ kind, type, object, before: old }) => {
      if (kind !== 'Namespace') return;
      const name = object.metadata?.name ?? '';
      for (const key of [UIDS, MCS]) {
        const had = old?.metadata?.annotations?.[key];
        if (had !== undefined) holders.get(had)?.delete(name);
        const has = type === 'put' ? object.metadata?.annotations?.[key] : undefined;
        if (had !== undefined && has !== undefined && had !== has) violations.push(`${name}: ${had} became ${has}`);
        if (has === undefined) continue;
        const names = (holders.get(has) ?? new Set()).add(name);
        holders.set(has, names);
        if (names.size > 1) violations.push(`${has}: ${[...names].join(', ')}`);
      }
    });
  });
  after(async () => {
    await Promise.all(running.map((one) => one.stop()));
    await started.stop();
  });

  const start = (lagMs: number): RunningController => {
    const one = startController(createController(uidRangeAllocator, { ranges: DEFAULT_RANGES }), {
      ...createRecorder(),
      cluster: lagMs === 0 ? cluster : lateView(cluster, lagMs),
      clock: systemClock,
    });
    running.push(one);
    return one;
  };
  const allHaveRanges = (count: number) =>
    eventually(
      cluster.store,
      () => {
        const namespaces = cluster.store.list('Namespace');
        const isDone = namespaces.length === count && namespaces.every(({ metadata }) => metadata?.annotations?.[UIDS]);
        return isDone ? true : undefined;
      },
      60_000,
    );
  const create = (name: string) => cluster.create('Namespace', { metadata: { name } }, BY_TEST);
  const names = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}-${index}`);

  test('two that start on a cluster with three hundred namespaces', async () => {
    await Promise.all(names('early', 300).map(create));
    start(0);
    start(0);
    await allHaveRanges(304);
    assert.deepEqual(violations, []);
  });

  test('two more, which see everything late, while namespaces come and go', async () => {
    start(20);
    start(50);
    const busy = names('busy', 200).map(async (name, index) => {
      await sleep(index * 3);
      await create(name);
      if (index % 4 !== 0) return;
      await sleep(index % 50);
      await cluster.remove('Namespace', name);
    });
    await Promise.all(busy);
    await cluster.idle();
    await allHaveRanges(304 + 150);
    assert.deepEqual(violations, []);
  });

  test('one that comes and goes, and repairs while others write', async () => {
    const coming = (async () => {
      for (let round = 0; round < 15; round++) {
        const one = start(10);
        await sleep(20);
        await one.stop();
      }
    })();
    for (const name of names('later', 150)) {
      await create(name);
      await sleep(2);
    }
    await coming;
    await allHaveRanges(304 + 150 + 150);
    assert.deepEqual(violations, []);
  });

  test('afterwards the state object knows every block that is in use', () => {
    const taken = parseBitmap(cluster.store.get('RangeAllocation', 'scc-uid')?.data ?? '');
    const used = cluster.store.list('Namespace').map(({ metadata }) => {
      const [start = NaN] = (metadata?.annotations?.[UIDS] ?? '').split('/').map(Number);
      return (start - DEFAULT_RANGES.uidRange.start) / DEFAULT_RANGES.uidRange.blockSize;
    });
    assert.deepEqual(
      used.filter((block) => !taken?.has(block)),
      [],
    );
    // Blocks are lost to races for a while only, and few of them.
    assert.ok([...(taken?.values() ?? [])].length < used.length + 150);
  });
});

/** The same cluster, seen late: every change comes to its store after a while, and its own writes do so too. */
function lateView(cluster: DevCluster, lagMs: number): Cluster {
  const store = createStore();
  for (const kind of ['Namespace', 'RangeAllocation'] satisfies Kind[]) {
    for (const object of cluster.store.list(kind)) store.put(kind, object);
  }
  store.markSynced();
  cluster.store.subscribe(({ kind, type, object }) => {
    const { name = '', namespace } = object.metadata ?? {};
    setTimeout(() => {
      if (type === 'put') store.put(kind, object);
      else store.remove(kind, name, namespace);
    }, lagMs).unref();
  });
  return { ...cluster, store };
}
