/** Random YAML and JSON texts. */
import fc from 'fast-check';

/** Texts with constructs that YAML parsers interpret differently. */
const CONSTRUCTS: readonly string[] = [
  'a:\n  b: ["x",\n  "y"]\n',
  "a: 'x\n\ny'\n",
  'a: {b: 1\n}\n',
  'a: 1\rb: 2\r',
  'a: 1\r\nb: 2\r\n',
  'a: |\r  x\r  y\r',
  '---\ra: 1\r---\rb: 2\r',
  'a: 0o17\nb: 017\nc: 0x1F\nd: 0b11\ne: 1_000\nf: +1\ng: -0\nh: 08\ni: 0o8\n',
  'a: .inf\nb: -.inf\n',
  'a: .nan\n',
  'a: yes\nb: No\nc: on\nd: OFF\ne: y\nf: N\ng: TRUE\nh: tRue\n',
  'a: ~\nb: null\nc: Null\nd: NULL\ne:\nf: nUll\n',
  'a: !!str 1\nb: !!int "2"\nc: !!float 3\nd: !!bool "yes"\n',
  'a: !foo 1\n',
  'a: !!binary aGVsbG8=\n',
  'a: !!null x\n',
  'a: !!set {x, y}\n',
  'a: !!omap [x: 1]\n',
  'a: 1\n\t\nb: 2\n',
  '\ta: 1\n',
  'a:\t1\n',
  'a: 1\t# c\n',
  'a: [1,\t2]\n',
  'a:\n  - 1\n\t\n  - 2\n',
  '- a\n-\tb\n',
  '%YAML 1.1\n---\na: 1\n',
  '%YAML 1.2\n---\na: 1\n',
  '--- {a: 1}\n',
  '---\n---\na: 1\n',
  'a: 1\n...\n',
  '...\na: 1\n',
  'a: 1\n... b: 2\n',
  'a: |\n---\nb: 1\n',
  'a: |\n x\n--- \nb: 1\n',
  '---\n# only comment\n---\na: 1\n',
  '---\r\na: 1\r\n---\r\nb: 2\r\n',
  ' ---\na: 1\n',
  'a: 1\n ---\nb: 1\n',
  '\n\n---\n\na: 1\n',
  '# c\n---\na: 1\n',
  'a: {<<: [{b: 1}, {b: 2, c: 3}]}\n',
  'a: {<<: 1}\n',
  'a: {<<: [1]}\n',
  'a: {"<<": {b: 1}}\n',
  'a: {<<: {<<: {c: 1}, d: 2}, c: 3}\n',
  'x: &x {p: true}\na: {p: false, <<: *x}\n',
  'x: &x {p: true}\ny: &y {p: 3}\na: {p: false, <<: [*x, *y]}\n',
  'a: {!!merge <<: {b: 1}}\n',
  'a: {? <<: {b: 1}}\n',
  '~: x\n',
  '1.5: x\n',
  'on: x\noff: y\n',
  '[1]: x\n',
  '? a\n: b\n',
  '? a\n',
  'a: - b\n',
  '-1: x\n',
  '0x10: y\n',
  '1e3: x\n',
  '.inf: x\n',
  'a: >\n  x\n  y\n\n  z\n',
  'a: >-\n  x\n   y\n  z\n',
  'a: |+\n  x\n\n\nb: 1\n',
  'a: |2\n    x\n',
  'a: |1-\n x\n',
  'a: >+\n\n  x\n\n',
  'a: |0\n x\n',
  '- |\n x\n- >\n y\n',
  'a: |10\n x\n',
  'a: "\\x41\\u0041\\U00000041\\n\\t\\/\\e\\0\\_\\N\\L\\P\\ "\n',
  'a: "\\z"\n',
  'a: "\\ud83d\\ude00"\n',
  "a: 'it''s'\n",
  'a: "x\\\n  y"\n',
  'a: "\\uD800"\n',
  'a: "\u0085"\n',
  'a: x\u2028y\n',
  'a: x\u0007\n',
  'a: "\u0001"\n',
  'a: x\u0085b: y\n',
  '\ufeffa: 1\n',
  'a: "\\x0"\n',
  '{}\n',
  '{"a": 1}\n---\nb: 2\n',
  '{"a": 1,}',
  '{"a": 1} x',
  '{"a": [1, 2\n]}',
  '{"a": 1}---\n{"b": 2}',
  '{"a": "x\ty"}',
  '// c\n{"a": 1}',
  '{"a": 1}\n...\n',
  'a: 1__0\nb: _1\nc: 1_\nd: 0x_1\n',
  'a: 0777\nb: 0800\nc: -017\n',
  'a: b #c\n',
  'a: -\n',
  'a: ?x\n',
  'a: :x\n',
  'a: !\n',
  'a: &\n',
  'a: [a b, c:d, {e}]\n',
  'a: {b: , c: }\n',
  'a: [1,]\n',
  'a: {"b":1}\n',
  "a: {'b':1}\n",
  'a: [?x]\n',
  'a: {?x: 1}\n',
  'a: [-1, - 1]\n',
  'a: {a?b: c}\n',
  'a:\n- 1\n- 2\n',
  'a:\n  - 1\n - 2\n',
  'a:\n - 1\n  - 2\n',
  '- a: 1\n  b: 2\n- c\n',
  'a:\n  b: 1\n c: 2\n',
  'a: x\n\n  y\n',
  'a: &x\n',
  'a: &x b\n*x : c\n',
  '&a a: b\n',
  '!!str a: b\n',
  '- a\nb: 1\n',
  'a:\n[1]\n',
  'a:\n{b: 1}\n',
  'a: {x\n y: 1}\n',
  '"a\nb": 1\n',
  '"a":1\n',
  'a: [? b : c]\n',
];

/** Parts of random texts. */
const WORDS: readonly string[] = [
  'a',
  'b: ',
  'c',
  '- ',
  '  ',
  '\n',
  '\n  ',
  '\n    ',
  ': ',
  '[',
  ']',
  '{',
  '}',
  ', ',
  '"',
  "'",
  '#',
  ' # c\n',
  '&x ',
  '*x',
  '<<: ',
  '!!str ',
  '|\n',
  '>-\n',
  '---\n',
  '...\n',
  '1',
  'yes',
  '~',
  'null',
  '0o7',
  '1.5',
  '\t',
  '\r\n',
  '? ',
  '%',
  'true',
  'x y',
  '- a: 1\n',
  'k: v\n',
  '  k: v\n',
  'x: {p: 1}\n',
  '"s": ',
  '\\n',
  ':',
  '-',
  'é',
];

const construct = fc.constantFrom(...CONSTRUCTS);

/**
 * A change to a text. It inserts or removes a part, appends the end of another text, or changes the indentation of a
 * line.
 */
type Change = (text: string) => string;

const position = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.tuple(position, fc.constantFrom(...WORDS)).map(([at, word]): Change => (text) => {
    const offset = Math.floor(at * (text.length + 1));
    return text.slice(0, offset) + word + text.slice(offset);
  }),
  fc.tuple(position, fc.integer({ min: 1, max: 3 })).map(([at, length]): Change => (text) => {
    const offset = Math.floor(at * (text.length + 1));
    return text.slice(0, offset) + text.slice(offset + length);
  }),
  fc.tuple(position, construct, position).map(([at, other, from]): Change => (text) => {
    return text.slice(0, Math.floor(at * (text.length + 1))) + other.slice(Math.floor(from * other.length));
  }),
  fc.tuple(position, fc.integer({ min: 0, max: 3 })).map(([at, indent]): Change => (text) => {
    const lines = text.split('\n');
    const index = Math.floor(at * lines.length);
    return lines.with(index, ' '.repeat(indent) + (lines[index] ?? '').trimStart()).join('\n');
  }),
);

const text = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.array(fc.constantFrom(...WORDS), { minLength: 2, maxLength: 15 }).map((words) => words.join('')),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(construct, fc.array(change, { minLength: 1, maxLength: 2 }))
      .map(([first, changes]) => changes.reduce((changed, apply) => apply(changed), first)),
  },
);

/** Returns all constructs and random texts. The same seed returns the same texts. */
export function createTexts(count: number, seed: number): readonly string[] {
  const random = fc.sample(text, { numRuns: count - CONSTRUCTS.length, seed });
  return [...CONSTRUCTS, ...random].map((one) => one.toWellFormed());
}
