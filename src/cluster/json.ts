/** Parses JSON within limits. */
import { isUtf8 } from 'node:buffer';
import { type LimitName, LIMITS } from '../kube/limits.ts';
import { UserError } from '../kube/user-error.ts';

/**
 * Error for a response, an object or a review that has more bytes, values or nesting levels than API servers ever send.
 */
export class TooLargeError extends UserError {
  readonly limit: LimitName;

  constructor(limit: LimitName, message: string, options?: ErrorOptions) {
    super(message, options);
    this.limit = limit;
  }
}

/** Limits for a text. If they are absent, its values are only counted. */
interface SizeLimits {
  readonly values: LimitName;
  readonly levels: LimitName;
}

/**
 * Parses JSON in UTF-8.
 * @throws {SyntaxError} if the text is not JSON
 * @throws {TooLargeError} if it exceeds a limit
 */
export function parseJson(bytes: Buffer): unknown {
  return JSON.parse(readText(bytes));
}

/** Parses JSON like `parseJson`, but frees the memory of the bytes before it creates values. */
export function parseAndFree(bytes: Uint8Array<ArrayBuffer>): unknown {
  return JSON.parse(takeText(bytes));
}

function takeText(bytes: Uint8Array<ArrayBuffer>): string {
  try {
    return readText(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
  } finally {
    bytes.buffer.transfer(0);
  }
}

function readText(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new SyntaxError('the body is not valid UTF-8');
  checkSize(bytes, { values: 'jsonValues', levels: 'ignoredNestingLevels' });
  return bytes.toString('utf8');
}

const [QUOTE, BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, CLOSE_BRACE, CLOSE_BRACKET] = Buffer.from('"\\,{[}]');

/**
 * Counts the values of a JSON text before it is parsed, because V8 ends the process if its parser exceeds the heap.
 * @throws {TooLargeError} if the text exceeds a limit
 */
export function checkSize(bytes: Uint8Array, limits?: SizeLimits): number {
  const maxLevels = limits ? LIMITS[limits.levels] : Infinity;
  let [values, levels, isString] = [1, 0, false];
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (isString) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) isString = false;
    } else if (byte === QUOTE) isString = true;
    else if (byte === COMMA) values++;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) levels--;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      values++;
      if (++levels > maxLevels && limits)
        throw new TooLargeError(limits.levels, `nested more than ${maxLevels} levels deep`);
    }
  }
  if (limits && values > LIMITS[limits.values])
    throw new TooLargeError(limits.values, `more than ${LIMITS[limits.values]} values`);
  return values;
}
