import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { RangeAllocation } from '../../../src/kube/scc.ts';
import type { Namespace } from '../../../src/kube/types.ts';
import {
  blockAnnotations,
  createAllocator,
  findMissingRanges,
  findRangeProblems,
  formatState,
  ORPHANED_MS,
  type Orphans,
  planRepair,
  readState,
  recordedBlocks,
} from '../../../src/policy/uid-range/allocation.ts';
import { uniteBlocks } from '../../../src/policy/uid-range/blocks.ts';
import {
  DEFAULT_RANGES,
  formatUidRange,
  type RangeSettings,
  type UidRange,
} from '../../../src/policy/uid-range/ranges.ts';
import { blockIndexes, blockSet } from '../../support/blocks.ts';

const UIDS = 'openshift.io/sa.scc.uid-range';
const GROUPS = 'openshift.io/sa.scc.supplemental-groups';
const MCS = 'openshift.io/sa.scc.mcs';

/** The blocks are 10-11, 12-13, 14-15, 16-17 and 18-19. Their labels are c1,c0 c3,c2 c5,c0 c6,c0 and c6,c5. */
const SMALL: RangeSettings = {
  uidRange: { start: 10, end: 20, blockSize: 2 },
  mcsRange: { prefix: 's0:', length: 2, categories: 10 },
  labelsPerBlock: 5,
};

suite('createAllocator chooses the first free block:', () => {
  const cases: readonly (readonly [
    name: string,
    taken: readonly number[],
    namespaces: readonly Readonly<Record<string, string>>[],
    next: number | undefined,
  ])[] = [
    ['no block is taken', [], [], 0],
    ['some blocks are taken', [0, 1, 3], [], 2],
    ['all blocks are taken', [0, 1, 2, 3, 4], [], undefined],
    ['blocks outside the range are taken', [5, 6], [], 0],
    ['a namespace has IDs of two blocks', [], [{ [UIDS]: '11/2' }], 2],
    ['a namespace has IDs of another block size', [], [{ [UIDS]: '10/5' }], 3],
    ['a namespace has a block that is not recorded', [], [{ [UIDS]: '10/2' }], 1],
    ['a namespace has the first label of a block', [], [{ [UIDS]: '500/9', [MCS]: 's0:c1,c0' }], 1],
    ['a namespace has another label of a block', [], [{ [MCS]: 's0:c3,c1' }], 1],
    ['a namespace has a label with another prefix', [], [{ [MCS]: 's1:c1,c0' }], 0],
    ['a namespace has a label with categories outside the range', [], [{ [MCS]: 's0:c900,c10' }], 0],
    ['a namespace has invalid annotations', [], [{ [UIDS]: 'x', [MCS]: '' }], 0],
    ['a namespace has all IDs', [0], [{ [UIDS]: '0-4294967295' }], 1],
    ['a namespace has all IDs and all blocks are taken', [0, 1, 2, 3, 4], [{ [UIDS]: '0-4294967295' }], undefined],
  ];
  for (const [name, taken, namespaces, next] of cases) {
    test(name, () => assert.equal(createAllocator(SMALL)(blockSet(taken), namespaces.map(namespaceWith)), next));
  }

  test('the result is the same as without the cache', () => {
    const ids = fc.option(
      fc.nat(9).map((start) => `${10 + start}/2`),
      { nil: undefined },
    );
    const label = fc.option(fc.constantFrom('s0:c1,c0', 's0:c4,c0', 's0:c7,c2'), { nil: undefined });
    const namespace = fc.tuple(ids, label).map(([uids, mcs]) =>
      namespaceWith({
        ...(uids === undefined ? {} : { [UIDS]: uids }),
        ...(mcs === undefined ? {} : { [MCS]: mcs }),
      }),
    );
    const pool = fc.array(namespace, { minLength: 1, maxLength: 8 });
    const moments = fc.array(fc.array(fc.nat(7), { maxLength: 6 }), { maxLength: 10 });
    fc.assert(
      fc.property(pool, moments, (namespaces, picks) => {
        const allocate = createAllocator(SMALL);
        for (const pick of picks) {
          const now = pick.flatMap((index) => namespaces[index] ?? []);
          assert.equal(allocate(blockSet([0]), now), createAllocator(SMALL)(blockSet([0]), now));
        }
      }),
    );
  });

  test('labels with five categories have ranks beyond the last block', () => {
    const settings = { ...DEFAULT_RANGES, mcsRange: { prefix: 's0:', length: 5, categories: 1024 } };
    const namespace = namespaceWith({ [MCS]: 's0:c1023,c1022,c1021,c1020,c1019' });
    assert.equal(createAllocator(settings)([], [namespace]), 0);
  });

  test('every block is allocated exactly once', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(4)), fc.array(fc.nat(9)), (before, starts) => {
        const allocate = createAllocator(SMALL);
        let taken = blockSet(before);
        const others = starts.map((start) => namespaceWith({ [UIDS]: `${10 + start}/2` }));
        const given: number[] = [];
        for (let next = allocate(taken, others); next !== undefined; next = allocate(taken, others)) {
          taken = uniteBlocks([...taken, { first: next, last: next }]);
          given.push(next);
        }
        assert.deepEqual([...before, ...given].sort(), [0, 1, 2, 3, 4]);
      }),
    );
  });
});

suite('findMissingRanges returns the annotations that a namespace lacks:', () => {
  const own = { [UIDS]: '12/2', [GROUPS]: '12/2', [MCS]: 's0:c3,c2' };
  const cases: readonly (readonly [name: string, namespace: Namespace, expected: unknown])[] = [
    ['empty annotations: a block', namespaceWith({}), 'block'],
    ['no annotations: a block', { metadata: { name: 'demo' } }, 'block'],
    ['a label: a block', namespaceWith({ [MCS]: 's0:c9,c8' }), 'block'],
    ['all annotations: nothing', namespaceWith(own), undefined],
    ['no label: the label', namespaceWith({ [UIDS]: '12/2', [GROUPS]: '12/2' }), { annotations: own }],
    [
      'no groups: the groups',
      namespaceWith({ [UIDS]: '12/2', [MCS]: 's0:c9,c8' }),
      { annotations: { ...own, [MCS]: 's0:c9,c8' } },
    ],
    [
      'no label, other groups: the label',
      namespaceWith({ [UIDS]: '12/2', [GROUPS]: '1/1' }),
      { annotations: { ...own, [GROUPS]: '1/1' } },
    ],
    [
      'a block as a closed range: the label',
      namespaceWith({ [UIDS]: '12-13' }),
      { annotations: { ...own, [UIDS]: '12-13' } },
    ],
    ['an empty label: nothing', namespaceWith({ ...own, [MCS]: '' }), undefined],
    ['IDs outside the blocks: nothing', namespaceWith({ [UIDS]: '13/2' }), undefined],
    ['empty IDs: nothing', namespaceWith({ [UIDS]: '' }), undefined],
    ['terminating: nothing', { metadata: { name: 'demo', deletionTimestamp: '2026-01-01T00:00:00Z' } }, undefined],
  ];
  for (const [name, namespace, expected] of cases) {
    test(name, () => assert.deepEqual(findMissingRanges(namespace, SMALL), expected));
  }

  test('each block gets at least one label', () => {
    for (const [labelsPerBlock, label] of [
      [0, 's0:c2,c0'],
      [1, 's0:c2,c0'],
      [3, 's0:c3,c0'],
    ] as const) {
      const annotations = blockAnnotations(1, namespaceWith({}), { ...SMALL, labelsPerBlock });
      assert.equal(annotations[MCS], label);
    }
  });
});

suite('readState returns the blocks or rejects the RangeAllocation with', () => {
  const cases: readonly (readonly [name: string, object: RangeAllocation, expected: unknown])[] = [
    ['empty data', { range: '10-20/2', data: '' }, []],
    ['no data', { range: '10-20/2', data: null }, []],
    ['some blocks', { range: '10-20/2', data: 'Cw==' }, [0, 1, 3]],
    ['another range', { range: '10-30/2', data: 'Cw==' }, 'conflicting UID range; expected 10-20/2, got 10-30/2'],
    ['no range', {}, 'conflicting UID range; expected 10-20/2, got '],
    ['invalid data', { range: '10-20/2', data: '!' }, 'data of RangeAllocation "scc-uid" is not base64'],
  ];
  for (const [name, object, expected] of cases) {
    test(name, () => {
      const found = readState(object, SMALL.uidRange);
      assert.deepEqual('value' in found ? blockIndexes(found.value) : found.error, expected);
    });
  }

  const others: readonly (readonly [name: string, object: RangeAllocation, blocks: readonly number[]])[] = [
    ['the same recorded range', { range: '10-20/2', data: 'Cw==' }, [0, 1, 3]],
    ['a recorded range with larger blocks', { range: '10-30/5', data: 'AQ==' }, [0, 1, 2]],
    [
      'a recorded range with another start',
      { range: '0-100/3', data: Buffer.from([0b10000]).toString('base64') },
      [1, 2],
    ],
    ['a disjoint recorded range', { range: '100-200/10', data: 'Cw==' }, []],
    ['bits outside the recorded range', { range: '10-13/2', data: 'Hw==' }, [0, 1]],
    ['invalid data', { range: '10-20/2', data: '!' }, []],
    ['no recorded range', { data: 'Cw==' }, []],
  ];
  for (const [name, object, blocks] of others) {
    test(`recordedBlocks converts the blocks in use to the new range: ${name}`, () =>
      assert.deepEqual(blockIndexes(recordedBlocks(object, SMALL.uidRange)), blocks));
  }
});

suite('planRepair', () => {
  const range = SMALL.uidRange;
  const repair = (
    namespaces: readonly string[],
    data: string,
    orphans: readonly (readonly [sinceMs: number, blocks: readonly number[]])[],
    nowMs = ORPHANED_MS,
  ) =>
    planRepair({
      range,
      namespaces: namespaces.map((ids) => namespaceWith({ [UIDS]: ids })),
      state: { range: '10-20/2', data },
      orphans: new Map(orphans.map(([sinceMs, blocks]) => [sinceMs, blockSet(blocks)])),
      nowMs,
    });
  const getList = (orphans: Orphans) =>
    [...orphans].map(([sinceMs, blocks]) => [sinceMs, blockIndexes(blocks)] as const);

  test('marks the blocks of namespaces as in use', () => {
    assert.deepEqual(blockIndexes(repair(['12/2', '16-17', '12/2', '1/2', '13/2', 'x'], '', []).taken), [1, 3]);
  });

  test('keeps a block without a namespace in use for ORPHANED_MS', () => {
    const first = repair([], 'AQ==', [], 1000);
    assert.deepEqual(blockIndexes(first.taken), [0]);
    assert.deepEqual(getList(first.orphans), [[1000, [0]]]);
    const again = repair([], 'AQ==', getList(first.orphans), 1000 + ORPHANED_MS - 1);
    assert.deepEqual(getList(again.orphans), [[1000, [0]]]);
    const last = repair([], 'AQ==', getList(again.orphans), 1000 + ORPHANED_MS);
    assert.deepEqual([blockIndexes(last.taken), getList(last.orphans)], [[], []]);
  });

  test('keeps a block without a namespace in use if the RangeAllocation is deleted', () => {
    const orphans = new Map([
      [0, blockSet([0])],
      [1000, blockSet([1, 2])],
    ]);
    const namespaces = [namespaceWith({ [UIDS]: '12/2' })];
    const { taken, ...repaired } = planRepair({ range, namespaces, state: undefined, orphans, nowMs: ORPHANED_MS });
    assert.deepEqual(blockIndexes(taken), [1, 2]);
    assert.deepEqual(getList(repaired.orphans), [[1000, [2]]]);
  });

  test('measures the time separately for each block', () => {
    const known = [
      [0, [0, 2]],
      [ORPHANED_MS - 1, [1]],
    ] as const;
    const { taken, orphans } = repair(['16/2'], 'Hw==', known, ORPHANED_MS);
    assert.deepEqual(blockIndexes(taken), [1, 3, 4]);
    assert.deepEqual(getList(orphans), [
      [ORPHANED_MS - 1, [1]],
      [ORPHANED_MS, [4]],
    ]);
    assert.deepEqual(getList(repair([], 'Aw==', [[5, [0]]], 5).orphans), [[5, [0, 1]]]);
  });

  test('does not treat a block as orphaned while a namespace uses it', () => {
    assert.deepEqual([...repair(['10/2'], 'AQ==', [[0, [0]]]).orphans], []);
  });

  test('changes nothing in a second repair', () => {
    const ids = fc.tuple(fc.nat(25), fc.nat(4)).map(([start, size]) => `${start}/${size}`);
    const bits = fc.uniqueArray(fc.nat(7));
    fc.assert(
      fc.property(fc.array(ids), bits, (annotated, before) => {
        const namespaces = annotated.map((text) => namespaceWith({ [UIDS]: text }));
        const once = planRepair({ range, namespaces, state: getState(before), orphans: new Map(), nowMs: 0 });
        const state = formatState(range, once.taken);
        const twice = planRepair({ range, namespaces, state, orphans: once.orphans, nowMs: 1 });
        assert.deepEqual(formatState(range, twice.taken), state);
        assert.deepEqual(getList(twice.orphans), getList(once.orphans));
      }),
    );
  });

  const getState = (bits: readonly number[]): RangeAllocation => formatState(range, blockSet(bits));
});

suite('findRangeProblems returns', () => {
  const cases: readonly (readonly [name: string, annotations: Readonly<Record<string, string>>, problems: string[]])[] =
    [
      ['no problem for a valid block', { [UIDS]: '12/2', [GROUPS]: '1-5,7/2', [MCS]: 's0:c1,c0' }, []],
      ['no problem for a range of levels', { [MCS]: 's0-s0:c0.c1023' }, []],
      ['a problem for an invalid level', { [MCS]: 'x' }, [`${MCS}="x" is not an SELinux level`]],
      ['a problem for invalid IDs', { [UIDS]: 'x' }, [`${UIDS}="x" is invalid (expected integer)`]],
      ['a problem for a range without IDs', { [UIDS]: '5-4' }, [`${UIDS}="5-4" contains no IDs: 5 is greater than 4`]],
      ['a problem for the UID of root', { [UIDS]: '0/5' }, [`${UIDS}="0/5" includes 0, the UID of root`]],
      ['a problem for invalid groups', { [GROUPS]: '1-' }, [`${GROUPS}="1-" is invalid (unexpected EOF)`]],
    ];
  for (const [name, annotations, problems] of cases) {
    test(name, () => assert.deepEqual(findRangeProblems([namespaceWith(annotations)]).get('demo') ?? [], problems));
  }

  test('a problem for IDs that several namespaces use', () => {
    const namespaces = Object.entries({ a: '10/5', b: '14/2', c: '20/5', d: '1/100', gone: '20/5' }).map(
      ([name, ids]): Namespace => ({
        metadata: {
          name,
          annotations: { [UIDS]: ids, ...(name === 'c' ? { [MCS]: 'x' } : {}) },
          ...(name === 'gone' ? { deletionTimestamp: 'now' } : {}),
        },
      }),
    );
    assert.deepEqual(Object.fromEntries(findRangeProblems(namespaces)), {
      a: ['shares IDs with namespace "d"'],
      b: ['shares IDs with namespace "d"'],
      c: [`${MCS}="x" is not an SELinux level`, 'shares IDs with namespace "d"'],
      d: ['shares IDs with namespace "a"'],
    });
  });
});

suite('the allocator processes unusual values within 500 ms:', () => {
  const MAX_MS = 500;
  const allBits = Buffer.alloc(1_000_000, 0xff).toString('base64');
  const range = { start: 0, end: 0xffffffff, blockSize: 1000 };
  const getTaken = (state: RangeAllocation, of: UidRange): unknown =>
    planRepair({ range: of, namespaces: [], state, orphans: new Map(), nowMs: 0 }).taken;
  const spanning = Array.from({ length: 5000 }, () => namespaceWith({ [UIDS]: '0-4294967295' }));
  const cases: readonly (readonly [name: string, work: () => unknown, expected: unknown])[] = [
    ['a namespace with all IDs', () => createAllocator(DEFAULT_RANGES)(blockSet([0]), spanning), 1],
    [
      'an object whose bits are all set',
      () => getTaken({ range: formatUidRange(DEFAULT_RANGES.uidRange), data: allBits }, DEFAULT_RANGES.uidRange),
      [{ first: 0, last: 99_999 }],
    ],
    [
      'few large blocks',
      () => getTaken({ range: '0-4294967295/1000000000', data: 'Dw==' }, range),
      [{ first: 0, last: 3_999_999 }],
    ],
    [
      'many small blocks',
      () => getTaken({ range: '0-4294967295/1', data: allBits }, range),
      [{ first: 0, last: 7_999 }],
    ],
  ];
  for (const [name, work, expected] of cases) {
    test(name, () => {
      // Measures CPU time, because other test files run at the same time.
      const start = process.cpuUsage();
      const result = work();
      const ms = process.cpuUsage(start).user / 1000;
      assert.ok(ms < MAX_MS, `${ms} ms`);
      assert.deepEqual(result, expected);
    });
  }
});

function namespaceWith(annotations: Readonly<Record<string, string>>): Namespace {
  return { metadata: { name: 'demo', annotations } };
}
