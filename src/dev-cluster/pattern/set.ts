import { characterAt, not, readEscape, readSet, type Read } from './escape.ts';
import { patternError, type Test } from './types.ts';

/** The first and last characters of the ranges of each POSIX class. */
const POSIX: Readonly<Record<string, string>> = {
  alnum: '09AZaz',
  alpha: 'AZaz',
  ascii: '\0\x7f',
  blank: '\t\t  ',
  cntrl: '\0\x1f\x7f\x7f',
  digit: '09',
  graph: '!~',
  lower: 'az',
  print: ' ~',
  punct: '!/:@[`{~',
  space: '\t\r  ',
  upper: 'AZ',
  word: '09AZaz__',
  xdigit: '09AFaf',
};

/** Reads a class in brackets, the opening one of which stands at the place. */
export function readClass(pattern: string, at: number): Read<Test> {
  const isNegated = pattern[at + 1] === '^';
  const start = at + (isNegated ? 2 : 1);
  const tests: Test[] = [];
  let end = start;
  // A bracket that stands first is a character like any other.
  while (pattern[end] !== ']' || end === start) {
    const item = readPosix(pattern, end) ?? readSet(pattern, end) ?? readRange(pattern, end, at);
    tests.push(item.value);
    end = item.end;
  }
  const test: Test = (codePoint) => tests.some((one) => one(codePoint));
  return { value: isNegated ? not(test) : test, end: end + 1 };
}

function readPosix(pattern: string, at: number): Read<Test> | undefined {
  const close = pattern.startsWith('[:', at) ? pattern.indexOf(':]', at + 2) : -1;
  if (close < 0) return undefined;
  const end = close + 2;
  const isNegated = pattern[at + 2] === '^';
  const name = pattern.slice(at + (isNegated ? 3 : 2), close);
  const ranges = Object.hasOwn(POSIX, name) ? POSIX[name] : undefined;
  if (ranges === undefined) throw patternError('invalid character class range', pattern.slice(at, end));
  const test = rangesTest(ranges);
  return { value: isNegated ? not(test) : test, end };
}

function rangesTest(ends: string): Test {
  const codes = Array.from(ends, (end) => end.charCodeAt(0));
  return (codePoint) =>
    codes.some((low, index) => index % 2 === 0 && codePoint >= low && codePoint <= (codes[index + 1] ?? low));
}

function readRange(pattern: string, at: number, classAt: number): Read<Test> {
  const low = readMember(pattern, at, classAt);
  const isRange = pattern[low.end] === '-' && low.end + 1 < pattern.length && pattern[low.end + 1] !== ']';
  const high = isRange ? readMember(pattern, low.end + 1, classAt) : low;
  if (high.value < low.value) throw patternError('invalid character class range', pattern.slice(at, high.end));
  return { value: (codePoint) => codePoint >= low.value && codePoint <= high.value, end: high.end };
}

function readMember(pattern: string, at: number, classAt: number): Read<number> {
  if (at >= pattern.length) throw patternError('missing closing ]', pattern.slice(classAt));
  return pattern[at] === '\\' ? readEscape(pattern, at) : characterAt(pattern, at);
}
