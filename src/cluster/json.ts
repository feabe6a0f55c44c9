/** Parses JSON within limits. */
import { LIMITS } from '../kube/limits.ts';
import { UserError } from '../kube/user-error.ts';

/** A response or an object has more bytes, values or levels than any object that API servers store. */
export class TooLargeError extends UserError {}

/**
 * Parses UTF-8.
 * @throws {SyntaxError} if the text is not JSON
 * @throws {TooLargeError} if it exceeds a limit
 */
export function parseJson(bytes: Buffer): unknown {
  checkSize(bytes);
  return JSON.parse(bytes.toString('utf8'));
}

const [QUOTE, BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, CLOSE_BRACE, CLOSE_BRACKET] = Buffer.from('"\\,{[}]');

/** Counts the values and levels, because V8 ends the process if a native parser exceeds the heap. */
function checkSize(bytes: Uint8Array): void {
  let [values, depth, isString] = [1, 0, false];
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (isString) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) isString = false;
    } else if (byte === QUOTE) isString = true;
    else if (byte === COMMA) values++;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      values++;
      if (++depth > LIMITS.ignoredNestingLevels)
        throw new TooLargeError(`nested more than ${LIMITS.ignoredNestingLevels} levels deep`);
    }
  }
  if (values > LIMITS.jsonValues) throw new TooLargeError(`more than ${LIMITS.jsonValues} values`);
}
