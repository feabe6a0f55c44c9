/**
 * What JSON.parse does not tell: Go's words for a syntax error, and fields that an object has twice.
 * @see https://github.com/golang/go/blob/go1.26.0/src/encoding/json/scanner.go
 */
import { quote } from '../../../kube/quote.ts';

export interface JsonScan {
  /** `invalid character '}' looking for beginning of value`, `unexpected end of JSON input`, …; absent for good JSON. */
  readonly error?: string;
  /** Paths of fields that come again, such as `spec.containers[0].name`; each once. */
  readonly duplicates: readonly string[];
}

/** Go's own limit is 10000; ours keeps recursion over what was read well away from the end of the stack. */
const MAX_DEPTH = 1000;

interface Container {
  readonly keys: Set<string> | undefined;
  readonly path: string;
  /** Of the member that is being read. */
  key: string;
  index: number;
}

/** What may come next. */
type Expectation = 'value' | 'item or end' | 'key' | 'key or end' | 'colon' | 'comma or end' | 'end of text';

/** Reads a text from end to end without recursion and without keeping its values. */
export function scanJson(text: string): JsonScan {
  const open: Container[] = [];
  const duplicates = new Set<string>();
  let expected: Expectation = 'value';
  let at = 0;

  const bad = (context: string, position = at): JsonScan => ({
    error: syntaxError(text, position, context),
    duplicates: [],
  });
  const ended = (): Expectation => (open.length === 0 ? 'end of text' : 'comma or end');

  for (;;) {
    at = skipSpace(text, at);
    const inner = open.at(-1);
    const char = text.charAt(at);
    if (char === '') return expected === 'end of text' ? { duplicates: [...duplicates] } : bad('');
    switch (expected) {
      case 'value':
      case 'item or end': {
        if (char === '{' || char === '[') {
          if (open.length >= MAX_DEPTH) return { error: 'exceeded max depth', duplicates: [] };
          open.push({ keys: char === '{' ? new Set() : undefined, path: pathOf(inner), key: '', index: 0 });
          expected = char === '{' ? 'key or end' : 'item or end';
          at++;
        } else if (char === ']' && expected === 'item or end') {
          open.pop();
          expected = ended();
          at++;
        } else {
          const token = scanToken(text, at);
          if ('context' in token) return bad(token.context, token.at);
          at = token.end;
          expected = ended();
        }
        break;
      }
      case 'key':
      case 'key or end': {
        if (char === '}' && expected === 'key or end') {
          open.pop();
          expected = ended();
          at++;
          break;
        }
        if (char !== '"' || !inner) return bad('looking for beginning of object key string');
        const token = scanToken(text, at);
        if ('context' in token) return bad(token.context, token.at);
        inner.key = JSON.parse(text.slice(at, token.end)) as string;
        if (inner.keys?.has(inner.key)) duplicates.add(pathOf(inner));
        inner.keys?.add(inner.key);
        at = token.end;
        expected = 'colon';
        break;
      }
      case 'colon':
        if (char !== ':') return bad('after object key');
        expected = 'value';
        at++;
        break;
      case 'comma or end':
        if (char === ',') {
          if (inner) inner.index++;
          expected = inner?.keys ? 'key' : 'value';
        } else if (char === (inner?.keys ? '}' : ']')) {
          open.pop();
          expected = ended();
        } else return bad(inner?.keys ? 'after object key:value pair' : 'after array element');
        at++;
        break;
      case 'end of text':
        return bad('after top-level value');
    }
  }
}

function pathOf(container: Container | undefined): string {
  if (!container) return '';
  const { keys, path, key, index } = container;
  if (!keys) return `${path}[${index}]`;
  return path === '' ? key : `${path}.${key}`;
}

type Token = { readonly end: number } | { readonly context: string; readonly at: number };

/** A string, number or word; or what is wrong with it. */
function scanToken(text: string, at: number): Token {
  const char = text.charAt(at);
  if (char === '"') return scanString(text, at + 1);
  if (char === '-' || (char >= '0' && char <= '9')) return scanNumber(text, at);
  const word = WORDS.find((candidate) => candidate.startsWith(char));
  return word === undefined ? { context: 'looking for beginning of value', at } : scanWord(text, at, word);
}

const WORDS = ['true', 'false', 'null'];

function scanWord(text: string, at: number, word: string): Token {
  for (let index = 1; index < word.length; index++) {
    const wanted = word.charAt(index);
    if (text.charAt(at + index) !== wanted) {
      return { context: `in literal ${word} (expecting '${wanted}')`, at: at + index };
    }
  }
  return { end: at + word.length };
}

function scanString(text: string, start: number): Token {
  for (let at = start; ; at++) {
    const char = text.charAt(at);
    if (char === '"') return { end: at + 1 };
    if (char === '' || char < ' ') return { context: 'in string literal', at };
    if (char !== '\\') continue;
    at++;
    const escaped = text.charAt(at);
    if (escaped === '' || !'bfnrt\\/"u'.includes(escaped)) return { context: 'in string escape code', at };
    if (escaped !== 'u') continue;
    for (let digit = 0; digit < 4; digit++) {
      at++;
      if (!/[0-9a-fA-F]/.test(text.charAt(at))) return { context: 'in \\u hexadecimal character escape', at };
    }
  }
}

function scanNumber(text: string, start: number): Token {
  const digits = (from: number): number => {
    let at = from;
    while (isDigit(text.charAt(at))) at++;
    return at;
  };
  let at = text.charAt(start) === '-' ? start + 1 : start;
  if (!isDigit(text.charAt(at))) return { context: 'in numeric literal', at };
  at = text.charAt(at) === '0' ? at + 1 : digits(at);
  if (text.charAt(at) === '.') {
    if (!isDigit(text.charAt(at + 1))) return { context: 'after decimal point in numeric literal', at: at + 1 };
    at = digits(at + 1);
  }
  if (text.charAt(at).toLowerCase() === 'e') {
    at += /[+-]/.test(text.charAt(at + 1)) ? 2 : 1;
    if (!isDigit(text.charAt(at))) return { context: 'in exponent of numeric literal', at };
    at = digits(at);
  }
  return { end: at };
}

function isDigit(char: string): boolean {
  return char >= '0' && char <= '9' && char !== '';
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (' \t\r\n'.includes(text.charAt(at)) && at < text.length) at++;
  return at;
}

function syntaxError(text: string, at: number, context: string): string {
  if (at >= text.length) return 'unexpected end of JSON input';
  return `invalid character ${printByte(text, at)} ${context}`;
}

/** Go reads bytes: of a character that has several, it prints the first as if it were one of its own. */
function printByte(text: string, at: number): string {
  const [byte = 0] = Buffer.from(String.fromCodePoint(text.codePointAt(at) ?? 0));
  const char = String.fromCharCode(byte);
  if (char === "'") return "'\\''";
  return char === '"' ? "'\"'" : `'${quote(char).slice(1, -1)}'`;
}
