/** Reads YAML and JSON text in the same way as kubectl, and records the position of every field. */
import { LineCounter, type ScalarTag, stringify, type Tags } from 'yaml';
import { LIMITS } from '../kube/limits.ts';
import { CONTROL_CHARACTERS, printable } from '../kube/text.ts';
import { describeRendering, findUnrenderedText, type Placeholder } from './placeholders.ts';
import { type Location, type Members, type ParsedYaml, parseYaml, type Repetition, TOO_DEEP } from './yaml-parser.ts';
import { YamlError } from './yaml-scanner.ts';

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

/** The argument for standard input, and its name in messages. */
export const STDIN = { path: '-', name: 'stdin' } as const;

/** A document in a file. */
export interface ManifestDocument {
  readonly file: string;
  /** Index of the document in the file, starting at 0. Counts unreadable documents but not empty documents. */
  readonly index: number;
  /** First line of the value, starting at 1. */
  readonly line: number;
  readonly value: unknown;
  readonly source: DocumentSource;
  /**
   * Returns the position of a field or of its nearest existing ancestor. The position of a member is that of its key.
   */
  locate(path: Path): Position;
  /** Keys that occur more than once in an object. */
  readonly repetitions: readonly (Position & Omit<Repetition, 'offset'>)[];
  /** Position of text after the document, which kubectl ignores, for example after `...`. */
  readonly ignored?: Position;
  /** Position of YAML in a text that begins with a brace. kubectl before 1.34 reads only JSON in such a text. */
  readonly notJson?: Position;
}

/** Part of a text that contains a document. */
interface DocumentSource {
  readonly start: number;
  readonly end: number;
}

/** A syntax error in a document, or an error about a file that cannot be read. */
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

/**
 * Reads the documents in a text one at a time. An unreadable document does not affect the other documents, although
 * kubectl stops at it.
 */
export function* readSteps(text: string, file: string): Generator<ReadStep, void> {
  const body = text.startsWith('\ufeff') ? text.slice(1) : text;
  const base = text.length - body.length;
  const lines = new LineCounter();
  lines.addNewLine(0);
  for (let end = body.indexOf('\n'); end >= 0; end = body.indexOf('\n', end + 1)) lines.addNewLine(end + 1);
  const positionAt = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line, column: col };
  };
  let index = 0;
  for (const parsed of parse(body)) {
    const share = parsed.end / body.length;
    if ('error' in parsed) {
      const { error, placeholder } = parsed;
      const message = shorten(error.message);
      const hint = placeholder && `not rendered yet: ${placeholder.text}. ${describeRendering(placeholder)}`;
      yield { error: { file, ...positionAt(error.offset), message: hint ? `${message}, ${hint}` : message }, share };
    } else if (parsed.value === null) continue;
    else yield { document: createDocument({ file, index }, parsed, positionAt, base), share };
    index++;
  }
}

/** Truncates messages, because they may quote text of any length. */
function shorten(message: string): string {
  const [line = ''] = message.split('\n');
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}

function createDocument(
  identity: Pick<ManifestDocument, 'file' | 'index'>,
  { value, start, end, location, repetitions, ignoredFrom, notJsonFrom }: Parsed,
  positionAt: (offset: number) => Position,
  base: number,
): ManifestDocument {
  return {
    ...identity,
    line: positionAt(location.offset).line,
    value,
    source: { start: base + start, end: base + end },
    locate: (path) => positionAt(findOffset(location, path)),
    repetitions: repetitions.map(({ offset, ...repetition }) => ({ ...positionAt(offset), ...repetition })),
    ...(ignoredFrom === undefined ? {} : { ignored: positionAt(ignoredFrom) }),
    ...(notJsonFrom === undefined ? {} : { notJson: positionAt(notJsonFrom) }),
  };
}

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

/** A document, and the part of the text that contains it. */
interface Parsed extends DocumentSource, Pick<ParsedYaml, 'ignoredFrom'> {
  readonly notJsonFrom?: number;
  readonly value: unknown;
  readonly location: Location;
  readonly repetitions: readonly Repetition[];
}

/** An unreadable part of the text. */
interface Failed extends DocumentSource {
  readonly error: YamlError;
  /** A placeholder that may cause the error. */
  readonly placeholder?: Placeholder;
}

/**
 * Parses a text in the same way as kubectl. A text that begins with a brace is a stream of JSON values. If the first or
 * second value is not JSON, the rest of the text is YAML.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.2/pkg/util/yaml/decoder.go
 */
function* parse(text: string): Generator<Parsed | Failed> {
  if (!/^\s*\{/.test(text)) {
    yield* parseYamlStream(text, 0);
    return;
  }
  let start = 0;
  let values = 0;
  for (const part of splitValues(text)) {
    const parsed = parseJson(text.slice(part.start, part.end), part.start);
    if (parsed === undefined) break;
    yield parsed;
    values++;
    start = part.end;
  }
  const [blank = ''] = /^[^\S\n]*/.exec(text.slice(start)) ?? [];
  const rest = start + blank.length;
  if (text.slice(rest).trim() === '') return;
  // kubectl cannot read YAML that follows JSON and is shorter than four bytes.
  const isJson = values > 1 || new TextEncoder().encode(text.slice(rest, rest + MIN_REST)).length < MIN_REST;
  if (isJson) {
    yield { start, end: text.length, error: new YamlError(rest, 'found text that is not JSON') };
    return;
  }
  const from = text[rest] === '\n' ? rest + 1 : rest;
  let isFirst = true;
  for (const part of parseYamlStream(text, from)) {
    yield isFirst ? { ...part, notJsonFrom: from } : part;
    isFirst = false;
  }
}

const MIN_REST = 4;

/** Matches a line that begins a document. */
const SEPARATOR = /(?<![^\n])---[^\n]*/g;

/** Splits YAML at its separators, and reads one document from each part. */
function* parseYamlStream(text: string, from: number): Generator<Parsed | Failed> {
  let start = from;
  for (const { 0: separator, index } of text.slice(from).matchAll(SEPARATOR)) {
    const end = from + index;
    const next = end + separator.length + 1;
    const content = separator.slice('---'.length).trim();
    if (content !== '' && !content.startsWith('#')) {
      const error = new YamlError(end, `invalid YAML document separator: ${content}`);
      yield { start: end, end: next, error };
    } else if (end > start) yield parsePart(text, start, end);
    // The first separator belongs to the document.
    else continue;
    start = next;
  }
  if (start < text.length) yield parsePart(text, start, text.length);
}

function parsePart(text: string, start: number, end: number): Parsed | Failed {
  const part = text.slice(start, end);
  const parsed = tryParse(part, start);
  if (!(parsed instanceof YamlError)) return { start, end, ...parsed };
  const placeholder = findUnrenderedText(part, parsed.offset - start, (rendered) => {
    const result = tryParse(rendered, start);
    return result instanceof YamlError && result.offset === parsed.offset;
  });
  return { start, end, error: parsed, ...(placeholder && { placeholder }) };
}

function tryParse(text: string, base: number): ParsedYaml | YamlError {
  try {
    return parseYaml(text, base);
  } catch (error) {
    if (error instanceof YamlError) return error;
    throw error;
  }
}

/** Matches the beginning of a collection or string, or a whole value of another type. */
const JSON_START = /\s*(["{[]|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|\S)/y;

/** Splits a stream of JSON values, such as `{…}{…}`. */
function* splitValues(text: string): Generator<DocumentSource> {
  JSON_START.lastIndex = 0;
  for (let found = JSON_START.exec(text); found !== null; found = JSON_START.exec(text)) {
    const token = found[1] ?? '';
    const start = found.index + found[0].length - token.length;
    const end = /["{[]/.test(token) ? findEnd(text, start) : start + token.length;
    yield { start, end };
    JSON_START.lastIndex = end;
  }
}

/** Returns the offset after a string or collection, or the length of the text if it is unterminated. */
function findEnd(text: string, start: number): number {
  const pattern = /["{}[\]]/g;
  let depth = 0;
  pattern.lastIndex = start;
  for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) {
    const [token] = found;
    if (token === '"') pattern.lastIndex = endOfString(text, found.index);
    else depth += token === '{' || token === '[' ? 1 : -1;
    if (depth === 0) return pattern.lastIndex;
  }
  return text.length;
}

/**
 * Returns the offset after a JSON string, or the length of the text if it is unterminated. A regular expression would
 * exceed the stack for a string with millions of escapes.
 */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslash = end - 1;
    while (text[backslash] === '\\') backslash--;
    if ((end - backslash) % 2 === 1) return end + 1;
  }
  return text.length;
}

const JSON_TOKEN = /[\s,:]*(["{}[\]]|[^\s,:{}[\]"]+)/y;

/**
 * Parses a JSON value that starts at `base`. Returns `undefined` for other text. JSON has its own parser, because a
 * cluster dump can be many megabytes.
 */
function parseJson(text: string, base: number): Parsed | Failed | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const part = { start: base, end: base + text.length };
  try {
    return { ...part, value, ...locateJson(text, base) };
  } catch (error) {
    if (error instanceof YamlError) return { ...part, error };
    throw error;
  }
}

/** Finds the offsets of all fields in valid JSON text that starts at `base`. */
function locateJson(text: string, base: number): Pick<Parsed, 'location' | 'repetitions'> {
  const repetitions: Repetition[] = [];
  const path: (string | number)[] = [];
  let token = '';
  let offset = 0;
  const advance = (): string => {
    token = JSON_TOKEN.exec(text)?.[1] ?? '';
    const start = JSON_TOKEN.lastIndex - token.length;
    if (token === '"') {
      JSON_TOKEN.lastIndex = endOfString(text, start);
      token = text.slice(start, JSON_TOKEN.lastIndex);
    }
    offset = base + start;
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
      if (members.has(key)) repetitions.push({ path: [...path, key], offset });
      advance();
      members.set(key, { keyOffset, value: below(key) });
    }
    return members;
  };
  const locate = (): Location => {
    const start = offset;
    if (path.length > LIMITS.yamlNestingLevels) throw new YamlError(start, TOO_DEEP);
    if (token === '{') return { offset: start, members: locateMembers() };
    if (token !== '[') return { offset: start };
    const items: Location[] = [];
    while (advance() !== ']') items.push(below(items.length));
    return { offset: start, items };
  };
  JSON_TOKEN.lastIndex = 0;
  advance();
  return { location: locate(), repetitions };
}

/** Replaces the tag of the library, which would parse `e1` and `.` as numbers. */
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
 * Returns the tags for YAML 1.1 as kubectl parses it. `yes` is a boolean and `0777` is octal, but there are no
 * sexagesimal numbers such as `1:30`.
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
