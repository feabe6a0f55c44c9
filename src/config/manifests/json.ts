import {
  listNode,
  MAX_DEPTH,
  objectNode,
  TOO_DEEP,
  type DuplicateKey,
  type Failure,
  type Member,
  type Parsed,
  type TextNode,
} from './node.ts';

const SPACE = /[ \t\r\n]*/y;
const LITERAL = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y;

/** Reads the JSON values that follow one another in `text`; after a broken one goes on at the next line with `{`. */
export function readJson(text: string): Parsed[] {
  const results: Parsed[] = [];
  let offset = skip(SPACE, text, 0);
  while (offset < text.length) {
    const { end, ...parsed } = readValue(text, offset);
    results.push(parsed);
    offset = skip(SPACE, text, parsed.failure ? nextObject(text, offset + 1) : end);
  }
  return results;
}

function nextObject(text: string, from: number): number {
  const found = text.indexOf('\n{', from);
  return found < 0 ? text.length : found + 1;
}

/** Reads one value. A failure moves the reader to the end of the text, where nothing goes on; the first one counts. */
function readValue(text: string, start: number): Parsed & { readonly end: number } {
  const duplicateKeys: DuplicateKey[] = [];
  const path: (string | number)[] = [];
  let offset = start;
  let failure: Failure | undefined;

  const fail = (message: string, at = offset): void => {
    failure ??= { message, offset: at };
    offset = text.length;
  };
  const take = (symbol: string): boolean => {
    offset = skip(SPACE, text, offset);
    if (text[offset] !== symbol) return false;
    offset++;
    return true;
  };
  /** The parts of an object or list, up to its closing bracket. */
  const parts = (close: string, part: () => void): void => {
    if (take(close)) return;
    do part();
    while (take(','));
    if (!take(close)) fail(`expected ',' or '${close}'`);
  };

  const below = (step: string | number): TextNode => {
    path.push(step);
    const node = value();
    path.pop();
    return node;
  };

  function object(at: number): TextNode {
    const members = new Map<string, Member>();
    parts('}', () => {
      offset = skip(SPACE, text, offset);
      const keyOffset = offset;
      if (text[offset] !== '"') fail('expected a key in double quotes');
      const key = string();
      if (!take(':')) fail("expected ':'");
      if (members.has(key)) duplicateKeys.push({ path: [...path, key], offset: keyOffset });
      members.set(key, { keyOffset, node: below(key) });
    });
    return objectNode(at, members);
  }

  function list(at: number): TextNode {
    const items: TextNode[] = [];
    parts(']', () => items.push(below(items.length)));
    return listNode(at, items);
  }

  function string(): string {
    const at = offset;
    const end = endOfString(text, at);
    const decoded = end === undefined ? undefined : decodeString(text.slice(at, end));
    if (decoded === undefined) fail(end ? 'wrong escape or control character in string' : 'string without end', at);
    else offset = end ?? offset;
    return decoded ?? '';
  }

  function value(): TextNode {
    offset = skip(SPACE, text, offset);
    const at = offset;
    if (path.length > MAX_DEPTH) fail(TOO_DEEP);
    if (take('{')) return object(at);
    if (take('[')) return list(at);
    if (text[at] === '"') return { value: string(), offset: at };
    const end = skip(LITERAL, text, at);
    if (end === at) fail(at === text.length ? 'unexpected end of the text' : 'expected a JSON value');
    else offset = end;
    return { value: end === at ? null : JSON.parse(text.slice(at, end)), offset: at };
  }

  const node = value();
  return { node, duplicateKeys, failure, end: offset };
}

function skip(pattern: RegExp, text: string, offset: number): number {
  pattern.lastIndex = offset;
  return pattern.test(text) ? pattern.lastIndex : offset;
}

/** Just behind the closing quote; `undefined` where there is none. */
function endOfString(text: string, start: number): number | undefined {
  for (let quote = text.indexOf('"', start + 1); quote > 0; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (text[quote - 1 - backslashes] === '\\') backslashes++;
    if (backslashes % 2 === 0) return quote + 1;
  }
  return undefined;
}

function decodeString(literal: string): string | undefined {
  try {
    return JSON.parse(literal) as string;
  } catch {
    return undefined;
  }
}
