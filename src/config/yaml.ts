/** Reads YAML and JSON text as kubectl does, and records the position of every field. */
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  type ScalarTag,
  stringify,
  type Tags,
  type YAMLMap,
} from 'yaml';
import { LIMITS } from '../kube/limits.ts';
import { CONTROL_CHARACTERS, printable } from '../kube/text.ts';

/** A position in a text. Lines and columns start at 1. Columns are UTF-16 code units. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** Path of a field, which consists of member names and item indexes. */
export type Path = readonly (string | number)[];

/** Splits a printed path such as `spec.containers[0].image` or `metadata.labels[a.b/c]`. */
export function parsePath(path: string): Path {
  return [...path.matchAll(/\[([^\]]*)(?:\]|$)|([^.[\]]+)/g)].map(([, inBrackets, name]) => {
    if (inBrackets === undefined) return name ?? '';
    return /^\d+$/.test(inBrackets) ? Number(inBrackets) : inBrackets;
  });
}

/** A document in a file. */
export interface ManifestDocument {
  readonly file: string;
  /** Index of the document in the file, starting at 0. Includes unreadable documents but not empty ones. */
  readonly index: number;
  /** First line of the value, starting at 1. */
  readonly line: number;
  readonly value: unknown;
  readonly source: DocumentSource;
  /** Position of a field or of its nearest existing ancestor. A member's position is its key. */
  locate(path: Path): Position;
  /** Keys that occur more than once in an object. The last value is used. */
  readonly duplicateKeys: readonly (Position & { readonly path: Path })[];
}

/** The part of a text that contains a document. */
interface DocumentSource {
  readonly start: number;
  readonly end: number;
  readonly index: number;
}

/** A syntax error in a document, or a file that cannot be read. */
export interface ManifestError extends Position {
  readonly file: string;
  readonly message: string;
  /**
   * True if the error does not refer to a position in the file. In that case, its position is the beginning of the
   * file.
   */
  readonly isWholeFile?: boolean;
}

export interface Documents {
  readonly documents: readonly ManifestDocument[];
  readonly errors: readonly ManifestError[];
}

/**
 * Reads a stream of YAML documents or JSON values. Skips empty documents. `file` is the name of the text in messages.
 */
export function readDocuments(text: string, file: string): Documents {
  const steps = [...readSteps(text, file)];
  return {
    documents: steps.flatMap(({ document }) => document ?? []),
    errors: steps.flatMap(({ error }) => error ?? []),
  };
}

/** A document or its error, and the fraction of the text read so far, from 0 to 1. */
interface ReadStep {
  readonly document?: ManifestDocument;
  readonly error?: ManifestError;
  readonly share: number;
}

/** Reads the documents in a text one by one. An unreadable document does not affect the other documents. */
export function* readSteps(text: string, file: string): Generator<ReadStep, void> {
  const body = text.startsWith('\ufeff') ? text.slice(1) : text;
  const lines = new LineCounter();
  lines.addNewLine(0);
  for (let end = body.indexOf('\n'); end >= 0; end = body.indexOf('\n', end + 1)) lines.addNewLine(end + 1);
  let index = 0;
  for (const { start, end } of splitDocuments(body)) {
    const share = end / body.length;
    const positionAt = (offset: number): Position => {
      const { line, col } = lines.linePos(start + offset);
      return { line, column: col };
    };
    for (const parsed of parse(body.slice(start, end))) {
      if (parsed instanceof ReadError) {
        yield { error: { file, ...positionAt(parsed.offset), message: shorten(parsed.message) }, share };
      } else if (parsed.value === null) continue;
      else
        yield {
          document: createDocument({ file, index }, parsed, positionAt, start + text.length - body.length),
          share,
        };
      index++;
    }
  }
}

/** A separator line. Text that follows `---` on the same line belongs to the next document. */
const SEPARATOR = /(?<=^|\n)---[ \t]*(?:#[^\n]*)?\r?(?:\n|$)|(?<=\n)(?=---[ \t])/g;

function* splitDocuments(text: string): Generator<{ readonly start: number; readonly end: number }> {
  let start = 0;
  for (const separator of text.matchAll(SEPARATOR)) {
    yield { start, end: separator.index };
    start = separator.index + separator[0].length;
  }
  yield { start, end: text.length };
}

/** Truncates messages from the library, because they may quote text of any length. */
function shorten(message: string): string {
  const [line = ''] = message.split('\n');
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}

function createDocument(
  identity: Pick<ManifestDocument, 'file' | 'index'>,
  { value, source, location, duplicateKeys }: Parsed,
  positionAt: (offset: number) => Position,
  base: number,
): ManifestDocument {
  return {
    ...identity,
    line: positionAt(location.offset).line,
    value,
    source: { start: base + source.start, end: base + source.end, index: source.index },
    locate: (path) => positionAt(findOffset(location, path)),
    duplicateKeys: duplicateKeys.map(({ path, offset }) => ({ path, ...positionAt(offset) })),
  };
}

/** Offsets of a value and its parts in the text. */
interface Location {
  readonly offset: number;
  readonly members?: Members;
  readonly items?: readonly Location[];
}

type Members = Map<string, { readonly keyOffset: number; readonly value: Location }>;

function findOffset(root: Location, path: Path): number {
  let location = root;
  let { offset } = root;
  for (const step of path) {
    const member = typeof step === 'string' ? location.members?.get(step) : undefined;
    const next = typeof step === 'number' ? location.items?.[step] : member?.value;
    if (!next) return offset;
    offset = member?.keyOffset ?? next.offset;
    location = next;
  }
  return offset;
}

interface Parsed {
  readonly value: unknown;
  readonly source: DocumentSource;
  readonly location: Location;
  readonly duplicateKeys: readonly { readonly path: Path; readonly offset: number }[];
}

class ReadError extends Error {
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

/** Deeper nesting is an error, so consumers of the value can safely recurse. */
const TOO_DEEP = `nested more than ${LIMITS.yamlNestingLevels} levels deep`;

/** Calls the reader. Returns an exception as an error value. */
function attempt(read: () => Parsed): Parsed | ReadError {
  try {
    return read();
  } catch (error) {
    if (error instanceof ReadError) return error;
    throw error;
  }
}

/**
 * Parses text that contains no separators. Uses a separate parser for JSON, because the YAML library takes ten times as
 * long and a cluster dump can be many megabytes.
 */
function parse(text: string): readonly (Parsed | ReadError)[] {
  if (!/^\s*\{/.test(text)) return readYaml(text, 0);
  return splitObjects(text).flatMap(({ start, end }) => {
    const part = text.slice(start, end);
    try {
      const value: unknown = JSON.parse(part);
      return [attempt(() => locateJson(part, start, value))];
    } catch {
      return readYaml(part, start);
    }
  });
}

/** Matches a brace or a string, which may be unterminated. */
const BRACE = /"[^"\\]*(?:\\.?[^"\\]*)*(?:"|$)|[{}]/gs;

/** Splits a sequence of JSON objects, such as `{…}{…}`. Does not split text that does not consist of objects. */
function splitObjects(text: string): readonly { readonly start: number; readonly end: number }[] {
  const parts: { start: number; end: number }[] = [];
  let start = 0;
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(BRACE)) {
    if (token === '{' && depth++ === 0 && text.slice(start, index).trim() !== '')
      return [{ start: 0, end: text.length }];
    if (token !== '}' || --depth > 0) continue;
    parts.push({ start, end: index + 1 });
    start = index + 1;
  }
  if (text.slice(start).trim() !== '') parts.push({ start, end: text.length });
  return parts;
}

const JSON_TOKEN = /[\s,:]*("[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]]|[^\s,:{}[\]"]+)/y;

/** Finds the offsets of all fields in valid JSON text that starts at `base`. */
function locateJson(text: string, base: number, value: unknown): Parsed {
  const duplicateKeys: { path: Path; offset: number }[] = [];
  const path: (string | number)[] = [];
  let token = '';
  let offset = 0;
  const advance = (): string => {
    token = JSON_TOKEN.exec(text)?.[1] ?? '';
    offset = base + JSON_TOKEN.lastIndex - token.length;
    return token;
  };
  const below = (step: string | number): Location => {
    path.push(step);
    const location = locate();
    path.pop();
    return location;
  };
  const locateMembers = (): Members => {
    const members: Members = new Map();
    while (advance() !== '}') {
      const key = JSON.parse(token) as string;
      const keyOffset = offset;
      if (members.has(key)) duplicateKeys.push({ path: [...path, key], offset });
      advance();
      members.set(key, { keyOffset, value: below(key) });
    }
    return members;
  };
  const locate = (): Location => {
    const start = offset;
    if (path.length > LIMITS.yamlNestingLevels) throw new ReadError(start, TOO_DEEP);
    if (token === '{') return { offset: start, members: locateMembers() };
    if (token !== '[') return { offset: start };
    const items: Location[] = [];
    while (advance() !== ']') items.push(below(items.length));
    return { offset: start, items };
  };
  JSON_TOKEN.lastIndex = 0;
  advance();
  const source = { start: base, end: base + text.length, index: 0 };
  return { value, source, location: locate(), duplicateKeys };
}

/** True if the YAML library recursed too deeply. */
const STACK_OVERFLOW = /call stack/;

/** Replaces the library's tag, which would parse `e1` and `.` as numbers. */
const FLOAT: ScalarTag = {
  tag: 'tag:yaml.org,2002:float',
  default: true,
  test: /^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$/,
  resolve(text) {
    const value = Number(text.replaceAll('_', ''));
    return Number.isFinite(value) ? value : text;
  },
};

/**
 * Like kubectl, parses YAML 1.1, where `yes` is a boolean and `0777` is octal, but without sexagesimal numbers such as
 * `1:30`.
 */
function kubectlTags(tags: Tags): Tags {
  const isUsed = (tag: Tags[number]): boolean =>
    typeof tag !== 'object' ||
    !(/:(?:float|timestamp|binary)$/.test(tag.tag) || ('format' in tag && tag.format === 'TIME'));
  return [...tags.filter(isUsed), FLOAT];
}

export const READ_OPTIONS = {
  schema: 'yaml-1.1',
  merge: true,
  customTags: kubectlTags,
  resolveKnownTags: false,
  uniqueKeys: false,
  prettyErrors: false,
  logLevel: 'error',
} as const;

const TEMPLATE = 'A template must be rendered first: helm template CHART | portcullis check -f -';

function readYaml(text: string, base: number): readonly (Parsed | ReadError)[] {
  const tooDeep = new ReadError(base + Math.max(text.search(/\S/), 0), TOO_DEEP);
  try {
    const documents: Document.Parsed[] = parseAllDocuments(text, READ_OPTIONS);
    if (documents.some(({ errors }) => errors.some(({ message }) => STACK_OVERFLOW.test(message)))) return [tooDeep];
    const part = { start: base, end: base + text.length };
    return documents.map((document, index) => {
      const parsed = attempt(() => readContents(document, { ...part, index }));
      if (!(parsed instanceof ReadError) || !text.includes('{{')) return parsed;
      return new ReadError(parsed.offset, `${parsed.message}. ${TEMPLATE}`);
    });
  } catch (error) {
    if (error instanceof RangeError && STACK_OVERFLOW.test(error.message)) return [tooDeep];
    throw error;
  }
}

const EXCESSIVE_ALIASING = `excessive aliasing: the aliases expand to more than ${LIMITS.aliasedValues.toLocaleString('en')} values`;

/** Reads a document, expands aliases and applies merge keys. A merged field has the position of its anchor. */
function readContents(document: Document.Parsed, source: DocumentSource): Parsed {
  const { start: base } = source;
  const [error] = document.errors;
  if (error) throw new ReadError(base + error.pos[0], error.message);
  const duplicateKeys: { path: Path; offset: number }[] = [];
  const path: (string | number)[] = [];
  let aliasDepth = 0;
  let aliasedNodes = 0;
  const below = (step: string | number, node: Node | null): Location => {
    path.push(step);
    const location = locate(node);
    path.pop();
    return location;
  };
  const locate = (node: Node | null): Location => {
    const offset = nodeOffset(node);
    if (path.length > LIMITS.yamlNestingLevels) throw new ReadError(offset, TOO_DEEP);
    if (aliasDepth > 0 && ++aliasedNodes > LIMITS.aliasedValues) throw new ReadError(offset, EXCESSIVE_ALIASING);
    if (isAlias(node)) {
      aliasDepth++;
      const target = below('*', node.resolve(document) ?? null);
      aliasDepth--;
      return target;
    }
    if (isSeq<Node | null>(node)) return { offset, items: node.items.map((item, index) => below(index, item)) };
    return isMap<Node, Node | null>(node) ? { offset, members: locateMembers(node) } : { offset };
  };
  const locateMembers = ({ items }: YAMLMap<Node, Node | null>): Members => {
    const members: Members = new Map();
    const merged: Members = new Map();
    for (const { key, value } of items) {
      if (isMap(key) || isSeq(key)) throw new ReadError(nodeOffset(key), 'a key must be a string');
      const name = isScalar(key) ? String(key.value) : '';
      const location = below(name, value);
      if (isScalar(key) && key.source === '<<' && key.type === 'PLAIN') {
        for (const source of location.items ?? [location])
          for (const [inherited, member] of source.members ?? [])
            if (!merged.has(inherited)) merged.set(inherited, member);
        continue;
      }
      if (members.has(name) && aliasDepth === 0) duplicateKeys.push({ path: [...path, name], offset: nodeOffset(key) });
      members.set(name, { keyOffset: nodeOffset(key), value: location });
    }
    return new Map([...merged, ...members]);
  };
  const nodeOffset = (node: Node | null): number => base + (node?.range?.[0] ?? 0);
  const location = locate(document.contents);
  return { value: toValue(document, location.offset), source, location, duplicateKeys };
}

function toValue(document: Document.Parsed, offset: number): unknown {
  try {
    return document.toJS({ maxAliasCount: -1 });
  } catch (error) {
    throw new ReadError(offset, error instanceof Error ? error.message : String(error));
  }
}

/** Plain scalars that kubectl does not parse as strings. */
const AMBIGUOUS = {
  tag: '!ambiguous',
  default: true,
  test: /^(?:[-+.~\d].*|<<|null|y|yes|n|no|true|false|on|off)$/is,
  resolve: (text: string) => text,
} as const;

/** Uses literal blocks, because kubectl parses folded blocks that contain indented lines differently. */
const WRITE_OPTIONS = { compat: [AMBIGUOUS], aliasDuplicateObjects: false, blockQuote: 'literal' as const };

/** Formats a value as indented JSON with escaped control characters. */
export function printIndented(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2).split('\n').map(printable).join('\n')}\n`;
}

/**
 * Formats values as YAML documents that kubectl parses to the same values. Documents that contain control characters
 * are formatted as JSON, which escapes them.
 */
export function printYaml(values: readonly unknown[]): string {
  const documents = values.map((value) => {
    const text = stringify(value, WRITE_OPTIONS);
    return text.replaceAll(/[\t\n]/g, '').search(CONTROL_CHARACTERS) === -1 ? text : printIndented(value);
  });
  return documents.join('---\n');
}
