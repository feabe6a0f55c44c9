import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { scanJson } from '../../../src/dev-cluster/fields/json-text.ts';

suite('syntax errors in the words of Go', () => {
  const cases: [text: string, error: string][] = [
    ['', 'unexpected end of JSON input'],
    ['{"a":', 'unexpected end of JSON input'],
    ['"a', 'unexpected end of JSON input'],
    ['nul', 'unexpected end of JSON input'],
    ['x', "invalid character 'x' looking for beginning of value"],
    ['[1,]', "invalid character ']' looking for beginning of value"],
    ["{'a':1}", "invalid character '\\'' looking for beginning of object key string"],
    ['{"a":1,}', "invalid character '}' looking for beginning of object key string"],
    ['{"a" 1}', "invalid character '1' after object key"],
    ['{"a":1 "b":2}', "invalid character '\"' after object key:value pair"],
    ['[1 2]', "invalid character '2' after array element"],
    ['{} {}', "invalid character '{' after top-level value"],
    ['01', "invalid character '1' after top-level value"],
    ['-a', "invalid character 'a' in numeric literal"],
    ['1.a', "invalid character 'a' after decimal point in numeric literal"],
    ['1ea', "invalid character 'a' in exponent of numeric literal"],
    ['truu', "invalid character 'u' in literal true (expecting 'e')"],
    ['"\n"', "invalid character '\\n' in string literal"],
    ['"\\x"', "invalid character 'x' in string escape code"],
    ['"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"],
    ['é', "invalid character 'Ã' looking for beginning of value"],
  ];
  for (const [text, error] of cases) {
    test(JSON.stringify(text), () => {
      assert.deepEqual(scanJson(text), { error, duplicates: [] });
    });
  }
});

suite('fields that come twice', () => {
  const cases: [text: string, duplicates: string[]][] = [
    ['{"a":1,"b":2}', []],
    ['{"a":1,"a":2,"a":3}', ['a']],
    ['{"a":{"b":1,"b":2},"c":[{},{"d":1,"d":2}]}', ['a.b', 'c[1].d']],
    ['[[{"x":1,"x":1}]]', ['[0][0].x']],
    ['{"a":1,"\\u0061":2}', ['a']],
    ['{"__proto__":1,"__proto__":2}', ['__proto__']],
  ];
  for (const [text, duplicates] of cases) {
    test(text, () => {
      assert.deepEqual(scanJson(text), { duplicates });
    });
  }
});

suite('properties', () => {
  test('good and bad are told apart as JSON.parse does', () => {
    const text = fc.oneof(
      fc.json(),
      fc.string({
        unit: fc.constantFrom('{', '}', '[', ']', ',', ':', '"', '1', '-', '.', 'e', 't', 'null', ' ', '\\', 'u'),
      }),
    );
    fc.assert(
      fc.property(text, (sample) => {
        let good = true;
        try {
          JSON.parse(sample);
        } catch {
          good = false;
        }
        assert.equal(scanJson(sample).error === undefined, good);
      }),
      { numRuns: 2000 },
    );
  });
});
