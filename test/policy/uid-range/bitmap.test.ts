import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { emptyBitmap, parseBitmap, type Bitmap } from '../../../src/policy/uid-range/bitmap.ts';

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
