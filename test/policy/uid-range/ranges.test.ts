import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  formatBlocks,
  lowestFreeBlock,
  parseBlocks,
  subtractBlocks,
  uniteBlocks,
} from '../../../src/policy/uid-range/blocks.ts';
import {
  blockAt,
  blockCount,
  categoriesAt,
  DEFAULT_RANGES,
  formatBlock,
  formatMcsLabel,
  formatMcsRange,
  formatUidRange,
  indexOfBlock,
  labelAt,
  labelCount,
  labelRank,
  parseMcsLabel,
  parseMcsRange,
  parseUidRange,
  type UidRange,
  validateRangeSettings,
} from '../../../src/policy/uid-range/ranges.ts';
import { blockIndexes, blockSet } from '../../support/blocks.ts';

suite('parseUidRange returns the range or an error for', () => {
  const FORMAT = 'range not in the format "<start>-<end>/<blockSize>"';
  const wrong: readonly (readonly [text: string, error: string])[] = [
    ['', FORMAT],
    ['1-2', FORMAT],
    ['1-2/x', FORMAT],
    ['1-2/1k', FORMAT],
    [' 1-20/2', FORMAT],
    ['-1-20/2', FORMAT],
    ['1-4294967296/2', FORMAT],
    ['30-20/2', 'start 30 must be less than end 20'],
    ['10-20/0', 'block size must be a positive integer'],
    ['10-20/11', 'block size must be less than or equal to the range'],
  ];
  for (const [text, error] of wrong) {
    test(JSON.stringify(text), () => assert.deepEqual(parseUidRange(text), { error }));
  }

  test('the default range', () => {
    assert.deepEqual(parseUidRange('1000000000-1999999999/10000'), { value: DEFAULT_RANGES.uidRange });
    assert.equal(formatUidRange(DEFAULT_RANGES.uidRange), '1000000000-1999999999/10000');
    assert.equal(blockCount(DEFAULT_RANGES.uidRange), 100_000);
  });

  const range: UidRange = { start: 10, end: 20, blockSize: 2 };
  test('a range whose last block is incomplete, which is ignored', () => assert.equal(blockCount(range), 5));

  test('the highest IDs, without an overflow', () => {
    const highest: UidRange = { start: 4_294_967_286, end: 4_294_967_295, blockSize: 5 };
    assert.equal(formatBlock(blockAt(highest, 1)), '4294967291/5');
    assert.equal(indexOfBlock(highest, { min: 4_294_967_291, max: 4_294_967_295 }), 1);
  });
});

suite('parseMcsRange returns the range or an error for', () => {
  const FORMAT = 'range not in the format "<prefix>/<numLabel>[,<maxCategory>]"';
  const wrong: readonly (readonly [text: string, error: string])[] = [
    ['', FORMAT],
    ['s0:', FORMAT],
    ['s0:/', FORMAT],
    ['s0:/-1', FORMAT],
    ['s0:/2,', FORMAT],
    ['s0:/2,5,6', FORMAT],
    ['s0:/6', 'range may not include more than 5 labels'],
    ['s0:/2,1025', 'range may not include more than 1024 categories'],
    ['s0:/2,0', 'label max value must be a positive integer'],
    ['s0:/0', 'label length must be a positive integer'],
  ];
  for (const [text, error] of wrong) {
    test(JSON.stringify(text), () => assert.deepEqual(parseMcsRange(text), { error }));
  }

  test('the default range', () => {
    assert.deepEqual(parseMcsRange('s0:/2'), { value: DEFAULT_RANGES.mcsRange });
    assert.deepEqual(parseMcsRange('s0:/2,1024'), { value: DEFAULT_RANGES.mcsRange });
    assert.equal(formatMcsRange({ prefix: 's0:', length: 2, categories: 10 }), 's0:/2,10');
    assert.equal(labelCount(DEFAULT_RANGES.mcsRange), 523_776);
    assert.equal(labelCount({ prefix: '', length: 5, categories: 1024 }), 9_291_185_992_704);
  });

  const labels: readonly (readonly [prefix: string, rank: number, expected: string])[] = [
    ['s0:', 330, 's0:c26,c5'],
    ['s0', 0, 's0:c1,c0'],
    ['s0:c7,', 0, 's0:c7,c1,c0'],
    ['', 0, 'c1,c0'],
    ['s0:', 523_776, 's0:c1024,c0'],
  ];
  for (const [prefix, rank, expected] of labels) {
    test(`label ${rank} after ${JSON.stringify(prefix)}, which formatMcsLabel prints`, () => {
      assert.equal(formatMcsLabel(labelAt({ prefix, length: 2, categories: 1024 }, rank)), expected);
    });
  }

  for (const [text, error] of [
    ['', "categories must start with 'c': "],
    ['s0', "categories must start with 'c': s0"],
    ['s0:c', "categories must start with 'c': c"],
    ['s0:c1,c1', 'labels may not contain duplicate categories: s0:c1,c1'],
    ['s0:c0.c1023', "categories must start with 'c': c0.c1023"],
  ] as const) {
    test(`label ${JSON.stringify(text)}, which parseMcsLabel rejects`, () =>
      assert.deepEqual(parseMcsLabel(text), { error }));
  }

  test('labelRank is the inverse of categoriesAt', () => {
    const ranked = fc.integer({ min: 1, max: 5 }).chain((length) =>
      fc.tuple(
        fc.constant(length),
        fc.maxSafeNat().map((n) => n % labelCount({ prefix: '', length, categories: 1024 })),
      ),
    );
    fc.assert(
      fc.property(ranked, ([length, rank]) => {
        const categories = categoriesAt(rank, length);
        assert.equal(labelRank(categories), rank);
        assert.deepEqual(
          categories,
          [...new Set(categories)].sort((a, b) => b - a),
        );
        assert.ok(categories.every((category) => category >= 0 && category < 1024));
      }),
      { numRuns: 2000 },
    );
  });
});

suite('validateRangeSettings accepts or rejects', () => {
  const uidRange = { start: 100, end: 199, blockSize: 10 };
  const cases = [
    ['default', DEFAULT_RANGES, undefined],
    [
      'just enough labels',
      { uidRange, mcsRange: { prefix: '', length: 1, categories: 50 }, labelsPerBlock: 5 },
      undefined,
    ],
    [
      'too few labels',
      { uidRange, mcsRange: { prefix: 's0:', length: 1, categories: 49 }, labelsPerBlock: 5 },
      'mcs range s0:/1,49 has 49 labels, but 50 are needed for the 10 blocks of uid range 100-199/10',
    ],
    [
      'too many blocks',
      { ...DEFAULT_RANGES, uidRange: { start: 1, end: 4_294_967_295, blockSize: 1 } },
      'uid range 1-4294967295/1 has 4294967295 blocks, more than 8000000',
    ],
    [
      'a range that contains the ID of root',
      { ...DEFAULT_RANGES, uidRange: { start: 0, end: 10, blockSize: 1 } },
      'uid range 0-10/1 contains UID 0 (root)',
    ],
  ] as const;
  for (const [name, settings, problem] of cases) {
    test(name, () => assert.equal(validateRangeSettings(settings), problem));
  }
});

suite('a set of blocks in a RangeAllocation', () => {
  for (const text of ['AQ', 'A===', 'AQ=A', '****', '-_-_', 'é===', 'A'.repeat(5 * 1024 * 1024)]) {
    test(`cannot be decoded from ${text.slice(0, 8)}`, () => assert.equal(parseBlocks(text), undefined));
  }

  test('is encoded without leading zero bytes', () => {
    assert.equal(formatBlocks(parseBlocks(Buffer.from([0, 0, 3]).toString('base64')) ?? []), 'Aw==');
  });

  const numbers = fc.uniqueArray(fc.nat(400), { maxLength: 300 });
  const ranges = fc.array(
    fc.tuple(fc.nat(300), fc.nat(80)).map(([first, length]) => ({ first, last: first + length })),
    { maxLength: 8 },
  );

  test('is encoded as a big-endian integer', () => {
    fc.assert(
      fc.property(numbers, (indexes) => {
        const number = indexes.reduce((sum, index) => sum | (1n << BigInt(index)), 0n);
        const text = formatBlocks(blockSet(indexes));
        const hex = Buffer.from(text, 'base64').toString('hex');
        assert.equal(BigInt(`0x0${hex}`), number);
        assert.ok(!hex.startsWith('00'));
        assert.deepEqual(parseBlocks(text), blockSet(indexes));
      }),
    );
  });

  test('has the same union, difference and lowest free block as a set of indexes', () => {
    fc.assert(
      fc.property(ranges, ranges, fc.nat(500), (one, two, count) => {
        const [a, b] = [uniteBlocks(one), uniteBlocks(two)];
        const all = Array.from({ length: 400 }, (_, index) => index);
        const isIn = (all: typeof one, index: number) => all.some(({ first, last }) => first <= index && index <= last);
        assert.deepEqual(
          blockIndexes(a),
          all.filter((index) => isIn(one, index)),
        );
        assert.deepEqual(a, blockSet(blockIndexes(a)));
        const rest = all.filter((index) => isIn(one, index) && !isIn(two, index));
        assert.deepEqual(subtractBlocks(a, b), blockSet(rest));
        const free = [...all, 400, 500].find((index) => !isIn(one, index)) ?? 0;
        assert.equal(lowestFreeBlock(a, count), free < count ? free : undefined);
      }),
    );
  });
});
