/**
 * Splits YAML 1.1 into tokens with the rules of libyaml, which kubectl uses. Other parsers differ, for example in the
 * indentation of flow collections, in tabs and in comments, so they accept different texts or read different values.
 * @see https://github.com/yaml/go-yaml/blob/v2.4.4/scannerc.go
 */

interface Token {
  readonly type: TokenType;
  /** Offset of the token in the text. */
  readonly offset: number;
  /** Content of a scalar, or name of an anchor or alias. */
  readonly value: string;
  /** True for a plain scalar. */
  readonly isPlain?: boolean;
  readonly tag?: Tag;
}

/** A tag, such as `!!str`, divided into its handle (`!!`) and its suffix (`str`). */
export interface Tag {
  readonly handle: string;
  readonly suffix: string;
}

export type TokenType =
  | 'streamEnd'
  | 'directive'
  | 'documentStart'
  | 'documentEnd'
  | 'blockSequenceStart'
  | 'blockMappingStart'
  | 'blockEnd'
  | 'flowSequenceStart'
  | 'flowSequenceEnd'
  | 'flowMappingStart'
  | 'flowMappingEnd'
  | 'flowEntry'
  | 'blockEntry'
  | 'key'
  | 'value'
  | 'alias'
  | 'anchor'
  | 'tag'
  | 'scalar';

/** A syntax error, with its offset in the text. */
export class YamlError extends Error {
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

/** Source of tokens. It reads only as far as necessary, so text after the first document is not checked. */
export interface Scanner {
  peek(): Token;
  next(): Token;
}

/** A token that becomes a mapping key if a colon follows. */
interface SimpleKey {
  isPossible: boolean;
  readonly isRequired: boolean;
  readonly tokenNumber: number;
  readonly offset: number;
  readonly line: number;
  readonly column: number;
}

const NO_KEY: SimpleKey = { isPossible: false, isRequired: false, tokenNumber: 0, offset: 0, line: 0, column: 0 };

/** Maximum length of a key without a question mark. */
const MAX_KEY = 1024;

/** Matches characters that end a text or cannot occur in it. */
const FORBIDDEN = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ud800-\udfff\ue000-\ufffd]/;

const END = -1;
const TAB = 9;
const LF = 10;
const CR = 13;
const SPACE = 32;

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}

function isBreak(code: number): boolean {
  return code === LF || code === CR || code === 0x85 || code === 0x20_28 || code === 0x20_29;
}

function isSpaceOrEnd(code: number): boolean {
  return isBlank(code) || isBreak(code) || code === END;
}

function codes(characters: string): ReadonlySet<number> {
  return new Set(Array.from(characters, (character) => character.charCodeAt(0)));
}

const INDICATORS = codes('-?:,[]{}#&*!|>\'"%@`');
const FLOW_INDICATORS = codes(',?[]{}');
const AFTER_ANCHOR = codes('?:,]}%@`');
const FLOW_STARTS: Readonly<Record<string, TokenType>> = { '[': 'flowSequenceStart', '{': 'flowMappingStart' };
const FLOW_ENDS: Readonly<Record<string, TokenType>> = { ']': 'flowSequenceEnd', '}': 'flowMappingEnd' };

const ANCHOR = /[0-9A-Za-z_-]+/y;
const TAG_URI = /(?:[-0-9A-Za-z_;/?:@&=+$,.!~*'()[\]]|%[0-9A-Fa-f]{2})*/y;
const TAG_HANDLE = /![0-9A-Za-z_-]*!?/y;
const DIRECTIVE =
  /%(?:YAML[ \t]+\d{1,2}\.\d{1,2}|TAG[ \t]+!(?:[0-9A-Za-z_-]*!)?[ \t]+[-0-9A-Za-z_;/?:@&=+$,.!~*'()[\]%]+)[ \t]*(?:#[^\n\r]*)?(?=[\n\r]|$)/y;
const BLOCK_HEADER = /[|>](?:([+-])([1-9])?|([1-9])([+-])?)?[ \t]*(?:#[^\n\r\x85\u2028\u2029]*)?/y;

const ESCAPES: Readonly<Record<string, string>> = {
  '0': '\0',
  a: '\x07',
  b: '\b',
  t: '\t',
  '\t': '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  e: '\x1b',
  ' ': ' ',
  '"': '"',
  "'": "'",
  '\\': '\\',
  N: '\x85',
  _: '\xa0',
  L: '\u2028',
  P: '\u2029',
};
const HEX_LENGTHS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** Creates a scanner for a text whose last line ends with a line break. Adds `base` to all offsets. */
export function createScanner(text: string, base: number): Scanner {
  const tokens: Token[] = [];
  /** Number of tokens that have been returned. */
  let parsed = 0;
  // A byte order mark is skipped only at the start. Elsewhere, it is content.
  let position = text.startsWith('\ufeff') ? 1 : 0;
  let line = 0;
  let lineStart = position;
  let flowLevel = 0;
  let indent = -1;
  const indents: number[] = [];
  let isKeyAllowed = true;
  let isEnded = false;
  const keys: SimpleKey[] = [NO_KEY];
  /** Indexes of simple keys by token number. */
  const keyIndexes = new Map<number, number>();

  const at = (ahead = 0): number => (position + ahead < text.length ? text.charCodeAt(position + ahead) : END);
  const column = (): number => position - lineStart;
  const fail: (problem: string, offset?: number) => never = (problem, offset = position) => {
    throw new YamlError(base + offset, problem);
  };
  const add = (type: TokenType, offset: number, rest: Partial<Token> = {}): void => {
    tokens.push({ type, offset: base + offset, value: '', ...rest });
  };
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = position;
    const found = pattern.exec(text);
    if (found) position += found[0].length;
    return found;
  };
  /** Skips a line break, and returns its normalized form. */
  const skipBreak = (): string => {
    const code = at();
    position += code === CR && at(1) === LF ? 2 : 1;
    line++;
    lineStart = position;
    return code === 0x20_28 || code === 0x20_29 ? String.fromCharCode(code) : '\n';
  };
  const skipToBreak = (): void => {
    while (!isBreak(at()) && at() !== END) position++;
  };
  const isDocumentIndicator = (): boolean =>
    column() === 0 && (text.startsWith('---', position) || text.startsWith('...', position)) && isSpaceOrEnd(at(3));

  // Simple keys and indentation

  const isValidKey = (key: SimpleKey): boolean => {
    if (!key.isPossible) return false;
    if (key.line === line && key.offset + MAX_KEY >= position) return true;
    if (key.isRequired) fail("could not find expected ':'");
    key.isPossible = false;
    return false;
  };
  const removeKey = (): void => {
    const key = keys.at(-1) ?? NO_KEY;
    if (!key.isPossible) return;
    if (key.isRequired) fail("could not find expected ':'");
    key.isPossible = false;
    keyIndexes.delete(key.tokenNumber);
  };
  const saveKey = (): void => {
    if (!isKeyAllowed) return;
    removeKey();
    const tokenNumber = parsed + tokens.length;
    const isRequired = flowLevel === 0 && indent === column();
    keys[keys.length - 1] = { isPossible: true, isRequired, tokenNumber, offset: position, line, column: column() };
    keyIndexes.set(tokenNumber, keys.length - 1);
  };
  /**
   * Begins a block collection if the column is deeper. `tokenNumber` is the number of the token with which the
   * collection begins.
   */
  const rollIndent = (to: number, type: TokenType, offset: number, tokenNumber = parsed + tokens.length): void => {
    if (flowLevel > 0 || indent >= to) return;
    indents.push(indent);
    indent = to;
    tokens.splice(tokenNumber - parsed, 0, { type, offset: base + offset, value: '' });
  };
  const unrollIndent = (to: number): void => {
    if (flowLevel > 0) return;
    while (indent > to) {
      add('blockEnd', position);
      indent = indents.pop() ?? -1;
    }
  };

  // Scalars

  const scanBlockScalar = (): void => {
    const start = position;
    const isLiteral = text[start] === '|';
    const header = match(BLOCK_HEADER);
    if (at() !== END && !isBreak(at())) {
      const isZero = /^[|>][+-]?0/.test(text.slice(start, start + 3));
      fail(isZero ? 'found an indentation indicator equal to 0' : 'did not find expected comment or line break');
    }
    const chomping = header?.[1] ?? header?.[4];
    const increment = Number(header?.[2] ?? header?.[3] ?? 0);
    if (at() !== END) skipBreak();
    let blockIndent = increment === 0 ? 0 : Math.max(indent, 0) + increment;
    /**
     * Skips indentation and empty lines, and returns the line breaks. Also determines the indentation of the first
     * line.
     */
    const skipBreaks = (): string => {
      let breaks = '';
      let deepest = 0;
      for (;;) {
        while ((blockIndent === 0 || column() < blockIndent) && at() === SPACE) position++;
        deepest = Math.max(deepest, column());
        if ((blockIndent === 0 || column() < blockIndent) && at() === TAB)
          fail('found a tab character where an indentation space is expected');
        if (!isBreak(at())) break;
        breaks += skipBreak();
      }
      if (blockIndent === 0) blockIndent = Math.max(deepest, indent + 1, 1);
      return breaks;
    };
    let value = '';
    let leadingBreak = '';
    let wasBlank = false;
    let breaks = skipBreaks();
    while (column() === blockIndent && at() !== END) {
      const isFolded = !isLiteral && !wasBlank && !isBlank(at()) && leadingBreak === '\n';
      if (!isFolded) value += leadingBreak;
      else if (breaks === '') value += ' ';
      value += breaks;
      wasBlank = isBlank(at());
      const lineOffset = position;
      skipToBreak();
      value += text.slice(lineOffset, position);
      leadingBreak = at() === END ? '' : skipBreak();
      breaks = skipBreaks();
    }
    if (chomping !== '-') value += leadingBreak;
    if (chomping === '+') value += breaks;
    add('scalar', start, { value });
  };

  /** Skips blanks and line breaks in a flow scalar, and returns the text that replaces them. */
  const foldSpace = (isContinued: boolean): string => {
    let blanks = '';
    let firstBreak = '';
    let breaks = '';
    let hasBreak = isContinued;
    while (isBlank(at()) || isBreak(at())) {
      if (isBlank(at())) {
        if (!hasBreak) blanks += text.charAt(position);
        position++;
      } else if (hasBreak) breaks += skipBreak();
      else {
        firstBreak = skipBreak();
        hasBreak = true;
      }
    }
    if (!hasBreak) return blanks;
    if (firstBreak !== '\n') return firstBreak + breaks;
    return breaks === '' ? ' ' : breaks;
  };

  const scanEscape = (start: number): string => {
    const name = text[position + 1] ?? '';
    const length = Object.hasOwn(HEX_LENGTHS, name) ? (HEX_LENGTHS[name] ?? 0) : 0;
    if (length === 0 && !Object.hasOwn(ESCAPES, name)) fail('found unknown escape character', start);
    position += 2;
    if (length === 0) return ESCAPES[name] ?? '';
    const digits = text.slice(position, position + length);
    if (!/^[0-9A-Fa-f]*$/.test(digits) || digits.length < length)
      fail('did not find expected hexdecimal number', start);
    position += length;
    const code = Number.parseInt(digits, 16);
    if ((code >= 0xd8_00 && code <= 0xdf_ff) || code > 0x10_ff_ff)
      fail('found invalid Unicode character escape code', start);
    return String.fromCodePoint(code);
  };

  const scanQuotedScalar = (): void => {
    const start = position;
    const quote = text[start];
    const isSingle = quote === "'";
    let value = '';
    position++;
    for (;;) {
      if (isDocumentIndicator()) fail('found unexpected document indicator', start);
      if (at() === END) fail('found unexpected end of stream', start);
      let isContinued = false;
      while (!isSpaceOrEnd(at())) {
        const character = text.charAt(position);
        if (character === quote) {
          if (!isSingle || text[position + 1] !== quote) break;
          value += quote;
          position += 2;
        } else if (isSingle || character !== '\\') {
          value += character;
          position++;
        } else if (isBreak(at(1))) {
          position++;
          skipBreak();
          isContinued = true;
          break;
        } else value += scanEscape(start);
      }
      if (text[position] === quote) break;
      value += foldSpace(isContinued);
    }
    position++;
    add('scalar', start, { value });
  };

  const scanPlainScalar = (): void => {
    const start = position;
    const minimum = indent + 1;
    let value = '';
    let space = '';
    let hasBreak = false;
    for (;;) {
      if (isDocumentIndicator() || text[position] === '#') break;
      const wordOffset = position;
      while (!isSpaceOrEnd(at())) {
        const code = at();
        if (code === 0x3a && isSpaceOrEnd(at(1))) break;
        if (flowLevel > 0 && FLOW_INDICATORS.has(code)) break;
        position++;
      }
      if (position > wordOffset) {
        value += space + text.slice(wordOffset, position);
        space = '';
        hasBreak = false;
      }
      if (!isBlank(at()) && !isBreak(at())) break;
      const spaceLine = line;
      const spaceOffset = position;
      space = foldSpace(false);
      if (line > spaceLine) {
        hasBreak = true;
        checkTabs(spaceOffset, minimum);
      }
      if (flowLevel === 0 && column() < minimum) break;
    }
    add('scalar', start, { value, isPlain: true });
    if (hasBreak) isKeyAllowed = true;
  };
  /** Rejects tabs in the indentation of the lines that continue a plain scalar. */
  const checkTabs = (from: number, minimum: number): void => {
    let begin = -1;
    for (let index = from; index < position; index++) {
      const code = text.charCodeAt(index);
      if (isBreak(code)) begin = index + 1;
      else if (code === TAB && begin >= 0 && index - begin < minimum)
        fail('found a tab character that violates indentation', index);
    }
  };

  const scanTag = (): void => {
    const start = position;
    let tag: Tag;
    if (text[position + 1] === '<') {
      position += 2;
      const suffix = match(TAG_URI)?.[0] ?? '';
      if (suffix === '') fail('did not find expected tag URI', start);
      if (text[position] !== '>') fail("did not find the expected '>'", start);
      position++;
      tag = { handle: '', suffix };
    } else {
      const handle = match(TAG_HANDLE)?.[0] ?? '!';
      const suffix = match(TAG_URI)?.[0] ?? '';
      const isNamed = handle.length > 1 && handle.endsWith('!');
      if (isNamed && suffix === '') fail('did not find expected tag URI', start);
      const local = handle.slice(1) + suffix;
      if (isNamed) tag = { handle, suffix };
      else tag = local === '' ? { handle: '', suffix: '!' } : { handle: '!', suffix: local };
    }
    if (!isSpaceOrEnd(at())) fail('did not find expected whitespace or line break', start);
    add('tag', start, { tag });
  };

  // Tokens

  const addIndicator = (type: TokenType): void => {
    add(type, position);
    position++;
  };
  /** Begins a block mapping, unless the token is in a flow collection. */
  const beginMapping = (problem: string): void => {
    if (flowLevel > 0) return;
    if (!isKeyAllowed) fail(problem);
    rollIndent(column(), 'blockMappingStart', position);
  };
  const fetchValue = (): void => {
    const key = keys.at(-1) ?? NO_KEY;
    if (isValidKey(key)) {
      const { tokenNumber, offset } = key;
      tokens.splice(tokenNumber - parsed, 0, { type: 'key', offset: base + offset, value: '' });
      rollIndent(key.column, 'blockMappingStart', offset, tokenNumber);
      key.isPossible = false;
      keyIndexes.delete(tokenNumber);
      isKeyAllowed = false;
    } else {
      beginMapping('mapping values are not allowed in this context');
      isKeyAllowed = flowLevel === 0;
    }
    addIndicator('value');
  };
  const skipToToken = (): void => {
    for (;;) {
      while (at() === SPACE || ((flowLevel > 0 || !isKeyAllowed) && at() === TAB)) position++;
      if (text[position] === '#') skipToBreak();
      if (!isBreak(at())) return;
      skipBreak();
      if (flowLevel === 0) isKeyAllowed = true;
    }
  };
  const fetch = (): void => {
    skipToToken();
    unrollIndent(column());
    const code = at();
    const character = text[position] ?? '';
    const isSeparated = isSpaceOrEnd(at(1));
    if (code === END) {
      unrollIndent(-1);
      removeKey();
      isKeyAllowed = false;
      isEnded = true;
      add('streamEnd', position);
    } else if (column() === 0 && character === '%') {
      unrollIndent(-1);
      removeKey();
      isKeyAllowed = false;
      const start = position;
      if (!match(DIRECTIVE)) fail('found unknown directive name');
      add('directive', start);
    } else if (isDocumentIndicator()) {
      unrollIndent(-1);
      removeKey();
      isKeyAllowed = false;
      add(character === '-' ? 'documentStart' : 'documentEnd', position);
      position += 3;
    } else if (Object.hasOwn(FLOW_STARTS, character)) {
      saveKey();
      keys.push({ ...NO_KEY, tokenNumber: parsed + tokens.length });
      flowLevel++;
      isKeyAllowed = true;
      addIndicator(FLOW_STARTS[character] ?? 'flowEntry');
    } else if (Object.hasOwn(FLOW_ENDS, character)) {
      removeKey();
      if (flowLevel > 0) {
        flowLevel--;
        keyIndexes.delete(keys.pop()?.tokenNumber ?? 0);
      }
      isKeyAllowed = false;
      addIndicator(FLOW_ENDS[character] ?? 'flowEntry');
    } else if (character === ',') {
      removeKey();
      isKeyAllowed = true;
      addIndicator('flowEntry');
    } else if (character === '-' && isSeparated) {
      if (flowLevel === 0) {
        if (!isKeyAllowed) fail('block sequence entries are not allowed in this context');
        rollIndent(column(), 'blockSequenceStart', position);
      }
      removeKey();
      isKeyAllowed = true;
      addIndicator('blockEntry');
    } else if (character === '?' && (flowLevel > 0 || isSeparated)) {
      beginMapping('mapping keys are not allowed in this context');
      removeKey();
      isKeyAllowed = flowLevel === 0;
      addIndicator('key');
    } else if (character === ':' && (flowLevel > 0 || isSeparated)) fetchValue();
    else if (character === '*' || character === '&') {
      saveKey();
      isKeyAllowed = false;
      const start = position;
      position++;
      const value = match(ANCHOR)?.[0] ?? '';
      if (value === '' || !(isSpaceOrEnd(at()) || AFTER_ANCHOR.has(at())))
        fail('did not find expected alphabetic or numeric character', start);
      add(character === '*' ? 'alias' : 'anchor', start, { value });
    } else if (character === '!') {
      saveKey();
      isKeyAllowed = false;
      scanTag();
    } else if ((character === '|' || character === '>') && flowLevel === 0) {
      removeKey();
      isKeyAllowed = true;
      scanBlockScalar();
    } else if (character === "'" || character === '"') {
      saveKey();
      isKeyAllowed = false;
      scanQuotedScalar();
    } else if (startsPlainScalar(code, character)) {
      saveKey();
      isKeyAllowed = false;
      scanPlainScalar();
    } else fail('found character that cannot start any token');
  };
  const startsPlainScalar = (code: number, character: string): boolean => {
    if (!isSpaceOrEnd(code) && !INDICATORS.has(code)) return true;
    if (character === '-') return !isBlank(at(1));
    return flowLevel === 0 && (character === '?' || character === ':') && !isSpaceOrEnd(at(1));
  };

  const forbidden = text.search(FORBIDDEN);
  if (forbidden >= 0) fail('control characters are not allowed', forbidden);

  const peek = (): Token => {
    for (;;) {
      const [head] = tokens;
      const index = keyIndexes.get(parsed);
      if (head && (index === undefined || !isValidKey(keys[index] ?? NO_KEY))) return head;
      if (isEnded && head) return head;
      fetch();
    }
  };
  return {
    peek,
    next() {
      const token = peek();
      tokens.shift();
      parsed++;
      return token;
    },
  };
}
