/** Quotes a string as Go's `%q` verb does. The API server quotes strings in messages with it. */
export function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : `"${Array.from(text, escapeRune).join('')}"`;
}

const PLAIN = /^[ !#-[\]-~]*$/;
/**
 * Matches the characters that Go's strconv.IsPrint accepts, which are letters, marks, numbers, punctuation, symbols and
 * the ASCII space.
 */
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;
const NAMED: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\u0007': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

function escapeRune(rune: string): string {
  const named = NAMED[rune];
  if (named !== undefined) return named;
  if (PRINTABLE.test(rune)) return rune;
  const code = rune.codePointAt(0) ?? 0;
  // When Go decodes JSON, it turns a lone surrogate into the replacement character, which is printable.
  if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
  if (code < 0x80) return `\\x${hex(code, 2)}`;
  return code < 0x10000 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}

/** Matches control characters, bidirectional formatting characters, and non-ASCII line separators. */
export const CONTROL_CHARACTERS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** Escapes control characters as JSON does, so names from files and clusters cannot control the terminal. */
export function printable(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) => {
    const short = JSON.stringify(character).slice(1, -1);
    return short === character ? `\\u${hex(character.charCodeAt(0), 4)}` : short;
  });
}

/** Maximum length of a value in a message. Without a maximum, the value could be as long as the request. */
const MAX_SHOWN = 16_384;

/** Truncates a string for a message. Returns a copy, because a slice would keep the whole string in memory. */
export function truncate(text: string, maxLength = MAX_SHOWN): string {
  return text.length <= maxLength ? text : Array.from(`${text.slice(0, maxLength)}…`).join('');
}

/** Maximum number of typos in names with at least five characters (`long`) and in shorter names (`short`). */
const MAX_DIFFERENCES = { long: 2, short: 1 } as const;

/** Returns the most similar candidate, or `undefined` if all candidates differ by too many characters. Ignores case. */
export function findSimilar(name: string, candidates: readonly string[]): string | undefined {
  return findAllSimilar(name, candidates)[0];
}

/**
 * Returns the candidates that differ by at most two characters, or one for short names. The most similar one comes
 * first.
 */
export function findAllSimilar(name: string, candidates: readonly string[]): readonly string[] {
  return candidates
    .map((candidate) => ({ candidate, differences: countDifferences(name, candidate) }))
    .filter(({ candidate, differences }) => {
      return differences <= MAX_DIFFERENCES[Math.max(name.length, candidate.length) < 5 ? 'short' : 'long'];
    })
    .sort((a, b) => a.differences - b.differences)
    .map(({ candidate }) => candidate);
}

/**
 * Returns the number of inserted, removed and replaced characters, or `Infinity` if the lengths alone differ by too
 * much.
 */
function countDifferences(name: string, other: string): number {
  if (Math.abs(name.length - other.length) > MAX_DIFFERENCES.long) return Infinity;
  const [from, to] = [name.toLowerCase(), other.toLowerCase()];
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}

/**
 * Compares two strings by their UTF-8 bytes, as Go does. JavaScript compares UTF-16 code units, which orders characters
 * outside the Basic Multilingual Plane differently.
 */
export function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const x = a.charCodeAt(index);
    const y = b.charCodeAt(index);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** Creates a function that compares objects by several strings. The first pair that differs determines the order. */
export function compareBy<T>(keys: (object: T) => readonly string[]): (a: T, b: T) => number {
  return (a, b) => {
    const others = keys(b);
    return keys(a).reduce((order, key, index) => order || compareBytes(key, others[index] ?? ''), 0);
  };
}

/** Returns the distinct strings in byte order. */
export function sortedSet(texts: Iterable<string>): string[] {
  return [...new Set(texts)].sort(compareBytes);
}

/** Orders surrogates last, because they represent code points that are greater than all other code units. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

/** Formats a value as JSON. Returns `…` if the value is so deeply nested that the stack overflows. */
export function printJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return TOO_DEEP;
    throw error;
  }
}

const TOO_DEEP = '…';

/**
 * Formats the first distinct names in byte order (ten by default) and the number of omitted names, such as `a, b and 2
 * more`.
 */
export function summarizeNames(names: readonly string[], max = 10): string {
  const sorted = sortedSet(names);
  const rest = sorted.length - max;
  return sorted.slice(0, max).join(', ') + (rest > 0 ? ` and ${rest} more` : '');
}

/** Formats a count with its noun, such as `1 pod` or `2 pods`. */
export function printCount(count: number, noun: string): string {
  return `${count} ${plural(count, noun)}`;
}

/** Returns the singular or the plural, depending on the count. */
export function plural(count: number, singular: string, many = `${singular}s`): string {
  return count === 1 ? singular : many;
}

/** Removes all slashes at the end. */
export function withoutTrailingSlashes(text: string): string {
  let end = text.length;
  while (text[end - 1] === '/') end--;
  return text.slice(0, end);
}

/** Quotes an argument for a POSIX shell. */
export function shellQuote(text: string): string {
  return /^[\w./:=@,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Returns true if a text matches a pattern, in which `*` stands for any text and `?` for one character. */
export function matchesWildcard(pattern: string, text: string): boolean {
  let [position, index, star, resume] = [0, 0, -1, 0];
  while (index < text.length) {
    const symbol = pattern[position];
    if (symbol === '*') {
      star = position++;
      resume = index;
    } else if (symbol !== undefined && (symbol === '?' || symbol === text[index])) {
      position++;
      index++;
    } else if (star >= 0) {
      position = star + 1;
      index = ++resume;
    } else return false;
  }
  while (pattern[position] === '*') position++;
  return position === pattern.length;
}
