import { characterAt, readEscape, readSet } from './escape.ts';
import { readClass } from './set.ts';
import { patternError, type Node, type Place, type Test } from './types.ts';

/** What `(?ims)` switches on. */
interface Flags {
  readonly anyCase: boolean;
  readonly lines: boolean;
  readonly dotTakesAll: boolean;
}

const NO_FLAGS: Flags = { anyCase: false, lines: false, dotTakesAll: false };
const LINE_FEED = 10;
const MAX_NESTING = 500;
const MAX_REPEAT = 1000;
const PLACES: Readonly<Record<string, Place>> = {
  A: 'text start',
  z: 'text end',
  b: 'word edge',
  B: 'no word edge',
};

/**
 * Reads a pattern as Go does, and refuses what Go refuses: all that remains can be matched in linear time.
 * @throws SyntaxError in the words of Go
 * @see https://github.com/google/re2/wiki/Syntax
 */
export function parsePattern(pattern: string): Node {
  let at = 0;

  /** Up to the end of the group, which is left to the caller. */
  const readChoice = (given: Flags, nesting: number): Node => {
    if (nesting > MAX_NESTING) throw patternError('expression nests too deeply', pattern);
    let flags = given;
    const choices: Node[] = [];
    let items: Node[] = [];
    let lastRepeat: number | undefined;
    const close = (): void => {
      choices.push({ kind: 'sequence', items });
      items = [];
    };
    while (at < pattern.length && pattern[at] !== ')') {
      const start = at;
      const repeat = readRepeat(pattern, at);
      if (repeat) {
        at = repeat.end;
        if (lastRepeat !== undefined) {
          throw patternError('invalid nested repetition operator', pattern.slice(lastRepeat, at));
        }
        const item = items.pop();
        if (!item) throw patternError('missing argument to repetition operator', pattern.slice(start, repeat.end));
        const { min, max } = repeat;
        const node: Node = { kind: 'repeat', item, min, max };
        if (!isModest(node, MAX_REPEAT)) throw patternError('invalid repeat count', pattern.slice(start, repeat.stop));
        items.push(node);
        lastRepeat = start;
        continue;
      }
      lastRepeat = undefined;
      if (pattern[at] === '|') {
        at++;
        close();
      } else if (pattern[at] === '(') {
        const group = readGroup(pattern, at, flags);
        at = group.end;
        if (group.isOver) flags = group.flags;
        else {
          items.push(readChoice(group.flags, nesting + 1));
          if (at >= pattern.length) throw patternError('missing closing )', pattern);
          at++;
        }
      } else {
        const read = readItem(pattern, at, flags);
        items.push(...read.items);
        at = read.end;
      }
    }
    close();
    return choices.length === 1 && choices[0] ? choices[0] : { kind: 'choice', items: choices };
  };

  const node = readChoice(NO_FLAGS, 0);
  if (at < pattern.length) throw patternError('unexpected )', pattern);
  return node;
}

interface Repeat {
  readonly min: number;
  readonly max: number;
  /** Behind the operator. */
  readonly stop: number;
  /** Behind it and a `?`, which only says which match is preferred. */
  readonly end: number;
}

const COUNT = /\{(\d+)(?:(,)(\d*))?\}/y;

function readRepeat(pattern: string, at: number): Repeat | undefined {
  const counts = countsAt(pattern, at);
  if (!counts) return undefined;
  const { min, max, stop } = counts;
  return { min, max, stop, end: pattern[stop] === '?' ? stop + 1 : stop };
}

function countsAt(pattern: string, at: number): Omit<Repeat, 'end'> | undefined {
  const stop = at + 1;
  if (pattern[at] === '*') return { min: 0, max: Infinity, stop };
  if (pattern[at] === '+') return { min: 1, max: Infinity, stop };
  if (pattern[at] === '?') return { min: 0, max: 1, stop };
  COUNT.lastIndex = at;
  // Braces that hold no counts are characters like any other.
  const [whole, low = '', comma, high = ''] = COUNT.exec(pattern) ?? [];
  if (whole === undefined || /^0\d/.test(low) || /^0\d/.test(high)) return undefined;
  const min = Number(low);
  const max = comma === undefined ? min : high === '' ? Infinity : Number(high);
  const isTooMany = min > MAX_REPEAT || (max !== Infinity && max > MAX_REPEAT);
  if (isTooMany || min > max) throw patternError('invalid repeat count', whole);
  return { min, max, stop: at + whole.length };
}

/** True if counts within counts do not multiply to more than that. */
function isModest(node: Node, left: number): boolean {
  if (node.kind === 'sequence' || node.kind === 'choice') return node.items.every((item) => isModest(item, left));
  if (node.kind !== 'repeat' || node.max === 0) return true;
  const isCount = node.max !== Infinity ? node.max > 1 || node.min > 1 : node.min > 1;
  const times = isCount ? (node.max === Infinity ? node.min : node.max) : 1;
  return times <= left && isModest(node.item, Math.floor(left / Math.max(times, 1)));
}

interface Group {
  readonly flags: Flags;
  readonly end: number;
  /** True of flags that count from here on, and hold nothing themselves. */
  readonly isOver: boolean;
}

const NAME = /\(\?P?<([^>]*)>/y;
const SWITCHES = /\(\?([imsU]*)(?:-([imsU]+))?([:)])/y;

function readGroup(pattern: string, at: number, flags: Flags): Group {
  if (pattern[at + 1] !== '?') return { flags, end: at + 1, isOver: false };
  if (/^\(\?P?<./s.test(pattern.slice(at, at + 5))) return readNamed(pattern, at, flags);
  SWITCHES.lastIndex = at;
  const [whole, on = '', off = '', last] = SWITCHES.exec(pattern) ?? [];
  if (whole === undefined)
    throw patternError('invalid or unsupported Perl syntax', pattern.slice(at, oddity(pattern, at)));
  const set = (flag: string, before: boolean): boolean => (before || on.includes(flag)) && !off.includes(flag);
  const next = {
    anyCase: set('i', flags.anyCase),
    lines: set('m', flags.lines),
    dotTakesAll: set('s', flags.dotTakesAll),
  };
  return { flags: next, end: at + whole.length, isOver: last === ')' };
}

function readNamed(pattern: string, at: number, flags: Flags): Group {
  NAME.lastIndex = at;
  const [whole, name = ''] = NAME.exec(pattern) ?? [];
  if (whole === undefined) throw patternError('invalid named capture', pattern.slice(at));
  if (!/^\w+$/.test(name)) throw patternError('invalid named capture', whole);
  return { flags, end: at + whole.length, isOver: false };
}

/** The end of the first character behind `(?` that makes no sense. */
function oddity(pattern: string, at: number): number {
  const [switches = ''] = /^[imsU]*(?:-[imsU]*)?/.exec(pattern.slice(at + 2)) ?? [];
  const end = at + 2 + switches.length;
  return end < pattern.length ? characterAt(pattern, end).end : end;
}

interface Items {
  readonly items: readonly Node[];
  readonly end: number;
}

function readItem(pattern: string, at: number, flags: Flags): Items {
  const place = (name: Place, end: number): Items => ({ items: [{ kind: 'place', place: name }], end });
  const one = (test: Test, end: number): Items => ({ items: [characterNode(test, flags)], end });
  const letter = pattern[at];
  if (letter === '^') return place(flags.lines ? 'line start' : 'text start', at + 1);
  if (letter === '$') return place(flags.lines ? 'line end' : 'text end', at + 1);
  if (letter === '.') return one((codePoint) => flags.dotTakesAll || codePoint !== LINE_FEED, at + 1);
  if (letter === '[') {
    const { value, end } = readClass(pattern, at);
    return one(value, end);
  }
  const next = pattern[at + 1] ?? '';
  if (letter === '\\' && Object.hasOwn(PLACES, next)) return place(PLACES[next] ?? 'text start', at + 2);
  if (letter === '\\' && next === 'Q') return readQuoted(pattern, at, flags);
  const set = readSet(pattern, at);
  if (set) return one(set.value, set.end);
  const { value, end } = letter === '\\' ? readEscape(pattern, at) : characterAt(pattern, at);
  return one((codePoint) => codePoint === value, end);
}

/** From `\Q` to `\E` every character stands for itself. */
function readQuoted(pattern: string, at: number, flags: Flags): Items {
  const close = pattern.indexOf('\\E', at + 2);
  const text = pattern.slice(at + 2, close < 0 ? undefined : close);
  const items = Array.from(text, (letter) => {
    const value = letter.codePointAt(0);
    return characterNode((codePoint) => codePoint === value, flags);
  });
  return { items, end: close < 0 ? pattern.length : close + 2 };
}

function characterNode(test: Test, { anyCase }: Flags): Node {
  return { kind: 'character', test: anyCase ? inAnyCase(test) : test };
}

function inAnyCase(test: Test): Test {
  return (codePoint) => {
    const letter = String.fromCodePoint(codePoint);
    return [letter, letter.toLowerCase(), letter.toUpperCase()].some((one) => {
      const { value, end } = characterAt(one, 0);
      return end === one.length && test(value);
    });
  };
}
