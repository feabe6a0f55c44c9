import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { uidRangeAllocator } from '../../src/controllers/uid-range-allocator.ts';
import { allow, deny, type AdmissionRequest, type Decision } from '../../src/kube/admission.ts';
import type { RangeAllocation } from '../../src/kube/scc.ts';
import { forbidden } from '../../src/kube/status.ts';
import type { Namespace } from '../../src/kube/types.ts';
import { emptyBitmap, parseBitmap } from '../../src/policy/uid-range/bitmap.ts';
import type { RangeSettings } from '../../src/policy/uid-range/ranges.ts';
import { createController, runController, installCrds, type ControllerRun } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { startVerdictWebhook, type VerdictWebhook } from '../support/verdict-webhook.ts';

const UIDS = 'openshift.io/sa.scc.uid-range';
const GROUPS = 'openshift.io/sa.scc.supplemental-groups';
const MCS = 'openshift.io/sa.scc.mcs';
const BY_TEST = { fieldManager: 'test' };
const MINUTE = 60_000;

/** Twelve blocks, of which the namespaces that every cluster has take four. */
const SETTINGS: RangeSettings = {
  uidRange: { start: 1000, end: 1119, blockSize: 10 },
  mcsRange: { prefix: 's0:', length: 2, categories: 1024 },
  labelsPerBlock: 5,
};
const FULL = 'the UID range 1000-1119/10 is full; you must widen the range in order to allocate more UIDs';

suite('the allocation of ranges', () => {
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

  const run = async (settings = SETTINGS): Promise<ControllerRun> => {
    const one = runController(createController(uidRangeAllocator, { ranges: settings }), cluster);
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
  const annotationsOf = (name: string) => cluster.store.get('Namespace', name)?.metadata?.annotations ?? {};
  const blocks = (): Record<string, string | undefined> =>
    Object.fromEntries(
      cluster.store.list('Namespace').map(({ metadata }) => [metadata?.name ?? '', metadata?.annotations?.[UIDS]]),
    );
  const state = (): RangeAllocation => cluster.store.get('RangeAllocation', 'scc-uid') ?? {};
  const taken = (): number[] => [...(parseBitmap(state().data ?? '') ?? emptyBitmap()).values()];
  const setState = async (fields: Pick<RangeAllocation, 'range' | 'data'>): Promise<void> => {
    await cluster.update('RangeAllocation', { ...state(), ...fields }, BY_TEST);
  };
  const events = (reason: string) =>
    cluster.storage.list({ group: '', resource: 'events' }).filter((event) => event['reason'] === reason);

  const FOUR = {
    default: '1000/10',
    'kube-node-lease': '1010/10',
    'kube-public': '1020/10',
    'kube-system': '1030/10',
  };

  suite('on a cluster that has none', () => {
    test('every namespace gets a block, its groups and its label', async () => {
      const one = await run();
      assert.deepEqual(blocks(), FOUR);
      await create('shop');
      await one.idle();
      assert.deepEqual(annotationsOf('shop'), { [UIDS]: '1040/10', [GROUPS]: '1040/10', [MCS]: 's0:c6,c5' });
      assert.deepEqual([state().range, taken()], ['1000-1119/10', [0, 1, 2, 3, 4]]);
      assert.deepEqual(one.errors(), []);
    });

    test('the annotations are known to be of this controller', async () => {
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

    test('an event tells of each namespace', async () => {
      const one = await run();
      await create('shop');
      await one.idle();
      const told = events('CreatedSCCRanges');
      assert.equal(told.length, 5);
      const event = told.find(({ involvedObject }) => (involvedObject as Namespace['metadata'])?.name === 'shop');
      assert.deepEqual([event?.['type'], event?.['message']], ['Normal', 'created SCC ranges for shop namespace']);
      assert.deepEqual(event?.['reportingComponent'], uidRangeAllocator.name);
    });

    test('an event tells of ranges that somebody chose and that are wrong, once until they change', async () => {
      const one = await run();
      await create('root', { [UIDS]: '0/10', [MCS]: 'rubbish' });
      await create('odd', { [UIDS]: 'rubbish', [GROUPS]: '9-1', [MCS]: 's0-s0:c0.c1023' });
      await create('taken', { [UIDS]: '1005/10', [MCS]: 's0:c9,c1' });
      await create('fine', { [UIDS]: '5000/10', [MCS]: 's0' });
      await one.idle();
      const told = (): unknown[] => events('InvalidSCCRanges').map(({ type, message }) => [type, message]);
      assert.deepEqual(told(), [], 'bursts are waited for');
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

    test('a namespace has its block a moment after it was created', async () => {
      const one = await run({ ...SETTINGS, uidRange: { start: 1000, end: 9999, blockSize: 10 } });
      const durations: number[] = [];
      for (let index = 0; index < 50; index++) {
        const startMs = performance.now();
        await create(`shop-${index}`);
        await one.idle();
        durations.push(performance.now() - startMs);
        assert.ok(annotationsOf(`shop-${index}`)[UIDS]);
      }
      const median = durations.sort((a, b) => a - b)[25] ?? Infinity;
      assert.ok(median < 20, `${median} ms`);
    });
  });

  suite('beside what is there', () => {
    test('blocks in use are adopted and nothing is changed', async () => {
      const own = { [UIDS]: '1020/10', [GROUPS]: '5/5', [MCS]: 's0:c9,c8' };
      await create('adopted', own);
      const before = cluster.store.get('Namespace', 'adopted');
      const one = await run();
      assert.equal(cluster.store.get('Namespace', 'adopted'), before);
      assert.deepEqual(blocks(), { ...FOUR, 'kube-public': '1030/10', 'kube-system': '1040/10', adopted: '1020/10' });
      await one.pass(20 * MINUTE);
      assert.equal(cluster.store.get('Namespace', 'adopted'), before);
    });

    test('ids that are no block are left alone, and nobody else gets them', async () => {
      await create('large', { [UIDS]: '1005/20' });
      await create('elsewhere', { [UIDS]: '77/3' });
      await create('odd', { [UIDS]: 'whatever' });
      await create('empty', { [UIDS]: '' });
      await run();
      assert.deepEqual(annotationsOf('large'), { [UIDS]: '1005/20' });
      assert.deepEqual(blocks(), {
        default: '1030/10',
        'kube-node-lease': '1040/10',
        'kube-public': '1050/10',
        'kube-system': '1060/10',
        large: '1005/20',
        elsewhere: '77/3',
        odd: 'whatever',
        empty: '',
      });
      assert.deepEqual(taken(), [3, 4, 5, 6]);
    });

    test('the state that another one keeps is used as it is', async () => {
      const data = emptyBitmap();
      for (const index of [0, 2]) data.add(index);
      await cluster.create(
        'RangeAllocation',
        { metadata: { name: 'scc-uid' }, range: '1000-1119/10', data: data.toBase64() },
        BY_TEST,
      );
      await run();
      assert.deepEqual(Object.values(blocks()), ['1010/10', '1030/10', '1040/10', '1050/10']);
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
    });

    test('a label that is there is kept, and so are groups', async () => {
      await create('labelled', { [MCS]: 's0:c500,c400' });
      await create('grouped', { [GROUPS]: '1/1,2/2' });
      await run();
      assert.deepEqual(annotationsOf('labelled'), { [UIDS]: '1040/10', [GROUPS]: '1040/10', [MCS]: 's0:c500,c400' });
      assert.deepEqual(annotationsOf('grouped'), { [UIDS]: '1050/10', [GROUPS]: '1/1,2/2', [MCS]: 's0:c7,c4' });
    });

    test('what is missing beside a block is filled in', async () => {
      await create('shop', { [UIDS]: '1060/10' });
      const one = await run();
      const complete = { [UIDS]: '1060/10', [GROUPS]: '1060/10', [MCS]: 's0:c8,c2' };
      assert.deepEqual(annotationsOf('shop'), complete);
      for (const key of [MCS, GROUPS]) {
        const path = `/metadata/annotations/${key.replace('/', '~1')}`;
        await cluster.patch('Namespace', { name: 'shop' }, [{ op: 'remove', path }], BY_TEST);
        await one.idle();
        assert.deepEqual(annotationsOf('shop'), complete);
      }
    });

    test('a namespace whose ids are taken away gets a new block', async () => {
      const one = await run();
      const path = `/metadata/annotations/${UIDS.replace('/', '~1')}`;
      await cluster.patch('Namespace', { name: 'kube-public' }, [{ op: 'remove', path }], BY_TEST);
      await one.idle();
      assert.equal(annotationsOf('kube-public')[UIDS], '1040/10');
      assert.deepEqual(one.errors(), []);
    });

    test('a namespace that is being deleted is left alone', async () => {
      await create('leaving');
      const held = {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'held', namespace: 'leaving', finalizers: ['example.com/hold'] },
      };
      await cluster.writer.create({ group: '', resource: 'configmaps' }, held);
      await cluster.remove('Namespace', 'leaving');
      await cluster.idle();
      assert.ok(cluster.store.get('Namespace', 'leaving')?.metadata?.deletionTimestamp);
      const one = await run();
      await one.pass(20 * MINUTE);
      assert.deepEqual(annotationsOf('leaving'), {});
      assert.deepEqual(blocks(), { ...FOUR, leaving: undefined });
    });
  });

  suite('the state object', () => {
    test('of another range is told and made anew', async () => {
      const one = await run();
      await setState({ range: '1000-1999/10', data: 'AA==' });
      await create('shop');
      await one.idle();
      // That somebody has written shows as a conflict first.
      await one.pass(5);
      assert.deepEqual(one.errors(), ['conflicting UID range; expected 1000-1119/10, got 1000-1999/10']);
      assert.deepEqual(blocks(), { ...FOUR, shop: '1040/10' });
      assert.deepEqual([state().range, taken()], ['1000-1119/10', [0, 1, 2, 3, 4]]);
    });

    test('that says less than is true is put right at start', async () => {
      await run();
      await runs.pop()?.stop();
      await setState({ range: '1000-1119/10', data: '' });
      await create('shop');
      await run();
      assert.deepEqual(blocks(), { ...FOUR, shop: '1040/10' });
    });

    test('that is lost is made anew', async () => {
      const one = await run();
      await cluster.remove('RangeAllocation', 'scc-uid');
      await create('shop');
      await one.idle();
      assert.deepEqual(one.errors(), [
        'RangeAllocation "scc-uid" is missing: rangeallocations.security.internal.openshift.io "scc-uid" not found',
      ]);
      assert.deepEqual([blocks(), taken()], [{ ...FOUR, shop: '1040/10' }, [0, 1, 2, 3, 4]]);
    });

    test('keeps the block of a deleted namespace for five minutes, then the next gets it', async () => {
      const one = await run();
      await create('first');
      await one.idle();
      await remove('first');
      await one.pass(8 * 60 * MINUTE);
      await create('second');
      await one.idle();
      assert.equal(annotationsOf('second')[UIDS], '1050/10');
      await one.pass(5 * MINUTE);
      await create('third');
      await one.idle();
      assert.equal(annotationsOf('third')[UIDS], '1040/10');
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
    });

    test('is put right while the controller was not there', async () => {
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

    test('is not written when nothing has changed', async () => {
      const one = await run();
      const { resourceVersion } = state().metadata ?? {};
      await one.pass(24 * 60 * MINUTE);
      assert.equal(state().metadata?.resourceVersion, resourceVersion);
    });
  });

  test('a state object that is broken is told and made anew', async () => {
    const one = await run();
    await runs.pop()?.stop();
    // The schema lets nobody write this; a cluster without the schema may hold it.
    const definitions = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };
    await cluster.writer.remove(definitions, '', 'rangeallocations.security.internal.openshift.io');
    await cluster.idle();
    const spec = {
      group: 'security.internal.openshift.io',
      scope: 'Cluster',
      names: { kind: 'RangeAllocation', plural: 'rangeallocations' },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        },
      ],
    };
    await cluster.writer.create(definitions, {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'rangeallocations.security.internal.openshift.io' },
      spec,
    });
    await cluster.idle();
    const again = await run();
    await setState({ range: '1000-1119/10', data: 'no base64' });
    await create('shop');
    await again.idle();
    await again.pass(5);
    assert.deepEqual(again.errors(), ['data of RangeAllocation "scc-uid" is not base64']);
    assert.deepEqual([blocks(), taken()], [{ ...FOUR, shop: '1040/10' }, [0, 1, 2, 3, 4]]);
    assert.deepEqual(one.errors(), []);
  });

  suite('a range that is full', () => {
    const fill = async (): Promise<ControllerRun> => {
      const one = await run();
      for (let index = 0; index < 8; index++) await create(`shop-${index}`);
      await one.idle();
      assert.deepEqual(one.errors(), []);
      return one;
    };

    test('is told once; who waits gets the first block that comes free', async () => {
      const one = await fill();
      for (const name of ['late-0', 'late-1']) await create(name);
      await one.idle();
      assert.deepEqual(one.errors(), ['uid range exceeded', FULL]);
      await one.pass(10 * MINUTE);
      assert.deepEqual(one.errors(), []);
      assert.deepEqual(
        events('UIDRangeFull').map(({ type, message }) => [type, message]),
        [['Warning', FULL]],
      );
      await remove('shop-3');
      for (let minute = 0; minute < 10; minute++) await one.pass(MINUTE);
      assert.deepEqual(['late-0', 'late-1'].map((name) => annotationsOf(name)[UIDS]).toSorted(), [
        '1070/10',
        undefined,
      ]);
      assert.deepEqual(one.errors(), ['uid range exceeded', FULL]);
    });

    test('works again once it is wider', async () => {
      await fill();
      await create('late');
      await runs.pop()?.stop();
      await run({ ...SETTINGS, uidRange: { start: 1000, end: 1199, blockSize: 10 } });
      assert.equal(annotationsOf('late')[UIDS], '1120/10');
      assert.equal(annotationsOf('shop-0')[UIDS], '1040/10');
      assert.equal(state().range, '1000-1199/10');
    });
  });

  suite('writes that fail', () => {
    test('a namespace that may not be changed leaves its block to the next', async () => {
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
      assert.equal(annotationsOf('other')[UIDS], '1040/10');
      for (let attempt = 0; attempt < 20; attempt++) await one.pass(10_000);
      assert.equal(one.errors().length, 20);
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
      isRefusing = false;
      await one.pass(10_000);
      assert.equal(annotationsOf('shop')[UIDS] === undefined, false);
      await webhook.stop();
    });

    test('after a failure that may have written, only that namespace gets the block', async () => {
      const one = await run();
      let isFailing = true;
      const webhook = await verdict(['namespaces'], ({ operation, name }) => {
        if (isFailing && operation === 'UPDATE' && name === 'shop') throw new Error('boom');
        return allow();
      });
      await create('shop');
      await one.idle();
      const [failure] = one.log.filter(({ msg }) => msg === 'reconcile failed, it is retried');
      assert.match(messageOf(failure), /^Internal error occurred: failed calling webhook "verdict\.example\.com"/);
      await create('other');
      await one.idle();
      assert.equal(annotationsOf('other')[UIDS], '1050/10');
      for (let attempt = 0; attempt < 20; attempt++) await one.pass(10_000);
      assert.deepEqual(taken(), [0, 1, 2, 3, 4, 5]);
      isFailing = false;
      await one.pass(10_000);
      assert.equal(annotationsOf('shop')[UIDS], '1040/10');
      await webhook.stop();
    });

    test('a block that was reserved for too long is released', async () => {
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
      assert.equal(annotationsOf('shop')[UIDS], '1050/10');
      for (let minute = 0; minute < 11; minute++) await one.pass(MINUTE);
      assert.deepEqual(taken(), [0, 1, 2, 3, 5]);
      await webhook.stop();
    });

    test('a state object that may not be changed gives nobody a block', async () => {
      const one = await run();
      const webhook = await verdict(['rangeallocations'], () =>
        deny(forbidden({ group: '', resource: 'rangeallocations' }, 'scc-uid', 'not now')),
      );
      await create('shop');
      await one.idle();
      assert.deepEqual(annotationsOf('shop'), {});
      assert.equal(one.errors().length, 1);
      await webhook.stop();
      await one.pass(5);
      assert.deepEqual(annotationsOf('shop')[UIDS], '1040/10');
    });

    test('a namespace that has gone meanwhile leaves its block to the next', async () => {
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
      assert.equal(annotationsOf('next')[UIDS], '1040/10');
      assert.deepEqual(one.errors(), []);
    });

    test('a block on its way to its namespace is not released by another replica', async () => {
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
      assert.equal(annotationsOf('slow')[UIDS], '1050/10');
      letGo();
      await Promise.all(runs.map((one) => one.idle()));
      await create('next');
      await Promise.all(runs.map((one) => one.idle()));
      assert.notEqual(annotationsOf('next')[UIDS], undefined);
      assert.equal(new Set(Object.values(blocks())).size, 6);
      assert.ok(!Object.values(blocks()).includes(undefined));
    });

    test('a namespace that changes all the time gets its block, and only one', async () => {
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
      assert.equal(annotationsOf('shop')[UIDS], '1040/10');
      assert.deepEqual(taken(), [0, 1, 2, 3, 4]);
      assert.deepEqual(one.errors(), []);
    });
  });

  test('a cluster that does not serve ranges yet is tried every ten seconds', async () => {
    const name = 'rangeallocations.security.internal.openshift.io';
    await cluster.writer.remove({ group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' }, '', name);
    await cluster.idle();
    const one = await run();
    const missing = `the cluster does not serve ${name}: install its CustomResourceDefinition: the server could not find the requested resource`;
    assert.deepEqual(one.errors(), [missing]);
    for (let attempt = 0; attempt < 20; attempt++) await one.pass(10_000);
    assert.equal(one.errors().length, 20);
    assert.deepEqual(annotationsOf('default'), {});
    await installCrds(cluster);
    await one.pass(10_000);
    assert.deepEqual(blocks(), FOUR);
    assert.deepEqual(one.errors(), []);
  });
});

function messageOf(line: Record<string, unknown> | undefined): string {
  return (line?.['err'] as Error | undefined)?.message ?? '';
}
