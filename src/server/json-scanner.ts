/** Scans JSON text as bytes. It is as strict as JSON.parse but creates no values. */
import { LIMITS } from '../kube/limits.ts';

/** A position in a text. */
export interface Cursor {
  readonly bytes: Buffer;
  at: number;
  depth: number;
  /** Number of values scanned so far. */
  values: number;
}

export function createCursor(bytes: Buffer, at = 0): Cursor {
  return { bytes, at, depth: 0, values: 0 };
}

export const [QUOTE = 0, OPEN_BRACE = 0, OPEN_BRACKET = 0] = Buffer.from('"{[');
const [BACKSLASH = 0, COLON = 0, COMMA = 0, MINUS = 0, PLUS = 0, DOT = 0] = Buffer.from('\\:,-+.');
const [CLOSE_BRACE = 0, CLOSE_BRACKET = 0, UNICODE_ESCAPE = 0] = Buffer.from('}]u');
const [ZERO = 0, NINE = 0, LOWER_E = 0, UPPER_E = 0] = Buffer.from('09eE');
const SIMPLE_ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
const HEX_DIGITS: ReadonlySet<number> = new Set(Buffer.from('0123456789abcdefABCDEF'));
const LITERALS = ['true', 'false', 'null'].map((literal) => Buffer.from(literal));
/** Returned at the end of the text. */
const END = -1;

/** Moves to the next byte that is not whitespace and returns it. */
export function nextByte(cursor: Cursor): number {
  const { bytes } = cursor;
  for (; cursor.at < bytes.length; cursor.at++) {
    const byte = bytes[cursor.at] ?? END;
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte;
  }
  return END;
}

/** @throws SyntaxError if the text ends unexpectedly */
export function expectEnd(cursor: Cursor): void {
  if (nextByte(cursor) !== END) fail(cursor);
}

function fail(cursor: Cursor, at = cursor.at): never {
  const isEnd = at >= cursor.bytes.length;
  throw new SyntaxError(isEnd ? 'unexpected end of JSON input' : `invalid JSON at position ${at}`);
}

/**
 * Moves past the next value.
 * @throws SyntaxError if the text is not JSON
 * @throws RangeError if the nesting is too deep
 */
export function skipValue(cursor: Cursor): void {
  skip(cursor, LIMITS.ignoredNestingLevels);
}

/** Like `skipValue`, but with the lower depth limit for values that are read after the scan. */
export function skipReadValue(cursor: Cursor): void {
  skip(cursor, LIMITS.nestingLevels);
}

function skip(cursor: Cursor, maxDepth: number): void {
  /** Closing bytes of the open objects and lists. */
  const closings: number[] = [];
  do {
    const byte = nextByte(cursor);
    const closing = byte === OPEN_BRACE ? CLOSE_BRACE : byte === OPEN_BRACKET ? CLOSE_BRACKET : undefined;
    if (closing === undefined) skipScalar(cursor, byte);
    else {
      open(cursor, maxDepth);
      closings.push(closing);
    }
    if (closing === undefined || nextByte(cursor) === closing) skipClosings(cursor, closings);
    if (closings.at(-1) === CLOSE_BRACE) skipName(cursor);
  } while (closings.length > 0);
}

/** Moves to the next member or item after a value. */
function skipClosings(cursor: Cursor, closings: number[]): void {
  for (let last = closings.at(-1); last !== undefined && !hasNext(cursor, last); last = closings.at(-1)) {
    closings.pop();
    close(cursor);
  }
}

function skipScalar(cursor: Cursor, byte: number): void {
  cursor.values++;
  if (byte === QUOTE) skipString(cursor);
  else if (byte === MINUS || isDigit(byte)) skipNumber(cursor);
  else skipLiteral(cursor);
}

/**
 * Moves past an object. `visit` must move past the value of each member.
 * @param visit receives the range of the name, including its quotes
 */
export function skipMembers(cursor: Cursor, visit: (nameStart: number, nameEnd: number) => void): void {
  open(cursor, LIMITS.nestingLevels);
  if (nextByte(cursor) !== CLOSE_BRACE) {
    do {
      nextByte(cursor);
      const start = cursor.at;
      const end = skipName(cursor);
      visit(start, end);
    } while (hasNext(cursor, CLOSE_BRACE));
  }
  close(cursor);
}

/** Moves past the name of a member and its colon. Returns the position after the name. */
function skipName(cursor: Cursor): number {
  if (nextByte(cursor) !== QUOTE) fail(cursor);
  skipString(cursor);
  const end = cursor.at;
  if (nextByte(cursor) !== COLON) fail(cursor);
  cursor.at++;
  return end;
}

/** Moves past a list. `visit` must move past each item. */
export function skipItems(cursor: Cursor, visit: () => void): void {
  open(cursor, LIMITS.nestingLevels);
  if (nextByte(cursor) !== CLOSE_BRACKET) {
    do visit();
    while (hasNext(cursor, CLOSE_BRACKET));
  }
  close(cursor);
}

/** Moves past the comma that follows a member or item. Returns false at the end of the object or list. */
function hasNext(cursor: Cursor, closing: number): boolean {
  const byte = nextByte(cursor);
  if (byte === closing) return false;
  if (byte !== COMMA) fail(cursor);
  cursor.at++;
  return true;
}

function open(cursor: Cursor, maxDepth: number): void {
  if (cursor.depth === maxDepth) throw new RangeError(`the review is nested more than ${maxDepth} levels deep`);
  cursor.values++;
  cursor.depth++;
  cursor.at++;
}

function close(cursor: Cursor): void {
  cursor.depth--;
  cursor.at++;
}

function skipString(cursor: Cursor): void {
  const { bytes } = cursor;
  let at = cursor.at + 1;
  while (at < bytes.length) {
    const byte = bytes[at++] ?? 0;
    if (byte === QUOTE) {
      cursor.at = at;
      return;
    }
    if (byte === BACKSLASH) at = skipEscape(cursor, at);
    else if (byte < 0x20) fail(cursor, at - 1);
  }
  fail(cursor, at);
}

/** Returns the position after an escape sequence. `at` is the position after the backslash. */
function skipEscape(cursor: Cursor, at: number): number {
  const { bytes } = cursor;
  const byte = bytes[at] ?? END;
  if (byte !== UNICODE_ESCAPE) return SIMPLE_ESCAPES.has(byte) ? at + 1 : fail(cursor, at);
  for (let digit = at + 1; digit < at + 5; digit++) if (!HEX_DIGITS.has(bytes[digit] ?? END)) fail(cursor, digit);
  return at + 5;
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

function skipNumber(cursor: Cursor): void {
  const { bytes } = cursor;
  if (bytes[cursor.at] === MINUS) cursor.at++;
  if (bytes[cursor.at] === ZERO) cursor.at++;
  else skipDigits(cursor);
  if (bytes[cursor.at] === DOT) {
    cursor.at++;
    skipDigits(cursor);
  }
  if (bytes[cursor.at] !== LOWER_E && bytes[cursor.at] !== UPPER_E) return;
  cursor.at++;
  if (bytes[cursor.at] === PLUS || bytes[cursor.at] === MINUS) cursor.at++;
  skipDigits(cursor);
}

function skipDigits(cursor: Cursor): void {
  const { bytes } = cursor;
  const start = cursor.at;
  while (isDigit(bytes[cursor.at] ?? END)) cursor.at++;
  if (cursor.at === start) fail(cursor);
}

function skipLiteral(cursor: Cursor): void {
  const { bytes, at } = cursor;
  const literal = LITERALS.find((one) => bytes[at] === one[0]);
  if (!literal?.every((byte, index) => bytes[at + index] === byte)) fail(cursor);
  cursor.at += literal.length;
}

/**
 * Reads the name between two positions, which include its quotes.
 * @throws RangeError if the name is too long
 */
export function readName({ bytes }: Cursor, start: number, end: number): string {
  if (end - start - 2 > LIMITS.fieldNameBytes)
    throw new RangeError(`a field name is longer than ${LIMITS.fieldNameBytes} bytes`);
  const text = bytes.toString('utf8', start, end);
  return text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1);
}
