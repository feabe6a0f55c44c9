import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createWarnings } from '../../../src/dev-cluster/admission/index.ts';

function listed(texts: readonly string[]): readonly string[] {
  const warnings = createWarnings();
  for (const text of texts) warnings.add(text);
  return warnings.list();
}

describe('warnings', () => {
  const long = (character: string, length: number): string => character.repeat(length);
  const cases: { name: string; given: readonly string[]; expected: readonly string[] }[] = [
    { name: 'in order, each once', given: ['b', 'a', 'b'], expected: ['b', 'a'] },
    { name: 'none that are empty', given: ['', 'a'], expected: ['a'] },
    { name: 'none with control characters', given: ['a\nb', 'c\u0000', 'tab\t', 'ünïcode ✓'], expected: ['ünïcode ✓'] },
    { name: 'long ones are whole while there is room', given: [long('x', 4096)], expected: [long('x', 4096)] },
    {
      name: 'all are cut once there is not',
      given: [long('x', 300), long('y', 4000)],
      expected: [long('x', 256), long('y', 256)],
    },
    {
      name: 'characters count, not their bytes',
      given: [long('é', 4096)],
      expected: [long('é', 4096)],
    },
    {
      name: 'characters beyond the first plane are not cut in two',
      given: [long('😀', 4097)],
      expected: [long('😀', 256)],
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => assert.deepEqual(listed(given), expected));
  }

  test('no more than fit, even when cut', () => {
    const given = Array.from({ length: 100 }, (_item, index) => `${index}${long('x', 300)}`);
    assert.equal(listed(given).length, 4096 / 256);
  });
});
