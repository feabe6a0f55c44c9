import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deepEqual, semanticEqual } from '../../src/kube/equality.ts';

const proto: unknown = JSON.parse('{"__proto__":{"a":1}}');

const cases: readonly { name: string; a: unknown; b: unknown; deep: boolean; semantic: boolean }[] = [
  { name: 'members in another order', a: { x: 1, y: 2 }, b: { y: 2, x: 1 }, deep: true, semantic: true },
  { name: 'elements in another order', a: [1, 2], b: [2, 1], deep: false, semantic: false },
  { name: 'a text and a number', a: '1', b: 1, deep: false, semantic: false },
  { name: 'undefined and an absent field', a: { x: undefined }, b: {}, deep: true, semantic: true },
  { name: 'null and an absent field', a: { x: null }, b: {}, deep: false, semantic: true },
  { name: 'an empty list and an absent field', a: { x: [] }, b: {}, deep: false, semantic: true },
  { name: 'an empty list and null', a: { x: [] }, b: { x: null }, deep: false, semantic: true },
  { name: 'an empty list and undefined', a: [], b: undefined, deep: false, semantic: true },
  { name: 'an empty map and an absent field', a: { labels: {} }, b: {}, deep: false, semantic: true },
  { name: 'an empty and an absent struct', a: { resources: { limits: {} } }, b: {}, deep: false, semantic: true },
  { name: 'an empty choice and an absent field', a: { emptyDir: {} }, b: {}, deep: false, semantic: false },
  { name: 'an empty security context', a: { securityContext: {} }, b: {}, deep: false, semantic: false },
  { name: 'an empty string and an absent field', a: { x: '' }, b: {}, deep: false, semantic: false },
  { name: 'false and an absent field', a: { x: false }, b: {}, deep: false, semantic: false },
  { name: 'a list and an object', a: { x: ['a'] }, b: { x: { 0: 'a' } }, deep: false, semantic: false },
  { name: 'an element that is null and an empty list', a: [null], b: [], deep: false, semantic: false },
  { name: 'a member named __proto__ and an empty object', a: proto, b: {}, deep: false, semantic: false },
  {
    name: 'a member named constructor and an empty object',
    a: { constructor: 1 },
    b: {},
    deep: false,
    semantic: false,
  },
  {
    name: 'deeply nested empty and absent lists',
    a: { a: [{ b: { c: [] } }] },
    b: { a: [{ b: {} }] },
    deep: false,
    semantic: true,
  },
];

for (const { name, a, b, deep, semantic } of cases) {
  test(`deepEqual and semanticEqual return ${deep} and ${semantic} for ${name}`, () => {
    assert.deepEqual([deepEqual(a, b), deepEqual(b, a)], [deep, deep]);
    assert.deepEqual([semanticEqual(a, b), semanticEqual(b, a)], [semantic, semantic]);
  });
}

test('deepEqual and semanticEqual treat very deeply nested values as different', () => {
  const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
  assert.equal(semanticEqual(nested(100_000), nested(100_000)), false);
  assert.equal(deepEqual(nested(100_000), nested(100_000)), false);
  assert.equal(deepEqual(nested(400), nested(400)), true);
});
