import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  categoriesAt,
  parseMcsLabel,
  formatMcsLabel,
  labelRank,
  labelAt,
  labelCount,
  parseMcsRange,
  formatMcsRange,
  DEFAULT_RANGES,
  validateRangeSettings,
  blockAt,
  blockCount,
  blocksTouching,
  indexOfBlock,
  parseUidRange,
  formatBlock,
  formatUidRange,
  type UidRange,
} from '../../../src/policy/uid-range/ranges.ts';
import { emptyBitmap, parseBitmap, type Bitmap } from '../../../src/policy/uid-range/bitmap.ts';

suite('uid ranges', () => {
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

  test('the one that is the default', () => {
    assert.deepEqual(parseUidRange('1000000000-1999999999/10000'), { value: DEFAULT_RANGES.uidRange });
    assert.equal(formatUidRange(DEFAULT_RANGES.uidRange), '1000000000-1999999999/10000');
    assert.equal(blockCount(DEFAULT_RANGES.uidRange), 100_000);
  });

  const range: UidRange = { start: 10, end: 20, blockSize: 2 };
  test('a last block that is not whole is none', () => assert.equal(blockCount(range), 5));

  const indexes: readonly (readonly [min: number, max: number, index: number | undefined])[] = [
    [10, 11, 0],
    [18, 19, 4],
    [20, 21, undefined],
    [8, 9, undefined],
    [11, 12, undefined],
    [10, 13, undefined],
    [10, 9, undefined],
  ];
  for (const [min, max, index] of indexes) {
    test(`${min}-${max} is block ${index}`, () => assert.equal(indexOfBlock(range, { min, max }), index));
  }

  const touching: readonly (readonly [min: number, max: number, expected: unknown])[] = [
    [10, 11, { first: 0, last: 0 }],
    [11, 12, { first: 0, last: 1 }],
    [0, 4_294_967_295, { first: 0, last: 4 }],
    [0, 9, undefined],
    [20, 30, undefined],
    [15, 12, undefined],
  ];
  for (const [min, max, expected] of touching) {
    test(`${min}-${max} touches blocks`, () => assert.deepEqual(blocksTouching(range, { min, max }), expected));
  }

  test('the highest ids do not wrap', () => {
    const highest: UidRange = { start: 4_294_967_286, end: 4_294_967_295, blockSize: 5 };
    assert.equal(formatBlock(blockAt(highest, 1)), '4294967291/5');
    assert.equal(indexOfBlock(highest, { min: 4_294_967_291, max: 4_294_967_295 }), 1);
  });
});

suite('mcs ranges', () => {
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

  test('the one that is the default', () => {
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
    test(`label ${rank} after ${JSON.stringify(prefix)}`, () => {
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
    test(`label ${JSON.stringify(text)}`, () => assert.deepEqual(parseMcsLabel(text), { error }));
  }

  test('places and sets of categories are inverse', () => {
    const place = fc.integer({ min: 1, max: 5 }).chain((length) =>
      fc.tuple(
        fc.constant(length),
        fc.maxSafeNat().map((n) => n % labelCount({ prefix: '', length, categories: 1024 })),
      ),
    );
    fc.assert(
      fc.property(place, ([length, rank]) => {
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

  test('labels of one size come in one order', () => {
    const first = Array.from({ length: 6 }, (_, rank) =>
      formatMcsLabel({ prefix: '', categories: categoriesAt(rank, 2) }),
    );
    assert.deepEqual(first, ['c1,c0', 'c2,c0', 'c2,c1', 'c3,c0', 'c3,c1', 'c3,c2']);
  });
});

suite('ranges that do not go together', () => {
  const uidRange = { start: 0, end: 99, blockSize: 10 };
  const cases = [
    ['as it comes', DEFAULT_RANGES, undefined],
    [
      'just enough labels',
      { uidRange, mcsRange: { prefix: '', length: 1, categories: 50 }, labelsPerBlock: 5 },
      undefined,
    ],
    [
      'too few labels',
      { uidRange, mcsRange: { prefix: 's0:', length: 1, categories: 49 }, labelsPerBlock: 5 },
      'mcs range s0:/1,49 has 49 labels, 50 are needed for the 10 blocks of uid range 0-99/10',
    ],
    [
      'too many blocks',
      { ...DEFAULT_RANGES, uidRange: { start: 0, end: 4_294_967_295, blockSize: 1 } },
      'uid range 0-4294967295/1 has 4294967296 blocks, more than 8000000',
    ],
  ] as const;
  for (const [name, settings, problem] of cases) {
    test(name, () => assert.equal(validateRangeSettings(settings), problem));
  }
});

suite('bitmaps', () => {
  const texts: readonly (readonly [bits: readonly number[], text: string])[] = [
    [[], ''],
    [[0], 'AQ=='],
    [[0, 1, 3], 'Cw=='],
    [[8], 'AQA='],
    [[0, 15], 'gAE='],
    [[16], 'AQAA'],
  ];
  for (const [bits, text] of texts) {
    test(`${bits.join(' ')} is ${JSON.stringify(text)}`, () => {
      assert.equal(bitmapOf(bits).toBase64(), text);
      assert.deepEqual([...(parseBitmap(text)?.values() ?? [])], bits);
    });
  }

  for (const text of ['AQ', 'A===', 'AQ=A', '****', '-_-_', 'é===', 'A'.repeat(5 * 1024 * 1024)]) {
    test(`${text.slice(0, 8)} is none`, () => assert.equal(parseBitmap(text), undefined));
  }

  test('zero bytes in front do not count', () => {
    assert.equal(parseBitmap(Buffer.from([0, 0, 3]).toString('base64'))?.toBase64(), 'Aw==');
  });

  const numbers = fc.uniqueArray(fc.nat(2000), { maxLength: 300 });

  test('what was added comes back, through its text too', () => {
    fc.assert(
      fc.property(numbers, (bits) => {
        const sorted = bits.toSorted((a, b) => a - b);
        const bitmap = bitmapOf(bits);
        assert.deepEqual([...bitmap.values()], sorted);
        assert.deepEqual([...(parseBitmap(bitmap.toBase64())?.values() ?? [])], sorted);
        assert.ok(bits.every((bit) => bitmap.has(bit)));
      }),
    );
  });

  test('the text is the number in big-endian bytes', () => {
    fc.assert(
      fc.property(numbers, (bits) => {
        const number = bits.reduce((sum, bit) => sum | (1n << BigInt(bit)), 0n);
        const hex = Buffer.from(bitmapOf(bits).toBase64(), 'base64').toString('hex');
        assert.equal(BigInt(`0x0${hex}`), number);
        assert.ok(!hex.startsWith('00'));
      }),
    );
  });

  test('numbers in a row are added at once, and come back so', () => {
    const row = fc.tuple(fc.nat(300), fc.nat(80)).map(([first, length]) => ({ first, last: first + length - 1 }));
    fc.assert(
      fc.property(fc.array(row, { maxLength: 8 }), (rows) => {
        const bitmap = emptyBitmap();
        for (const { first, last } of rows) bitmap.addRange(first, last);
        const expected = Array.from({ length: 400 }, (_, bit) => bit).filter((bit) =>
          rows.some(({ first, last }) => first <= bit && bit <= last),
        );
        assert.deepEqual([...bitmap.values()], expected);
        const found = [...bitmap.ranges()];
        assert.ok(found.every(({ first, last }, index) => first <= last && first > (found[index - 1]?.last ?? -2) + 1));
      }),
    );
  });

  test('all of another are added, removed or kept', () => {
    fc.assert(
      fc.property(numbers, numbers, (bits, others) => {
        const one = bits.toSorted((a, b) => a - b);
        const two = new Set(others);
        const [sum, rest] = [bitmapOf(bits), bitmapOf(bits)];
        sum.addAll(bitmapOf(others));
        rest.removeAll(bitmapOf(others));
        const without = one.filter((bit) => !two.has(bit));
        assert.deepEqual(new Set(sum.values()), new Set([...one, ...others]));
        assert.deepEqual([...rest.values()], without);
        const both = [...bitmapOf(bits).intersection(bitmapOf(others)).values()];
        assert.deepEqual(
          both,
          one.filter((bit) => two.has(bit)),
        );
        assert.equal(rest.isEmpty(), without.length === 0);
      }),
    );
  });

  test('the lowest number that is clear, in one and in two', () => {
    fc.assert(
      fc.property(numbers, numbers, fc.nat(40), fc.nat(2010), (bits, others, filled, limit) => {
        const one = new Set([...bits, ...Array.from({ length: filled }, (_, bit) => bit)]);
        const two = new Set([...one, ...others]);
        const lowestNotIn = (set: ReadonlySet<number>) =>
          Array.from({ length: limit }, (_, bit) => bit).find((bit) => !set.has(bit));
        assert.equal(bitmapOf([...one]).lowestClear(limit), lowestNotIn(one));
        assert.equal(bitmapOf([...one]).lowestClear(limit, bitmapOf(others)), lowestNotIn(two));
      }),
    );
  });
});

function bitmapOf(bits: readonly number[]): Bitmap {
  const bitmap = emptyBitmap();
  for (const bit of bits) bitmap.add(bit);
  return bitmap;
}
