import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { applyJsonPatch } from '../../src/dev-cluster/json-patch.ts';
import { diff, type JsonPatchOp } from '../../src/kube/json-patch.ts';
import type { JsonObject } from '../../src/kube/types.ts';

/** Parsed, so that `__proto__` is a member like any other. */
const json = (text: string): unknown => JSON.parse(text);

describe('diff', () => {
  const cases: readonly { name: string; before: string; after: string; expected: JsonPatchOp[] }[] = [
    { name: 'nothing', before: '{"a":[1]}', after: '{"a":[1]}', expected: [] },
    {
      name: 'members',
      before: '{"a":1,"b":2}',
      after: '{"b":3,"c":null}',
      expected: [
        { op: 'remove', path: '/a' },
        { op: 'replace', path: '/b', value: 3 },
        { op: 'add', path: '/c', value: null },
      ],
    },
    {
      name: 'a list of the same length',
      before: '{"l":[{"x":1},{"x":2}]}',
      after: '{"l":[{"x":1},{"x":3}]}',
      expected: [{ op: 'replace', path: '/l/1/x', value: 3 }],
    },
    {
      name: 'a list of another length',
      before: '{"l":[1]}',
      after: '{"l":[1,2]}',
      expected: [{ op: 'replace', path: '/l', value: [1, 2] }],
    },
    {
      name: 'keys that need escaping',
      before: '{}',
      after: '{"a/b":1,"c~d":2,"__proto__":3}',
      expected: [
        { op: 'add', path: '/a~1b', value: 1 },
        { op: 'add', path: '/c~0d', value: 2 },
        { op: 'add', path: '/__proto__', value: 3 },
      ],
    },
    { name: 'the whole', before: '{}', after: '[]', expected: [{ op: 'replace', path: '', value: [] }] },
  ];
  for (const { name, before, after, expected } of cases) {
    test(name, () => assert.deepEqual(diff(json(before), json(after)), expected));
  }

  test('a member that is undefined is absent', () => {
    assert.deepEqual(diff({ a: undefined, b: 1 }, { a: 1, b: undefined }), [
      { op: 'remove', path: '/b' },
      { op: 'add', path: '/a', value: 1 },
    ]);
    assert.deepEqual(diff({ a: undefined }, {}), []);
  });
});

describe('apply', () => {
  const cases: readonly { name: string; document: string; ops: readonly JsonObject[]; expected: string }[] = [
    {
      name: 'adds a member',
      document: '{"a":{}}',
      ops: [{ op: 'add', path: '/a/b', value: 1 }],
      expected: '{"a":{"b":1}}',
    },
    {
      name: 'adds over a member',
      document: '{"a":1}',
      ops: [{ op: 'add', path: '/a', value: 2 }],
      expected: '{"a":2}',
    },
    {
      name: 'inserts an element',
      document: '[1,3]',
      ops: [{ op: 'add', path: '/1', value: 2 }],
      expected: '[1,2,3]',
    },
    { name: 'appends by a dash', document: '[1]', ops: [{ op: 'add', path: '/-', value: 2 }], expected: '[1,2]' },
    { name: 'appends by the length', document: '[1]', ops: [{ op: 'add', path: '/1', value: 2 }], expected: '[1,2]' },
    { name: 'adds null without a value', document: '{}', ops: [{ op: 'add', path: '/a' }], expected: '{"a":null}' },
    { name: 'adds under an empty key', document: '{}', ops: [{ op: 'add', path: '/', value: 1 }], expected: '{"":1}' },
    {
      name: 'reads escapes once',
      document: '{"~1":1,"a/b":2}',
      ops: [
        { op: 'remove', path: '/~01' },
        { op: 'remove', path: '/a~1b' },
      ],
      expected: '{}',
    },
    { name: 'removes an element', document: '[1,2,3]', ops: [{ op: 'remove', path: '/1' }], expected: '[1,3]' },
    {
      name: 'replaces an element',
      document: '[1,2]',
      ops: [{ op: 'replace', path: '/1', value: 3 }],
      expected: '[1,3]',
    },
    {
      name: 'replaces the document',
      document: '{"a":1}',
      ops: [{ op: 'replace', path: '', value: [1] }],
      expected: '[1]',
    },
    {
      name: 'moves a member',
      document: '{"a":{"b":1},"c":[2]}',
      ops: [{ op: 'move', from: '/a/b', path: '/c/0' }],
      expected: '{"a":{},"c":[1,2]}',
    },
    {
      name: 'copies a member deeply',
      document: '{"a":{"b":1}}',
      ops: [
        { op: 'copy', from: '/a', path: '/c' },
        { op: 'replace', path: '/c/b', value: 2 },
      ],
      expected: '{"a":{"b":1},"c":{"b":2}}',
    },
    {
      name: 'tests members in any order',
      document: '{"a":{"x":1,"y":[{}]}}',
      ops: [{ op: 'test', path: '/a', value: { y: [{}], x: 1 } }],
      expected: '{"a":{"x":1,"y":[{}]}}',
    },
    {
      name: 'replaces a missing member',
      document: '{"spec":{}}',
      ops: [{ op: 'replace', path: '/spec/nowhere', value: 1 }],
      expected: '{"spec":{"nowhere":1}}',
    },
    {
      name: 'tests a missing member for null',
      document: '{}',
      ops: [{ op: 'test', path: '/a', value: null }],
      expected: '{}',
    },
    { name: 'tests the whole', document: '[1]', ops: [{ op: 'test', path: '', value: [1] }], expected: '[1]' },
  ];
  for (const { name, document, ops, expected } of cases) {
    test(name, () => assert.deepEqual(applyJsonPatch(json(document), ops), json(expected)));
  }

  const errors: readonly { name: string; document?: string; op: JsonObject; message: string }[] = [
    { name: 'an unknown operation', op: { op: 'toString', path: '/a' }, message: 'Unexpected kind: toString' },
    {
      name: 'add to a missing parent',
      op: { op: 'add', path: '/metadata/annotations/a', value: '1' },
      message: 'add operation does not apply: doc is missing path: "/metadata/annotations/a": missing value',
    },
    {
      name: 'remove a missing item',
      document: '[1]',
      op: { op: 'remove', path: '/1' },
      message: 'remove operation does not apply: doc is missing path: "/1": missing value',
    },
    {
      name: 'move a missing member',
      op: { op: 'move', from: '/a', path: '/b' },
      message: 'move operation does not apply: doc is missing from path: /a: missing value',
    },
    {
      name: 'a failed test',
      document: '{"a":1}',
      op: { op: 'test', path: '/a', value: '1' },
      message: 'testing value /a failed: test failed',
    },
  ];
  for (const { name, document = '{}', op, message } of errors) {
    test(`fails: ${name}`, () => {
      assert.throws(() => applyJsonPatch(json(document), [op]), { name: 'RangeError', message });
    });
  }

  test('does not mutate its arguments', () => {
    const document = { a: { b: [1] } };
    const value = { c: [1] };
    const ops = [
      { op: 'add', path: '/v', value },
      { op: 'add', path: '/v/c/-', value: 2 },
      { op: 'add', path: '/a/b/-', value: 2 },
    ];
    assert.deepEqual(applyJsonPatch(document, ops), { a: { b: [1, 2] }, v: { c: [1, 2] } });
    assert.deepEqual([document, value], [{ a: { b: [1] } }, { c: [1] }]);
  });
});

test('applying a computed patch yields the target', () => {
  const key = fc.oneof(
    fc.constantFrom('a/b', 'a~b', '~1', '', 'x', '0', '-'),
    fc.string().filter((name) => !['__proto__', 'constructor', 'prototype'].includes(name)),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, true, false, 0, 1, '', 'x'),
      fc.array(tie('value'), { maxLength: 3 }),
      // From text, so that `__proto__` becomes a member.
      fc
        .array(fc.tuple(key, tie('value')), { maxLength: 4 })
        .map((members) => json(`{${members.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`).join(',')}}`)),
    ),
  }));
  fc.assert(
    fc.property(value, value, (before, after) => {
      const text = JSON.stringify(before);
      assert.deepEqual(applyJsonPatch(before, diff(before, after)), after);
      assert.equal(JSON.stringify(before), text);
    }),
    { numRuns: 2000 },
  );
});
