import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { apply, diff, type JsonPatchOp } from '../../src/kube/json-patch.ts';
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
    { name: 'appends by minus one', document: '[1]', ops: [{ op: 'add', path: '/-1', value: 2 }], expected: '[1,2]' },
    { name: 'adds null without a value', document: '{}', ops: [{ op: 'add', path: '/a' }], expected: '{"a":null}' },
    { name: 'adds under an empty key', document: '{}', ops: [{ op: 'add', path: '/', value: 1 }], expected: '{"":1}' },
    {
      name: 'adds __proto__',
      document: '{}',
      ops: [{ op: 'add', path: '/__proto__', value: { x: 1 } }],
      expected: '{"__proto__":{"x":1}}',
    },
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
    { name: 'removes the last element', document: '[1,2]', ops: [{ op: 'remove', path: '/-1' }], expected: '[1]' },
    {
      name: 'replaces an element',
      document: '[1,2]',
      ops: [{ op: 'replace', path: '/1', value: 3 }],
      expected: '[1,3]',
    },
    {
      name: 'replaces a member that is missing',
      document: '{"spec":{}}',
      ops: [{ op: 'replace', path: '/spec/nowhere', value: 1 }],
      expected: '{"spec":{"nowhere":1}}',
    },
    {
      name: 'replaces the whole',
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
      name: 'copies a member, and not its identity',
      document: '{"a":{"b":1}}',
      ops: [
        { op: 'copy', from: '/a', path: '/c' },
        { op: 'replace', path: '/c/b', value: 2 },
      ],
      expected: '{"a":{"b":1},"c":{"b":2}}',
    },
    {
      name: 'copies null for a missing member',
      document: '{}',
      ops: [{ op: 'copy', from: '/a', path: '/b' }],
      expected: '{"b":null}',
    },
    {
      name: 'tests members in any order',
      document: '{"a":{"x":1,"y":[{}]}}',
      ops: [{ op: 'test', path: '/a', value: { y: [{}], x: 1 } }],
      expected: '{"a":{"x":1,"y":[{}]}}',
    },
    {
      name: 'takes a missing member for null in a test',
      document: '{}',
      ops: [{ op: 'test', path: '/a', value: null }],
      expected: '{}',
    },
    { name: 'tests the whole', document: '[1]', ops: [{ op: 'test', path: '', value: [1] }], expected: '[1]' },
  ];
  for (const { name, document, ops, expected } of cases) {
    test(name, () => assert.deepEqual(apply(json(document), ops), json(expected)));
  }

  const refusals: readonly { name: string; document?: string; op: JsonObject; message: string }[] = [
    { name: 'no kind', op: { path: '/a' }, message: 'Unexpected kind: unknown' },
    { name: 'an unknown kind', op: { op: 'toString', path: '/a' }, message: 'Unexpected kind: toString' },
    { name: 'add without a path', op: { op: 'add' }, message: 'add operation failed to decode path: missing value' },
    {
      name: 'replace without a path',
      op: { op: 'replace', path: 1 },
      message: 'replace operation failed to decode path: operation missing path field: missing value',
    },
    {
      name: 'move without a source',
      op: { op: 'move', path: '/a' },
      message: 'move operation failed to decode from: operation, missing from field: missing value',
    },
    {
      name: 'add to a missing parent',
      op: { op: 'add', path: '/metadata/annotations/a', value: '1' },
      message: 'add operation does not apply: doc is missing path: "/metadata/annotations/a": missing value',
    },
    {
      name: 'add to null',
      document: '{"a":null}',
      op: { op: 'add', path: '/a/b', value: 1 },
      message: 'add operation does not apply: doc is missing path: "/a/b": missing value',
    },
    {
      name: 'add through an inherited property',
      op: { op: 'add', path: '/constructor/prototype/x', value: 1 },
      message: 'add operation does not apply: doc is missing path: "/constructor/prototype/x": missing value',
    },
    {
      name: 'add the whole',
      op: { op: 'add', path: '', value: {} },
      message: 'add operation does not apply: doc is missing path: "": missing value',
    },
    {
      name: 'add behind the end',
      document: '[1]',
      op: { op: 'add', path: '/2', value: 1 },
      message: "error in add for path: '/2': Unable to access invalid index: 2: invalid index referenced",
    },
    {
      name: 'add at no index',
      document: '[1]',
      op: { op: 'add', path: '/x', value: 1 },
      message:
        "error in add for path: '/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
    },
    {
      name: 'remove a missing member',
      op: { op: 'remove', path: '/a' },
      message: "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value",
    },
    {
      name: 'remove a missing element',
      document: '[1]',
      op: { op: 'remove', path: '/1' },
      message: "error in remove for path: '/1': Unable to access invalid index: 1: invalid index referenced",
    },
    {
      name: 'remove at no index',
      document: '[1]',
      op: { op: 'remove', path: '/-' },
      message: `error in remove for path: '/-': strconv.Atoi: parsing "-": invalid syntax`,
    },
    {
      name: 'replace below nothing',
      op: { op: 'replace', path: '/a/b', value: 1 },
      message: 'replace operation does not apply: doc is missing path: /a/b: missing value',
    },
    {
      name: 'replace a missing element',
      document: '{"a":[1]}',
      op: { op: 'replace', path: '/a/1', value: 1 },
      message: 'replace operation does not apply: doc is missing key: /a/1: missing value',
    },
    {
      name: 'move a missing member',
      op: { op: 'move', from: '/a', path: '/b' },
      message: "error in move for path: 'a': Unable to remove nonexistent key: a: missing value",
    },
    {
      name: 'move into itself',
      document: '{"a":{"b":{}}}',
      op: { op: 'move', from: '/a', path: '/a/b/c' },
      message: 'move operation does not apply: doc is missing destination path: /a/b/c: missing value',
    },
    {
      name: 'copy from below nothing',
      op: { op: 'copy', from: '/a/b', path: '/c' },
      message: 'copy operation does not apply: doc is missing from path: /a/b: missing value',
    },
    {
      name: 'a test that fails',
      document: '{"a":1}',
      op: { op: 'test', path: '/a', value: '1' },
      message: 'testing value /a failed: test failed',
    },
    {
      name: 'a test below nothing',
      op: { op: 'test', path: '/a/b', value: 1 },
      message: 'test operation does not apply: is missing path: /a/b: missing value',
    },
  ];
  for (const { name, document = '{}', op, message } of refusals) {
    test(`refuses: ${name}`, () => {
      assert.throws(() => apply(json(document), [op]), { name: 'RangeError', message });
    });
  }

  test('refuses copies that grow too large', () => {
    const ops = Array.from({ length: 40 }, () => ({ op: 'copy', from: '/a', path: '/a/-' }));
    assert.throws(() => apply({ a: ['x'.repeat(100)] }, ops), {
      message:
        /^Unable to complete the copy, the accumulated size increase of copy is \d+, exceeding the limit 3145728$/,
    });
  });

  test('changes nothing that it was given', () => {
    const document = { a: { b: [1] } };
    const value = { c: [1] };
    const ops = [
      { op: 'add', path: '/v', value },
      { op: 'add', path: '/v/c/-', value: 2 },
      { op: 'add', path: '/a/b/-', value: 2 },
    ];
    assert.deepEqual(apply(document, ops), { a: { b: [1, 2] }, v: { c: [1, 2] } });
    assert.deepEqual([document, value], [{ a: { b: [1] } }, { c: [1] }]);
  });
});

test('what diff finds, apply makes', () => {
  const key = fc.oneof(fc.constantFrom('__proto__', 'constructor', 'a/b', 'a~b', '~1', '', 'x', '0', '-'), fc.string());
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
      assert.deepEqual(apply(before, diff(before, after)), after);
      assert.equal(JSON.stringify(before), text);
    }),
    { numRuns: 2000 },
  );
});
