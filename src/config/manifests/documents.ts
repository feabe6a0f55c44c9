import { parseAllDocuments, type Document } from 'yaml';
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
  offsetOf,
  type Path,
} from './node.ts';
import { createYamlReader } from './yaml-reader.ts';
import { createLineIndex, type Position } from './line-index.ts';

const SPACE = /[ \t\r\n]*/y;
const LITERAL = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y;

/** Reads the JSON values that follow one another in `text`; after a broken one goes on at the next line with `{`. */
function readJson(text: string): Parsed[] {
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

/** All but what YAML allows in a text. */
const CONTROL = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/u;

/** Scalars are all strings to the library ("failsafe"): what they mean to kubectl is up to `scalar.ts`. */
const OPTIONS = { schema: 'failsafe', resolveKnownTags: false, uniqueKeys: false, prettyErrors: false } as const;

/** The library recurses; there is no other way to learn that it went too deep. */
const STACK_OVERFLOW = /call stack/;

/** Reads the YAML documents of a text; one that is broken gives a failure. */
function readYaml(text: string): readonly Parsed[] {
  const control = text.search(CONTROL);
  if (control >= 0) return [failed(control, 'control characters are not allowed')];
  try {
    const documents: Document.Parsed[] = parseAllDocuments(text, OPTIONS);
    const wentTooDeep = documents.some(({ errors }) => errors.some(({ message }) => STACK_OVERFLOW.test(message)));
    return wentTooDeep ? [tooDeep(text)] : documents.map((document) => readYamlDocument(document));
  } catch (error) {
    if (error instanceof RangeError && STACK_OVERFLOW.test(error.message)) return [tooDeep(text)];
    throw error;
  }
}

function readYamlDocument(document: Document.Parsed): Parsed {
  const [error] = document.errors;
  if (error) return failed(error.pos[0], error.message);
  const reader = createYamlReader();
  const node = reader.read(document.contents);
  return { node, duplicateKeys: reader.duplicateKeys, failure: reader.failure() };
}

function tooDeep(text: string): Parsed {
  return failed(Math.max(text.search(/\S/), 0), TOO_DEEP);
}

function failed(offset: number, message: string): Parsed {
  return { node: { value: null, offset }, duplicateKeys: [], failure: { offset, message } };
}

/** One document of a file. */
export interface ManifestDocument {
  readonly file: string;
  /** Counts the documents of the file from 0, unreadable ones too, empty ones not. */
  readonly index: number;
  /** Where its value begins, from 1. */
  readonly line: number;
  readonly value: unknown;
  /** Where a field begins (a member at its key), or its nearest parent that exists. */
  positionOf(path: Path): Position;
  readonly duplicateKeys: readonly DuplicateKeyPosition[];
}

/** A key that an object has again; the last one counts. */
export interface DuplicateKeyPosition extends Position {
  readonly path: Path;
}

/** What could not be read, and where. */
export interface ManifestError extends Position {
  readonly file: string;
  readonly message: string;
}

/** One document of a text, or why it cannot be read, and how much of the text has been read with it, from 0 to 1. */
export interface Step {
  readonly document?: ManifestDocument;
  readonly error?: ManifestError;
  readonly share: number;
}

/** Splits a text into its documents and reads each by itself. */
export function* readSteps(text: string, file: string): Generator<Step, void> {
  const body = text.startsWith('\ufeff') ? text.slice(1) : text;
  const positionAt = createLineIndex(body);
  let index = 0;
  for (const { start, end } of chunksOf(body)) {
    const share = end / body.length;
    for (const parsed of parse(body.slice(start, end))) {
      const position = (offset: number): Position => positionAt(start + offset);
      const { node, failure } = parsed;
      if (failure) yield { error: { file, ...position(failure.offset), message: shorten(failure.message) }, share };
      else if (node.value === null) continue;
      else yield { document: createDocument(file, index, parsed, position), share };
      index++;
    }
  }
}

/** Messages may quote the text, which may be of any length. */
function shorten(message: string): string {
  const [line = ''] = message.split('\n');
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}

function createDocument(
  file: string,
  index: number,
  { node, duplicateKeys }: Parsed,
  position: (offset: number) => Position,
): ManifestDocument {
  return {
    file,
    index,
    line: position(node.offset).line,
    value: node.value,
    positionOf: (path) => position(offsetOf(node, path)),
    duplicateKeys: duplicateKeys.map(({ path, offset }) => ({ path, ...position(offset) })),
  };
}

/** A line that ends a document; what follows `---` on the same line belongs to the next one. */
const SEPARATOR = /(?<=^|\n)---[ \t]*(?:#[^\n]*)?\r?(?:\n|$)|(?<=\n)(?=---[ \t])/g;

function* chunksOf(text: string): Generator<{ readonly start: number; readonly end: number }> {
  let start = 0;
  for (const marker of text.matchAll(SEPARATOR)) {
    yield { start, end: marker.index };
    start = marker.index + marker[0].length;
  }
  yield { start, end: text.length };
}

function parse(text: string): readonly Parsed[] {
  if (!/^\s*\{/.test(text)) return readYaml(text);
  const json = readJson(text);
  if (isReadable(json)) return json;
  // A YAML document may begin with a brace, too.
  const yaml = readYaml(text);
  return isReadable(yaml) ? yaml : json;
}

function isReadable(documents: readonly Parsed[]): boolean {
  return documents.every(({ failure }) => failure === undefined);
}
