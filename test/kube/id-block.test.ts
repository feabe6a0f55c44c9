import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parseIdBlock, parseIdBlocks } from '../../src/kube/scc.ts';

suite('blocks of ids', () => {
  const cases: readonly (readonly [text: string, expected: unknown])[] = [
    ['1000660000/10000', { value: { min: 1_000_660_000, max: 1_000_669_999 } }],
    ['1000-1999', { value: { min: 1000, max: 1999 } }],
    [' 1-\t2', { value: { min: 1, max: 2 } }],
    ['1/3 and more', { value: { min: 1, max: 3 } }],
    ['5/0', { value: { min: 5, max: 4 } }],
    ['4294967295/2', { value: { min: 4_294_967_295, max: 0 } }],
    ['9-1', { value: { min: 9, max: 1 } }],
    ['', { error: 'unexpected EOF' }],
    ['1', { error: 'unexpected EOF' }],
    ['1/', { error: 'unexpected EOF' }],
    ['1:2', { error: 'input does not match format' }],
    ['1 -2', { error: 'input does not match format' }],
    ['-1-2', { error: 'expected integer' }],
    ['1-x', { error: 'expected integer' }],
    ['4294967296/1', { error: 'unsigned integer overflow on token 4294967296' }],
  ];
  for (const [text, expected] of cases) {
    test(JSON.stringify(text), () => assert.deepEqual(parseIdBlock(text), expected));
  }

  test('several, the first that is wrong is told', () => {
    assert.deepEqual(parseIdBlocks('1/2,5-5'), {
      value: [
        { min: 1, max: 2 },
        { min: 5, max: 5 },
      ],
    });
    assert.deepEqual(parseIdBlocks('1/2,,x'), { error: 'unexpected EOF' });
  });
});
