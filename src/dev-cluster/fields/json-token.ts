/** A token of JSON: where it ends, or what is wrong with it and where, in Go's words. */
export type Token = { readonly end: number } | { readonly context: string; readonly at: number };

/** Reads the string, number or word that begins at a place. */
export function scanToken(text: string, at: number): Token {
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
