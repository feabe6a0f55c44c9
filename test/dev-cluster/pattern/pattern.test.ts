import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readPattern } from '../../../src/dev-cluster/pattern/index.ts';

/** What Go's package regexp says, tried with Go itself. */
const MATCHES: readonly (readonly [pattern: string, yes: readonly string[], no: readonly string[]])[] = [
  ['', ['', 'a'], []],
  ['a', ['a', 'bab'], ['', 'A', 'b']],
  ['^ab?c*$', ['a', 'ab', 'accc', 'abc'], ['abb', 'xa', 'ab\n']],
  ['a|b|', ['', 'c'], []],
  ['^(a|bc)+$', ['a', 'abc', 'bcbca'], ['', 'b', 'ac']],
  ['^a{2}$', ['aa'], ['a', 'aaa']],
  ['^a{2,}$', ['aa', 'aaaa'], ['a']],
  ['^a{1,3}?$', ['a', 'aaa'], ['', 'aaaa']],
  ['^a{,2}$', ['a{,2}'], ['aa']],
  ['^a{0}b$', ['b'], ['ab']],
  ['^x{2}{$', ['xx{'], ['xx']],
  ['^(a*)*$', ['', 'aaaa'], ['b']],
  ['^.$', ['a', 'é', '😀'], ['', '\n', 'ab']],
  ['(?s)^.$', ['\n'], ['']],
  ['(?m)^b$', ['a\nb\nc'], ['a\nbc']],
  ['(?i)straße', ['STRAßE', 'Straße'], ['strase']],
  ['(?i:a)b', ['Ab'], ['AB']],
  ['(?i)a(?-i)b', ['Ab'], ['AB']],
  ['^[a-c-]$', ['a', 'c', '-'], ['d']],
  ['^[^a]$', ['b', '\n'], ['a', '']],
  ['^[]a]$', [']', 'a'], ['b']],
  ['^[\\w.-]+$', ['a.B-1_'], ['é', '']],
  ['^[[:alpha:][:^ascii:]]$', ['a', 'é'], ['1']],
  ['^\\d\\D\\s\\S\\w\\W$', ['1a b_-', '1a\tb_-'], ['aa b_-', '1a\u00a0b_-', '1a\vb_-']],
  ['^\\pL\\p{Lu}\\P{Greek}\\p{^Greek}$', ['éAab'], ['1Aab', 'aaab', 'aAα1']],
  ['^\\x41\\x{1F600}\\101\\0\\.\\_$', ['A😀A\0._'], ['a']],
  ['\\bfoo\\b', ['foo', 'a foo.'], ['food', 'éfoot']],
  ['\\Bb', ['ab'], ['b', 'a b']],
  ['\\Aa\\z', ['a'], ['a\n']],
  ['^\\Qa.b*\\E+$', ['a.b*', 'a.b**'], ['axb']],
  ['^(?P<n>a)(?<m>b)$', ['ab'], ['a']],
];

const ERRORS: readonly (readonly [pattern: string, error: string])[] = [
  ['*', 'missing argument to repetition operator: `*`'],
  ['a|+?', 'missing argument to repetition operator: `+?`'],
  ['a++', 'invalid nested repetition operator: `++`'],
  ['a{1001}', 'invalid repeat count: `{1001}`'],
  ['a{3,2}', 'invalid repeat count: `{3,2}`'],
  ['(a', 'missing closing ): `(a`'],
  ['a)b', 'unexpected ): `a)b`'],
  ['[a', 'missing closing ]: `[a`'],
  ['[z-a]', 'invalid character class range: `z-a`'],
  ['[[:foo:]]', 'invalid character class range: `[:foo:]`'],
  ['\\p{Foo}', 'invalid character class range: `\\p{Foo}`'],
  ['\\p{L', 'invalid character class range: `\\p{L`'],
  ['a\\', 'trailing backslash at end of expression: ``'],
  ['\\1', 'invalid escape sequence: `\\1`'],
  ['\\q', 'invalid escape sequence: `\\q`'],
  ['\\C', 'invalid escape sequence: `\\C`'],
  ['\\xg', 'invalid escape sequence: `\\xg`'],
  ['(?=a)', 'invalid or unsupported Perl syntax: `(?=`'],
  ['(?!a)', 'invalid or unsupported Perl syntax: `(?!`'],
  ['(?>a)', 'invalid or unsupported Perl syntax: `(?>`'],
  ['(?<=a)b', 'invalid named capture: `(?<=a)b`'],
  ['(?P<a-b>c)', 'invalid named capture: `(?P<a-b>`'],
];

describe('patterns', () => {
  for (const [text, yes, no] of MATCHES) {
    test(JSON.stringify(text), () => {
      const pattern = readPattern(text);
      assert.ok(pattern.ok);
      assert.deepEqual(
        yes.filter((one) => !pattern.matches(one)),
        [],
      );
      assert.deepEqual(
        no.filter((one) => pattern.matches(one)),
        [],
      );
    });
  }

  for (const [text, error] of ERRORS) {
    test(`not ${JSON.stringify(text)}`, () => {
      assert.deepEqual(readPattern(text), { ok: false, error: `error parsing regexp: ${error}` });
    });
  }

  test('too large and too deep ones', () => {
    assert.deepEqual(readPattern('[a-z]{999}'.repeat(20)), {
      ok: false,
      error: `error parsing regexp: expression too large: \`${'[a-z]{999}'.repeat(20)}\``,
    });
    const deep = '('.repeat(2000) + ')'.repeat(2000);
    assert.deepEqual(readPattern(deep), {
      ok: false,
      error: `error parsing regexp: expression nests too deeply: \`${deep}\``,
    });
  });

  test('time grows with the text only', { timeout: 10_000 }, () => {
    for (const text of ['^(a+)+$', '^(a|a)*$', '^(a|aa)+$', '(.*)*(.*)*(.*)*x', '(a?){30}a{30}$']) {
      const pattern = readPattern(text);
      assert.ok(pattern.ok);
      assert.equal(pattern.matches(`${'a'.repeat(20_000)}!`), false);
    }
  });
});
