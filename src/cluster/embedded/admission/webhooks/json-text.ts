/** Parsed JSON, or what is wrong with the text in Go's words. */
export type JsonText = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: string };

/** Parses JSON. */
export function readJson(text: string): JsonText {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    return { ok: false, error: syntaxError(text) };
  }
}

/** What may come next in JSON text, and how Go names it when something else comes. */
const EXPECTED = {
  value: 'looking for beginning of value',
  firstKey: 'looking for beginning of object key string',
  key: 'looking for beginning of object key string',
  colon: 'after object key',
  member: 'after object key:value pair',
  element: 'after array element',
  end: 'after top-level value',
} as const;

type Place = keyof typeof EXPECTED;

const END = 'unexpected end of JSON input';
const TOKEN =
  /[ \t\n\r]*(?:([[\]{}:,])|("(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null))/uy;

/**
 * Go's message for the first character that does not fit. Faults inside strings, numbers and words are told by the
 * character at which the token starts to be none.
 */
function syntaxError(text: string): string {
  const open: ('{' | '[')[] = [];
  let place: Place = 'value';
  let isEmpty = false;
  let position = 0;
  for (;;) {
    TOKEN.lastIndex = position;
    const token = TOKEN.exec(text)?.[0].trim();
    if (token === undefined || !fits(token, place, open.at(-1), isEmpty)) return unexpected(text, position, place);
    position = TOKEN.lastIndex === 0 ? text.length : TOKEN.lastIndex;
    isEmpty = token === '{' || token === '[';
    if (token === '{' || token === '[') open.push(token);
    if (token === '}' || token === ']') open.pop();
    place = next(token, place, open.at(-1));
  }
}

function fits(token: string, place: Place, open: '{' | '[' | undefined, isEmpty: boolean): boolean {
  const isValue = !/^[\]}:,]$/.test(token);
  switch (place) {
    case 'value':
      return isValue || (token === ']' && open === '[' && isEmpty);
    case 'firstKey':
      return token.startsWith('"') || token === '}';
    case 'key':
      return token.startsWith('"');
    case 'colon':
      return token === ':';
    case 'member':
      return token === ',' || token === '}';
    case 'element':
      return token === ',' || token === ']';
    case 'end':
      return false;
  }
}

function next(token: string, place: Place, open: '{' | '[' | undefined): Place {
  if (token === '{') return 'firstKey';
  if (token === '[' || token === ':') return 'value';
  if (token === ',') return open === '{' ? 'key' : 'value';
  if (place === 'firstKey' && token !== '}') return 'colon';
  if (place === 'key') return 'colon';
  if (open === undefined) return 'end';
  return open === '{' ? 'member' : 'element';
}

function unexpected(text: string, position: number, place: Place): string {
  const rest = text.slice(position).trimStart();
  if (rest === '') return END;
  if (/^"([^"\\]|\\.)*\\?$/s.test(rest) && place !== 'colon') return END;
  return `invalid character ${quoteCharacter(rest)} ${EXPECTED[place]}`;
}

function quoteCharacter(rest: string): string {
  const [character = ''] = rest;
  if (character === "'") return String.raw`'\''`;
  return character === '"' ? `'"'` : `'${character}'`;
}
