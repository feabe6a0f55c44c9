import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compareBytes, quote, sortedSet } from '../../src/kube/text.ts';

const cases: readonly { name: string; text: string; expected: string }[] = [
  { name: 'nothing', text: '', expected: '""' },
  { name: 'plain text', text: 'restricted:v1.30', expected: '"restricted:v1.30"' },
  { name: 'quotes and backslashes', text: 'a"b\\c', expected: '"a\\"b\\\\c"' },
  { name: 'named escapes', text: '\u0007\b\f\n\r\t\v', expected: '"\\a\\b\\f\\n\\r\\t\\v"' },
  { name: 'other unprintable ASCII', text: '\u0000\u001b\u007f', expected: '"\\x00\\x1b\\x7f"' },
  { name: 'unprintable runes', text: '\u0085\u00a0\u200b\ufeff', expected: '"\\u0085\\u00a0\\u200b\\ufeff"' },
  { name: 'unprintable runes beyond 16 bits', text: '\u{e0001}', expected: '"\\U000e0001"' },
  { name: 'letters, marks and symbols', text: 'é\u0301 ü 漢 ✓ €', expected: '"é\u0301 ü 漢 ✓ €"' },
  { name: 'emoji', text: '😀', expected: '"😀"' },
  { name: 'an unpaired surrogate', text: 'a\ud83dz', expected: '"a\ufffdz"' },
  { name: 'a single quote', text: "it's", expected: `"it's"` },
];

for (const { name, text, expected } of cases) {
  test(`quote formats ${name} as Go does`, () => assert.equal(quote(text), expected));
}

describe('sortedSet sorts and deduplicates texts:', () => {
  const cases: readonly { name: string; texts: string[]; expected: string[] }[] = [
    { name: 'upper case before lower case', texts: ['a', 'B'], expected: ['B', 'a'] },
    { name: 'a prefix before a longer text', texts: ['ab', 'a', ''], expected: ['', 'a', 'ab'] },
    { name: 'equal texts only once', texts: ['b', 'a', 'b'], expected: ['a', 'b'] },
    { name: 'numbers as texts', texts: ['9', '10', '80'], expected: ['10', '80', '9'] },
    { name: 'full-width characters before emoji', texts: ['😀', '\uff5e'], expected: ['\uff5e', '😀'] },
  ];
  for (const { name, texts, expected } of cases) {
    test(name, () => assert.deepEqual(sortedSet(texts), expected));
  }
});

test('compareBytes sorts by bytes', () => {
  const text = fc.string({ unit: 'binary' }).filter((value) => value.isWellFormed());
  fc.assert(
    fc.property(text, text, (a, b) => {
      assert.equal(Math.sign(compareBytes(a, b)), Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
  );
});
