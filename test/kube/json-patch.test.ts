import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { applyJsonPatch } from '../../src/dev-cluster/json-patch.ts';
import { diff } from '../../src/kube/json-patch.ts';
import type { JsonObject } from '../../src/kube/types.ts';

/** Parses JSON in which `__proto__` is an ordinary member. */
const json = (text: string): unknown => JSON.parse(text);

describe('diff computes a patch that changes', () => {
  const cases: readonly (readonly [name: string, before: string, after: string, patch: string])[] = [
    ['nothing', '{"a":[1]}', '{"a":[1]}', '[]'],
    [
      'members',
      '{"a":1,"b":2}',
      '{"b":3,"c":null}',
      '[{"op":"remove","path":"/a"},{"op":"replace","path":"/b","value":3},{"op":"add","path":"/c","value":null}]',
    ],
    [
      'a list with the same length',
      '{"l":[{"x":1},{"x":2}]}',
      '{"l":[{"x":1},{"x":3}]}',
      '[{"op":"replace","path":"/l/1/x","value":3}]',
    ],
    ['a list with a different length', '{"l":[1]}', '{"l":[1,2]}', '[{"op":"replace","path":"/l","value":[1,2]}]'],
    ['a key with a slash', '{}', '{"a/b":1}', '[{"op":"add","path":"/a~1b","value":1}]'],
    ['a key with a tilde', '{}', '{"c~d":2}', '[{"op":"add","path":"/c~0d","value":2}]'],
    ['the key __proto__', '{}', '{"__proto__":3}', '[{"op":"add","path":"/__proto__","value":3}]'],
    ['the whole document', '{}', '[]', '[{"op":"replace","path":"","value":[]}]'],
  ];
  for (const [name, before, after, patch] of cases) {
    test(name, () => assert.deepEqual(diff(json(before), json(after)), json(patch)));
  }

  test('an object with an undefined member, which is treated as absent', () => {
    assert.deepEqual(diff({ a: undefined, b: 1 }, { a: 1, b: undefined }), [
      { op: 'remove', path: '/b' },
      { op: 'add', path: '/a', value: 1 },
    ]);
    assert.deepEqual(diff({ a: undefined }, {}), []);
  });
});

describe('applyJsonPatch', () => {
  const cases: readonly (readonly [name: string, document: string, patch: string, result: string])[] = [
    ['adds null if an add operation has no value', '{}', '[{"op":"add","path":"/a"}]', '{"a":null}'],
    [
      'decodes each escape in a path once',
      '{"~1":1,"a/b":2}',
      '[{"op":"remove","path":"/~01"},{"op":"remove","path":"/a~1b"}]',
      '{}',
    ],
    ['can replace the whole document', '{"a":1}', '[{"op":"replace","path":"","value":[1]}]', '[1]'],
    [
      'adds a member if it is to be replaced but missing',
      '{"a":{}}',
      '[{"op":"replace","path":"/a/b","value":1}]',
      '{"a":{"b":1}}',
    ],
    ['treats a missing member as null in a test operation', '{}', '[{"op":"test","path":"/a","value":null}]', '{}'],
  ];
  for (const [name, document, patch, result] of cases) {
    test(name, () => assert.deepEqual(applyJsonPatch(json(document), json(patch) as JsonObject[]), json(result)));
  }

  const errors: readonly (readonly [document: string, op: string, message: string])[] = [
    ['{}', '{"op":"toString","path":"/a"}', 'Unexpected kind: toString'],
    [
      '{}',
      '{"op":"add","path":"/metadata/annotations/a","value":"1"}',
      'add operation does not apply: doc is missing path: "/metadata/annotations/a": missing value',
    ],
    ['[1]', '{"op":"remove","path":"/1"}', 'remove operation does not apply: doc is missing path: "/1": missing value'],
    [
      '{}',
      '{"op":"move","from":"/a","path":"/b"}',
      'move operation does not apply: doc is missing from path: /a: missing value',
    ],
    ['{"a":1}', '{"op":"test","path":"/a","value":"1"}', 'testing value /a failed: test failed'],
  ];
  for (const [document, op, message] of errors) {
    test(`rejects ${op}`, () => {
      assert.throws(() => applyJsonPatch(json(document), [json(op) as JsonObject]), { name: 'RangeError', message });
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

test('applyJsonPatch of a computed patch returns the target of the patch', () => {
  const key = fc.oneof(
    fc.constantFrom('a/b', 'a~b', '~1', '', 'x', '0', '-'),
    fc.string().filter((name) => !['__proto__', 'constructor', 'prototype'].includes(name)),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, true, false, 0, 1, '', 'x'),
      fc.array(tie('value'), { maxLength: 3 }),
      // Parsing makes `__proto__` an ordinary member.
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
