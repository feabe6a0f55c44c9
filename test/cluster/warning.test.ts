/** Warnings as API servers send them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { warningHeader } from '../../src/dev-cluster/server.ts';
import { parseWarnings } from '../../src/cluster/connection.ts';

const CASES: readonly (readonly [name: string, headers: readonly string[], texts: readonly string[]])[] = [
  ['none', [], []],
  ['one', ['299 - "existing pods violate"'], ['existing pods violate']],
  ['several headers', ['299 - "a"', '299 - "b"'], ['a', 'b']],
  ['several in one header', ['299 - "a, b", 299 kube "c"'], ['a, b', 'c']],
  ['quotes and backslashes', ['299 - "namespace \\"shop\\" \\\\ x"'], ['namespace "shop" \\ x']],
  ['a date after the text', ['299 - "a" "Sat, 21 Nov 2026 18:00:00 GMT"'], ['a']],
  ['an empty text', ['299 - ""'], ['']],
  ['what is no warning', ['299 existing pods', '', '"a"', '299 - "open'], []],
];

suite('warnings of an API server', () => {
  for (const [name, headers, texts] of CASES) {
    test(name, () => assert.deepEqual(parseWarnings(headers), texts));
  }

  test('as the development cluster sends them', () => {
    const text = 'namespace "shöp": \\ ✓';
    assert.deepEqual(parseWarnings([warningHeader(text)]), [text]);
  });
});
