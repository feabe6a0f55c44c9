import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createLineSplitter } from '../../src/cluster/reflector.ts';

const line = fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => text.replaceAll('\n', ''));

test('lines are the same however their bytes come', () => {
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.integer({ min: 1, max: 9 })), (lines, sizes) => {
      const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(''));
      const splitter = createLineSplitter(1000);
      const got: string[] = [];
      for (let start = 0, turn = 0; start < bytes.length; turn++) {
        const end = start + (sizes[turn % Math.max(1, sizes.length)] ?? bytes.length);
        got.push(...splitter.push(bytes.subarray(start, end)));
        start = end;
      }
      assert.deepEqual(got, lines);
    }),
  );
});

test('a line that never ends is too long', () => {
  const splitter = createLineSplitter(10);
  assert.deepEqual(splitter.push(Buffer.from('0123456789\n012345')), ['0123456789']);
  assert.throws(() => splitter.push(Buffer.from('678901')), { message: 'a line is longer than 10 bytes' });
});

test('a rest without an end is no line', () => {
  assert.deepEqual(createLineSplitter(10).push(Buffer.from('a\n{"half"')), ['a']);
});
