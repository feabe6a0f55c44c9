import { patternError, type Test } from './types.ts';

/** What stands at a place of the pattern, and where it ends. */
export interface Read<T> {
  readonly value: T;
  readonly end: number;
}

/** The character at a place. */
export function characterAt(pattern: string, at: number): Read<number> {
  const value = pattern.codePointAt(at) ?? 0;
  return { value, end: at + (value > 0xffff ? 2 : 1) };
}

const NAMED: ReadonlyMap<string, number> = new Map([
  ['a', 7],
  ['f', 12],
  ['n', 10],
  ['r', 13],
  ['t', 9],
  ['v', 11],
]);
const HEX = /x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\})/y;
/** What Go has read by the time it sees that the number is none. */
const NO_HEX = /\{[0-9a-fA-F]*.?|.{0,2}/suy;
const OCTAL = /0[0-7]{0,2}|[1-7][0-7]{1,2}/y;
const MAX_CODE_POINT = 0x10ffff;

/** Reads an escaped character; throws for what is no escape in RE2, such as a backreference. */
export function readEscape(pattern: string, at: number): Read<number> {
  if (at + 1 >= pattern.length) throw patternError('trailing backslash at end of expression', '');
  const { value, end } = characterAt(pattern, at + 1);
  const letter = String.fromCodePoint(value);
  const named = NAMED.get(letter);
  if (named !== undefined) return { value: named, end };
  const octal = match(OCTAL, pattern, at + 1);
  if (octal) return { value: Number.parseInt(octal[0], 8), end: at + 1 + octal[0].length };
  const hex = match(HEX, pattern, at + 1);
  const code = Number.parseInt(hex?.[1] ?? hex?.[2] ?? '', 16);
  if (hex && code <= MAX_CODE_POINT) return { value: code, end: at + 1 + hex[0].length };
  if (value < 0x80 && !/[0-9A-Za-z]/.test(letter)) return { value, end };
  const stop = letter === 'x' ? (match(NO_HEX, pattern, end)?.[0].length ?? 0) : 0;
  throw patternError('invalid escape sequence', pattern.slice(at, end + stop));
}

const PERL: ReadonlyMap<string, Test> = new Map(
  Object.entries({ d: /[0-9]/, s: /[\t\n\f\r ]/, w: /[0-9A-Za-z_]/ }).flatMap(([letter, set]): [string, Test][] => [
    [letter, testOf(set)],
    [letter.toUpperCase(), not(testOf(set))],
  ]),
);
const UNICODE = /\\([pP])(?:\{(\^?)([^}]*)\}|([^{]))/uy;

/** Reads `\d` and its like, or a Unicode class such as `\pL`; `undefined` where none of them stands. */
export function readSet(pattern: string, at: number): Read<Test> | undefined {
  const perl = pattern[at] === '\\' ? PERL.get(pattern[at + 1] ?? '') : undefined;
  if (perl) return { value: perl, end: at + 2 };
  if (!/^\\[pP]/.test(pattern.slice(at, at + 2)) || pattern.length < at + 3) return undefined;
  const found = match(UNICODE, pattern, at);
  if (!found) throw patternError('invalid character class range', pattern.slice(at));
  const [whole, letter, caret, name = found[4] ?? ''] = found;
  const test = unicodeTest(name);
  if (!test) throw patternError('invalid character class range', whole);
  return { value: (letter === 'P') === (caret === '^') ? test : not(test), end: at + whole.length };
}

/** Categories and scripts have the same names in Go and here. */
function unicodeTest(name: string): Test | undefined {
  if (name === 'Any') return () => true;
  if (!/^[A-Z][A-Za-z_]*$/.test(name)) return undefined;
  for (const property of [`gc=${name}`, `sc=${name}`]) {
    try {
      return testOf(new RegExp(`\\p{${property}}`, 'u'));
    } catch {
      // No such property: perhaps it is the other one.
    }
  }
  return undefined;
}

export function not(test: Test): Test {
  return (codePoint) => !test(codePoint);
}

/** Of an expression for one character. */
function testOf(set: RegExp): Test {
  return (codePoint) => set.test(String.fromCodePoint(codePoint));
}

function match(expression: RegExp, text: string, at: number): RegExpExecArray | null {
  expression.lastIndex = at;
  return expression.exec(text);
}
