/**
 * Tests that replicas never allocate a block twice, even if they allocate at the same time and each has a delayed view
 * of the cluster.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/cluster/clock.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { createStore } from '../../src/cluster/store.ts';
import { type RunningController, startController } from '../../src/controllers/runtime.ts';
import { uidRangeAllocator, uidRangeStandby } from '../../src/controllers/uid-range-allocator.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { type AdmissionRequest, allow, type Decision, deny } from '../../src/kube/admission.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import type { RangeAllocation } from '../../src/kube/scc.ts';
import { ApiError, createStatus, forbidden } from '../../src/kube/status.ts';
import type { Namespace } from '../../src/kube/types.ts';
import { DEFAULT_RANGES, formatBlocks, parseBlocks, type RangeSettings } from '../../src/policy/uid-range/index.ts';
import { blockIndexes, blockSet } from '../support/blocks.ts';
import {
  type ControllerRun,
  createController,
  createRecorder,
  installCrds,
  runController,
  withRanges,
} from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { eventually } from '../support/eventually.ts';
import { startVerdictWebhook, type VerdictWebhook } from '../support/verdict-webhook.ts';

const UIDS = 'openshift.io/sa.scc.uid-range';
const GROUPS = 'openshift.io/sa.scc.supplemental-groups';
const MCS = 'openshift.io/sa.scc.mcs';
const BY_TEST = { fieldManager: 'test' };
const MINUTE = 60_000;

/** Twelve blocks. The default namespaces use four of them. */
const SETTINGS: RangeSettings = {
  uidRange: { start: 1000, end: 1119, blockSize: 10 },
  mcsRange: { prefix: 's0:', length: 2, categories: 1024 },
  labelsPerBlock: 5,
};
const FULL = 'the UID range 1000-1119/10 is full; you must widen the range in order to allocate more UIDs';

suite('the range allocator', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let runs: ControllerRun[];
  let webhooks: VerdictWebhook[];

  beforeEach(async () => {
    started = await startCluster();
    ({ cluster } = started);
    runs = [];
    webhooks = [];
    await installCrds(cluster);
  });
  afterEach(async () => {
    await Promise.all(runs.map((one) => one.stop()));
    await Promise.all(webhooks.map((one) => one.stop()));
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const run = async (settings = SETTINGS, view: Cluster = cluster): Promise<ControllerRun> => {
    const one = runController(createController(uidRangeAllocator, { settings: withRanges(settings) }), view);
    runs.push(one);
    await one.idle();
    return one;
  };
  const verdict = async (
    resources: readonly string[],
    decide: (request: AdmissionRequest) => Decision | Promise<Decision>,
  ): Promise<VerdictWebhook> => {
    const webhook = await startVerdictWebhook(cluster, resources, decide);
    webhooks.push(webhook);
    return webhook;
  };
  const create = async (name: string, annotations: Readonly<Record<string, string>> = {}): Promise<void> => {
    await cluster.create('Namespace', { metadata: { name, annotations } }, BY_TEST);
  };
  const remove = async (name: string): Promise<void> => {
    await cluster.remove('Namespace', name);
    await cluster.idle();
    assert.equal(cluster.store.get('Namespace', name), undefined);
  };
  const getAnnotations = (name: string) => cluster.store.get('Namespace', name)?.metadata?.annotations ?? {};
  const blocks = (): Record<string, string | undefined> =>
    Object.fromEntries(
      cluster.store.list('Namespace').map(({ metadata }) => [metadata?.name ?? '', metadata?.annotations?.[UIDS]]),
    );
  const state = (): RangeAllocation => cluster.store.get('RangeAllocation', 'scc-uid') ?? {};
  const taken = (): number[] => [...blockIndexes(parseBlocks(state().data ?? '') ?? [])];
  const setState = async (fields: Pick<RangeAllocation, 'range' | 'data'>): Promise<void> => {
    await cluster.update('RangeAllocation', { ...state(), ...fields }, BY_TEST);
  };
  const warnings = ({ log }: ControllerRun): unknown[] =>
    log.filter(({ level }) => level === 40).map(({ reason }) => reason);
  const events = (reason: string) =>
    cluster.storage.list({ group: '', resource: 'events' }).filter((event) => event['reason'] === reason);

  const FOUR = {
    default: '1000/10',
    'kube-node-lease': '1010/10',
    'kube-public': '1020/10',
    'kube-system': '1030/10',
  };

  suite('on a cluster without ranges,', () => {
    test('every namespace gets a block of UIDs, groups and an SELinux level', async () => {
      const one = await run();
      assert.deepEqual(blocks(), FOUR);
      await create('shop');
      await one.idle();
      assert.deepEqual(getAnnotations('shop'), { [UIDS]: '1040/10', [GROUPS]: '1040/10', [MCS]: 's0:c6,c5' });
      assert.deepEqual([state().range, taken()], ['1000-1119/10', [0, 1, 2, 3, 4]]);
      assert.deepEqual(one.errors(), []);
    });

    test('the controller becomes the owner of the annotations', async () => {
      const one = await run();
      await create('shop');
      await one.idle();
      const managers = cluster.store.get('Namespace', 'shop')?.metadata?.managedFields ?? [];
      const mine = managers.find(({ manager }) => manager === uidRangeAllocator.name);
      assert.equal(mine?.operation, 'Apply');
      assert.deepEqual(mine.fieldsV1, {
        'f:metadata': { 'f:annotations': { [`f:${MCS}`]: {}, [`f:${GROUPS}`]: {}, [`f:${UIDS}`]: {} } },
      });
    });

    test('an event is recorded for each namespace', async () => {
      const one = await run();
      await create('shop');
      await one.idle();
      const told = events('CreatedSCCRanges');
      assert.equal(told.length, 5);
      const event = told.find(({ involvedObject }) => (involvedObject as Namespace['metadata'])?.name === 'shop');
      assert.deepEqual([event?.['type'], event?.['message']], ['Normal', 'created SCC ranges for shop namespace']);
      assert.deepEqual(event?.['reportingComponent'], uidRangeAllocator.name);
    });

    test('invalid ranges are reported in one event until they change', async () => {
      const one = await run();
      await create('root', { [UIDS]: '0/10', [MCS]: 'rubbish' });
      await create('odd', { [UIDS]: 'rubbish', [GROUPS]: '9-1', [MCS]: 's0-s0:c0.c1023' });
      await create('taken', { [UIDS]: '1005/10', [MCS]: 's0:c9,c1' });
      await create('fine', { [UIDS]: '5000/10', [MCS]: 's0' });
      await one.idle();
      const told = (): unknown[] => events('InvalidSCCRanges').map(({ type, message }) => [type, message]);
      assert.deepEqual(told(), [], 'the check waits for the end of a burst');
      const FIX = 'correct the annotations, or remove them to allocate new ranges';
      const root = `${UIDS}="0/10" includes 0, the UID of root; ${MCS}="rubbish" is not an SELinux level; ${FIX}`;
      const odd = `${UIDS}="rubbish" is invalid (expected integer); ${GROUPS}="9-1" contains no IDs: 9 is greater than 1; ${FIX}`;
      const shared = (other: string): string => `shares IDs with namespace "${other}"; ${FIX}`;
      const messages = [odd, root, shared('taken'), shared('taken'), shared('default')];
      await one.pass(1000);
      assert.deepEqual(told().toSorted(), messages.map((message) => ['Warning', message]).toSorted());
      await cluster.update(
        'Namespace',
        { metadata: { ...cluster.store.get('Namespace', 'fine')?.metadata, labels: { a: 'b' } } },
        BY_TEST,
      );
      await one.pass(1000);
      assert.equal(told().length, 5);
      assert.deepEqual(one.errors(), []);
    });
  });

  const allocated = () => Object.fromEntries(Object.entries(blocks()).filter(([, block]) => block !== undefined));

  test('if SCCs are not enforced by default, only namespaces that enforce them get ranges', async () => {
    const settings = withRanges(SETTINGS);
    settings.sccMode = 'report';
    const one = runController(createController(uidRangeAllocator, { settings }), cluster);
    runs.push(one);
    await create('shop');
    await one.idle();
    assert.deepEqual(cluster.store.list('RangeAllocation'), []);
    assert.deepEqual(allocated(), {});
    await cluster.create(
      'Namespace',
      { metadata: { name: 'bank', labels: { 'portcullis.dev/scc': 'enforce' } } },
      BY_TEST,
    );
    await cluster.idle();
    await one.idle();
    assert.deepEqual(allocated(), { bank: '1000/10' });
    settings.sccMode = 'enforce';
    await one.idle();
    assert.equal(Object.keys(allocated()).length, 6);
    assert.deepEqual(one.errors(), []);
  });

  suite('without a leader,', () => {
    const standby = async (settings = withRanges(SETTINGS)): Promise<ControllerRun> => {
      const one = runController(createController(uidRangeStandby, { settings }), cluster);
      runs.push(one);
      await one.idle();
      return one;
    };

    test('another replica allocates a block for a namespace after 3 s', async () => {
      await (await run()).stop();
      const one = await standby();
      await create('shop');
      await one.idle();
      await one.pass(2000);
      assert.deepEqual(allocated(), FOUR);
      await one.pass(1000);
      assert.deepEqual(allocated(), { ...FOUR, shop: '1040/10' });
      assert.deepEqual(one.errors(), []);
    });

    test('another replica creates the RangeAllocation', async () => {
      const one = await standby();
      await one.pass(3000);
      assert.deepEqual([allocated(), taken()], [FOUR, [0, 1, 2, 3]]);
    });
  });

  suite('with existing annotations,', () => {
    test('existing blocks are adopted unchanged', async () => {
      const own = { [UIDS]: '1020/10', [GROUPS]: '5/5', [MCS]: 's0:c9,c8' };
      await create('adopted', own);
      const before = cluster.store.get('Namespace', 'adopted');
      const one = await run();
      assert.equal(cluster.store.get('Namespace', 'adopted'), before);
      assert.deepEqual(blocks(), { ...FOUR, 'kube-public': '1030/10', 'kube-system': '1040/10', adopted: '1020/10' });
      await one.pass(20 * MINUTE);
      assert.equal(cluster.store.get('Namespace', 'adopted'), before);
    });

    test('an existing RangeAllocation is used', async () => {
      await cluster.create(
        'RangeAllocation',
        { metadata: { name: 'scc-uid' }, range: '1000-1119/10', data: formatBlocks(blockSet([0, 2])) },
        BY_TEST,
      );
      await run();
      assert.deepEqual(Object.values(blocks()), ['1010/10', '1030/10', '1040/10', '1050/10']);
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
    });

    test('existing SELinux levels and groups do not change', async () => {
      await create('labeled', { [MCS]: 's0:c500,c400' });
      await create('grouped', { [GROUPS]: '1/1,2/2' });
      await run();
      assert.deepEqual(getAnnotations('labeled'), { [UIDS]: '1040/10', [GROUPS]: '1040/10', [MCS]: 's0:c500,c400' });
      assert.deepEqual(getAnnotations('grouped'), { [UIDS]: '1050/10', [GROUPS]: '1/1,2/2', [MCS]: 's0:c7,c4' });
    });

    test('a namespace gets a new block after its UID range is removed', async () => {
      const one = await run();
      const path = `/metadata/annotations/${UIDS.replace('/', '~1')}`;
      await cluster.patch('Namespace', { name: 'kube-public' }, [{ op: 'remove', path }], BY_TEST);
      await one.idle();
      assert.equal(getAnnotations('kube-public')[UIDS], '1040/10');
      assert.deepEqual(one.errors(), []);
    });
  });

  suite('the RangeAllocation', () => {
    test('is reported and recreated if its range differs', async () => {
      const one = await run();
      await setState({ range: '1000-1999/10', data: 'AA==' });
      await create('shop');
      await one.idle();
      assert.deepEqual(warnings(one), ['conflicting UID range; expected 1000-1119/10, got 1000-1999/10']);
      assert.deepEqual(blocks(), { ...FOUR, shop: '1040/10' });
      assert.deepEqual([state().range, taken()], ['1000-1119/10', [0, 1, 2, 3, 4]]);
    });

    test('is corrected at startup if it lacks blocks that are in use', async () => {
      await run();
      await runs.pop()?.stop();
      await setState({ range: '1000-1119/10', data: '' });
      await create('shop');
      await run();
      assert.deepEqual(blocks(), { ...FOUR, shop: '1040/10' });
    });

    test('is recreated if it is deleted', async () => {
      const one = await run();
      await cluster.remove('RangeAllocation', 'scc-uid');
      await create('shop');
      await one.idle();
      assert.deepEqual([blocks(), taken()], [{ ...FOUR, shop: '1040/10' }, [0, 1, 2, 3, 4]]);
    });

    test('keeps the block of a deleted namespace allocated for five minutes', async () => {
      const one = await run();
      await create('first');
      await one.idle();
      await remove('first');
      await one.pass(8 * 60 * MINUTE);
      await create('second');
      await one.idle();
      assert.equal(getAnnotations('second')[UIDS], '1050/10');
      await one.pass(5 * MINUTE);
      await create('third');
      await one.idle();
      assert.equal(getAnnotations('third')[UIDS], '1040/10');
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
    });

    test('is corrected after changes that were made while the controller was stopped', async () => {
      await run();
      await create('gone');
      await runs[0]?.idle();
      await runs.pop()?.stop();
      await remove('gone');
      const one = await run();
      assert.deepEqual(taken(), [0, 1, 2, 3, 4]);
      await one.pass(5 * MINUTE);
      assert.deepEqual(taken(), [0, 1, 2, 3]);
    });

    test('is not written if no allocation changes', async () => {
      const one = await run();
      const { resourceVersion } = state().metadata ?? {};
      await one.pass(24 * 60 * MINUTE);
      assert.equal(state().metadata?.resourceVersion, resourceVersion);
    });
  });

  suite('with a full range', () => {
    const fill = async (): Promise<ControllerRun> => {
      const one = await run();
      for (let index = 0; index < 8; index++) await create(`shop-${index}`);
      await one.idle();
      assert.deepEqual(one.errors(), []);
      return one;
    };

    test('reports the range once, and allocates the first free block to a waiting namespace', async () => {
      const one = await fill();
      for (const name of ['late-0', 'late-1']) await create(name);
      await one.idle();
      assert.deepEqual(one.errors(), [FULL]);
      await one.pass(10 * MINUTE);
      assert.deepEqual(one.errors(), []);
      assert.deepEqual(
        events('UIDRangeFull').map(({ type, message }) => [type, message]),
        [['Warning', FULL]],
      );
      await remove('shop-3');
      for (let minute = 0; minute < 10; minute++) await one.pass(MINUTE);
      assert.deepEqual(['late-0', 'late-1'].map((name) => getAnnotations(name)[UIDS]).toSorted(), [
        '1070/10',
        undefined,
      ]);
      assert.deepEqual(one.errors(), []);
    });

    test('allocates blocks again after the range is extended', async () => {
      await fill();
      await create('late');
      await runs.pop()?.stop();
      await run({ ...SETTINGS, uidRange: { start: 1000, end: 1199, blockSize: 10 } });
      assert.equal(getAnnotations('late')[UIDS], '1120/10');
      assert.equal(getAnnotations('shop-0')[UIDS], '1040/10');
      assert.equal(state().range, '1000-1199/10');
    });
  });

  suite('after a failed write,', () => {
    test('a namespace gets its block later if its write was denied', async () => {
      const one = await run();
      let isRefusing = true;
      const webhook = await verdict(['namespaces'], ({ name = '', operation }) =>
        isRefusing && name === 'shop' && operation === 'UPDATE'
          ? deny(forbidden({ group: '', resource: 'namespaces' }, name, 'not now'))
          : allow(),
      );
      await create('shop');
      await one.idle();
      assert.deepEqual(one.errors(), [
        'admission webhook "verdict.example.com" denied the request: namespaces "shop" is forbidden: not now',
      ]);
      await create('other');
      await one.idle();
      assert.equal(getAnnotations('other')[UIDS], '1050/10');
      for (let attempt = 0; attempt < 20; attempt++) await one.pass(10_000);
      assert.equal(one.errors().length, 21);
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
      isRefusing = false;
      await one.pass(10_000);
      assert.equal(getAnnotations('shop')[UIDS], '1040/10');
      await webhook.stop();
    });

    test('the block is not allocated from a new RangeAllocation to another namespace if the result of the write is unknown', async () => {
      const one = await run();
      // This namespace is older, so it gets its block first.
      await create('other', { [UIDS]: '5000/10' });
      let isFailing = true;
      await verdict(['namespaces'], async ({ operation, name }) => {
        if (!isFailing || operation !== 'UPDATE' || name !== 'shop') return allow();
        isFailing = false;
        await cluster.remove('RangeAllocation', 'scc-uid');
        const path = `/metadata/annotations/${UIDS.replace('/', '~1')}`;
        await cluster.patch('Namespace', { name: 'other' }, [{ op: 'remove', path }], BY_TEST);
        throw new Error('boom');
      });
      await create('shop');
      await one.idle();
      await one.pass(10_000);
      assert.deepEqual(blocks(), { ...FOUR, other: '1050/10', shop: '1040/10' });
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
    });

    test('a block that was reserved before the RangeAllocation was deleted is not used', async () => {
      await (await run()).stop();
      let isFailing = true;
      await verdict(['namespaces'], ({ operation, name }) => {
        if (isFailing && operation === 'UPDATE' && name === 'shop') throw new Error('boom');
        return allow();
      });
      await create('first');
      await create('shop');
      // This replica reserves a block for shop, and then receives no more events.
      const late = await run(SETTINGS, lateView(cluster, 600_000));
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
      await remove('first');
      await cluster.remove('RangeAllocation', 'scc-uid');
      await create('other');
      const current = await run();
      assert.equal(getAnnotations('other')[UIDS], '1050/10');
      await current.stop();
      isFailing = false;
      await late.pass(10_000);
      assert.equal(getAnnotations('shop')[UIDS], '1070/10');
    });

    test('a block is released if its reservation is too old', async () => {
      const one = await run();
      let isFailing = true;
      const webhook = await verdict(['namespaces'], ({ operation, name }) => {
        if (isFailing && operation === 'UPDATE' && name === 'shop') throw new Error('boom');
        return allow();
      });
      await create('shop');
      await one.idle();
      await one.pass(4 * MINUTE);
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
      isFailing = false;
      await one.pass(10_000);
      assert.equal(getAnnotations('shop')[UIDS], '1050/10');
      for (let minute = 0; minute < 11; minute++) await one.pass(MINUTE);
      assert.deepEqual(taken(), [0, 1, 2, 3, 5]);
      await webhook.stop();
    });

    test('no block is allocated while writes to the RangeAllocation are denied', async () => {
      const one = await run();
      const webhook = await verdict(['rangeallocations'], () =>
        deny(forbidden({ group: '', resource: 'rangeallocations' }, 'scc-uid', 'not now')),
      );
      await create('shop');
      await one.idle();
      assert.deepEqual(getAnnotations('shop'), {});
      assert.equal(one.errors().length, 1);
      await webhook.stop();
      await one.pass(5);
      assert.deepEqual(getAnnotations('shop')[UIDS], '1040/10');
    });

    test('a block is allocated once the API server responds, if a load balancer responds with 404 before', async () => {
      const one = await run();
      const { apply } = cluster;
      cluster.apply = () => Promise.reject(new ApiError(createStatus(404, 'NotFound', 'default backend - 404')));
      await create('shop');
      await one.idle();
      assert.deepEqual(getAnnotations('shop'), {});
      cluster.apply = apply;
      await one.pass(10);
      assert.equal(getAnnotations('shop')[UIDS], '1040/10');
    });

    test('the block is allocated to the next namespace if its namespace was deleted during the write', async () => {
      const one = await run();
      const webhook = await verdict(['rangeallocations'], () => {
        void cluster.remove('Namespace', 'shop');
        return allow();
      });
      await create('shop');
      await one.idle();
      await cluster.idle();
      await webhook.stop();
      await create('next');
      await one.idle();
      assert.equal(cluster.store.get('Namespace', 'shop'), undefined);
      assert.equal(getAnnotations('next')[UIDS], '1040/10');
      assert.deepEqual(one.errors(), []);
    });

    test('another replica does not release a block during the write', async () => {
      await run();
      let letGo = (): void => undefined;
      let isHolding = true;
      const held = new Promise<void>((resolve) => {
        void verdict(['namespaces'], async ({ operation, name }) => {
          if (isHolding && operation === 'UPDATE' && name === 'slow') {
            isHolding = false;
            resolve();
            await new Promise<void>((go) => (letGo = go));
          }
          return allow();
        }).then(() => create('slow'));
      });
      await held;
      await run();
      assert.equal(getAnnotations('slow')[UIDS], '1050/10');
      letGo();
      await Promise.all(runs.map((one) => one.idle()));
      await create('next');
      await Promise.all(runs.map((one) => one.idle()));
      assert.notEqual(getAnnotations('next')[UIDS], undefined);
      assert.equal(new Set(Object.values(blocks())).size, 6);
      assert.ok(!Object.values(blocks()).includes(undefined));
    });

    test('exactly one block is allocated to a namespace that changes continuously', async () => {
      const one = await run();
      let changes = 0;
      const webhook = await verdict(['namespaces'], async ({ operation, options, name = '' }) => {
        const { fieldManager } = options as { readonly fieldManager?: string };
        if (operation === 'UPDATE' && fieldManager === uidRangeAllocator.name && changes < 5) {
          const path = `/metadata/labels/change-${++changes}`;
          await cluster.patch('Namespace', { name }, [{ op: 'add', path, value: 'x' }], BY_TEST);
        }
        return allow();
      });
      await create('shop');
      await one.idle();
      for (let attempt = 0; attempt < 10; attempt++) await one.pass(1000);
      await webhook.stop();
      assert.equal(getAnnotations('shop')[UIDS], '1040/10');
      assert.deepEqual(taken(), [0, 1, 2, 3, 4]);
      assert.deepEqual(one.errors(), []);
    });
  });

  test('allocation is retried every ten seconds while the cluster does not serve RangeAllocations', async () => {
    const name = 'rangeallocations.security.internal.openshift.io';
    await cluster.writer.remove({ group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' }, '', name);
    await cluster.idle();
    const one = await run();
    const missing = `the cluster does not serve ${name}: install its CustomResourceDefinition: the server could not find the requested resource`;
    assert.deepEqual(one.errors(), [missing]);
    for (let attempt = 0; attempt < 20; attempt++) await one.pass(10_000);
    assert.equal(one.errors().length, 20);
    assert.deepEqual(getAnnotations('default'), {});
    await installCrds(cluster);
    await one.pass(10_000);
    assert.deepEqual(blocks(), FOUR);
    assert.deepEqual(one.errors(), []);
  });
});

// Bursts of namespaces.

suite('for many new namespaces,', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let run: ControllerRun;
  let stateWrites = 0;

  before(async () => {
    started = await startCluster();
    ({ cluster } = started);
    await installCrds(cluster);
    run = runController(createController(uidRangeAllocator, { settings: withRanges(DEFAULT_RANGES) }), cluster);
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

  test('one write to the RangeAllocation allocates many blocks', async () => {
    const names = Array.from({ length: 300 }, (_, index) => `burst-${index}`);
    await Promise.all(names.map((name) => cluster.create('Namespace', { metadata: { name } }, BY_TEST)));
    await run.idle();
    const blocks = names.map((name) => cluster.store.get('Namespace', name)?.metadata?.annotations?.[UIDS]);
    assert.ok(!blocks.includes(undefined));
    assert.equal(new Set(blocks).size, names.length);
    assert.deepEqual(run.errors(), []);
    assert.ok(stateWrites <= 20, `${stateWrites} writes`);
  });

  test('a range with too few blocks is reported once', async () => {
    await run.stop();
    const { start, blockSize } = DEFAULT_RANGES.uidRange;
    const uidRange = { start, end: start + 310 * blockSize - 1, blockSize };
    run = runController(
      createController(uidRangeAllocator, { settings: withRanges({ ...DEFAULT_RANGES, uidRange }) }),
      cluster,
    );
    await run.idle();
    const names = Array.from({ length: 40 }, (_, index) => `late-${index}`);
    await Promise.all(names.map((name) => cluster.create('Namespace', { metadata: { name } }, BY_TEST)));
    await run.idle();
    const blocks = cluster.store.list('Namespace').map(({ metadata }) => metadata?.annotations?.[UIDS]);
    // Blocks for the four default namespaces, the burst and later namespaces.
    assert.equal(blocks.filter((block) => block !== undefined).length, 310);
    assert.equal(new Set(blocks).size, 311);
    assert.deepEqual(run.errors(), [
      'the UID range 1000000000-1003099999/10000 is full; you must widen the range in order to allocate more UIDs',
    ]);
  });
});

suite('concurrent replicas do not allocate a block twice', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  const running: RunningController[] = [];
  /** The namespaces that currently have a block or label. */
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
    const one = startController(createController(uidRangeAllocator, { settings: withRanges(DEFAULT_RANGES) }), {
      ...createRecorder(),
      cluster: lagMs === 0 ? cluster : lateView(cluster, lagMs),
      clock: systemClock,
    });
    running.push(one);
    return one;
  };
  const allHaveRanges = (count: number) =>
    eventually(() => {
      const namespaces = cluster.store.list('Namespace');
      assert.equal(namespaces.length, count);
      assert.ok(namespaces.every(({ metadata }) => metadata?.annotations?.[UIDS]));
    }, 300_000);
  const create = (name: string) => cluster.create('Namespace', { metadata: { name } }, BY_TEST);
  const names = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}-${index}`);

  test('when they start on a cluster with 300 namespaces', async () => {
    await Promise.all(names('early', 300).map(create));
    start(0);
    start(0);
    await allHaveRanges(304);
    assert.deepEqual(violations, []);
  });

  test('when their stores are stale while namespaces are created and deleted', async () => {
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

  test('when one of them restarts and repairs the allocation while the other writes', async () => {
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

  test('and the RangeAllocation contains every block in use, and after a repair no other block', async () => {
    const getTaken = (): readonly number[] =>
      blockIndexes(parseBlocks(cluster.store.get('RangeAllocation', 'scc-uid')?.data ?? '') ?? []);
    const used = cluster.store
      .list('Namespace')
      .map(({ metadata }) => {
        const [start = NaN] = (metadata?.annotations?.[UIDS] ?? '').split('/').map(Number);
        return (start - DEFAULT_RANGES.uidRange.start) / DEFAULT_RANGES.uidRange.blockSize;
      })
      .sort((a, b) => a - b);
    const taken = new Set(getTaken());
    assert.deepEqual(
      used.filter((block) => !taken.has(block)),
      [],
    );
    await Promise.all(running.map((one) => one.stop()));
    const repairing = runController(
      createController(uidRangeAllocator, { settings: withRanges(DEFAULT_RANGES) }),
      cluster,
    );
    running.push(repairing);
    await repairing.idle();
    await repairing.pass(5 * MINUTE);
    assert.deepEqual(getTaken(), used);
  });
});

/** Returns the same cluster with a store that receives all changes after a delay. */
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
