/** Parses JSON within limits. */
import { LIMITS } from '../kube/limits.ts';
import { UserError } from '../kube/user-error.ts';

/** A response, an object or a review has more bytes, values or levels than any that API servers send. */
export class TooLargeError extends UserError {}

interface Size {
  readonly values: number;
  readonly levels: number;
}

const MAX_SIZE: Size = { values: LIMITS.jsonValues, levels: LIMITS.ignoredNestingLevels };

/**
 * Parses UTF-8.
 * @throws {SyntaxError} if the text is not JSON
 * @throws {TooLargeError} if it exceeds a limit
 */
export function parseJson(bytes: Buffer): unknown {
  checkSize(bytes, MAX_SIZE);
  return JSON.parse(bytes.toString('utf8'));
}

const [QUOTE, BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, CLOSE_BRACE, CLOSE_BRACKET] = Buffer.from('"\\,{[}]');

/**
 * Counts the values of a JSON text, because V8 ends the process if its native parser exceeds the heap.
 * @throws {TooLargeError} if the text exceeds a limit
 */
export function checkSize(bytes: Uint8Array, limits: Size): number {
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
      if (++levels > limits.levels) throw new TooLargeError(`nested more than ${limits.levels} levels deep`);
    }
  }
  if (values > limits.values) throw new TooLargeError(`more than ${limits.values} values`);
  return values;
}
