import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compareBytes, sortedSet } from '../../src/kube/text.ts';

describe('sortedSet', () => {
  const cases: readonly { name: string; texts: string[]; expected: string[] }[] = [
    { name: 'upper case before lower case', texts: ['a', 'B'], expected: ['B', 'a'] },
    { name: 'a beginning first', texts: ['ab', 'a', ''], expected: ['', 'a', 'ab'] },
    { name: 'equal ones once', texts: ['b', 'a', 'b'], expected: ['a', 'b'] },
    { name: 'numbers as texts', texts: ['9', '10', '80'], expected: ['10', '80', '9'] },
    { name: 'full width before emoji', texts: ['😀', '\uff5e'], expected: ['\uff5e', '😀'] },
  ];
  for (const { name, texts, expected } of cases) {
    test(name, () => assert.deepEqual(sortedSet(texts), expected));
  }
});

test('the order is that of the bytes', () => {
  const text = fc.string({ unit: 'binary' }).filter((value) => value.isWellFormed());
  fc.assert(
    fc.property(text, text, (a, b) => {
      assert.equal(Math.sign(compareBytes(a, b)), Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
  );
});
