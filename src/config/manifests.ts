import { isUtf8 } from 'node:buffer';
import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Alias,
  type Node,
  type Pair,
  type Scalar,
  parseAllDocuments,
  type Document,
  stringify,
} from 'yaml';
import { compareBytes } from '../kube/text.ts';
import { NOT_REGULAR, openRegularFile, failureReason, UserError } from './files.ts';
import { isObject, type JsonObject } from '../kube/types.ts';

/** Turns offsets of a text into lines and columns, both from 1; columns count UTF-16 units. */
function createLineIndex(text: string): (offset: number) => Position {
  let starts: number[] | undefined;
  return (offset) => {
    starts ??= lineStarts(text);
    let low = 0;
    let high = starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle;
    }
    return { line: low + 1, column: offset - (starts[low] ?? 0) + 1 };
  };
}

interface Position {
  readonly line: number;
  readonly column: number;
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', end + 1)) starts.push(end + 1);
  return starts;
}

/**
 * A value read from text, with the places where it and its parts stand there.
 *
 * The files of this folder serve `../manifests.ts`; others import that one.
 */
interface TextNode {
  readonly value: unknown;
  /** Where the value begins, counted from the start of the text. */
  readonly offset: number;
  readonly members?: ReadonlyMap<string, Member>;
  readonly items?: readonly TextNode[];
}

interface Member {
  readonly keyOffset: number;
  readonly node: TextNode;
}

/** Where a field stands: members of objects, by name, and items of lists, by index. */
export type Path = readonly (string | number)[];

/** A key that an object has twice; the last one counts. */
interface DuplicateKey {
  readonly path: Path;
  readonly offset: number;
}

/** Why a text could not be read on. */
interface Failure {
  readonly offset: number;
  readonly message: string;
}

/** One document of a text; after a failure its node is worth nothing. */
interface Parsed {
  readonly node: TextNode;
  readonly duplicateKeys: readonly DuplicateKey[];
  readonly failure: Failure | undefined;
}

/** Deeper nesting is refused, so that all who take the value may recurse. */
const MAX_DEPTH = 500;
const TOO_DEEP = `nested more than ${MAX_DEPTH} levels deep`;

/** Where the field begins (a member at its key), or its nearest parent that exists. */
function offsetOf(root: TextNode, path: Path): number {
  let node = root;
  let offset = root.offset;
  for (const step of path) {
    const next = typeof step === 'number' ? itemOf(node, step) : node.members?.get(step);
    if (next === undefined) return offset;
    offset = next.keyOffset;
    node = next.node;
  }
  return offset;
}

function itemOf(node: TextNode, index: number): Member | undefined {
  const item = node.items?.[index];
  return item && { keyOffset: item.offset, node: item };
}

/** The node of an object. Its value has each key as a property of its own, even `__proto__`. */
function objectNode(offset: number, members: ReadonlyMap<string, Member>): TextNode {
  const value: Record<string, unknown> = {};
  for (const [key, { node }] of members) {
    if (key !== '__proto__') value[key] = node.value;
    else Object.defineProperty(value, key, { value: node.value, enumerable: true, writable: true, configurable: true });
  }
  return { value, offset, members };
}

function listNode(offset: number, items: readonly TextNode[]): TextNode {
  return { value: items.map((item) => item.value), offset, items };
}

/** From here on documents must have ever fewer nodes that come from aliases, from 99 % down to 10 %. */
const FREE_NODES = 400_000;
const STRICT_NODES = 4_000_000;

/** Counts nodes while aliases are written out, and tells when a small text would become a large value. */
interface AliasBudget {
  /** Counts a node; false once too many of all come from aliases. */
  spend(): boolean;
  /** Counts the nodes read meanwhile as coming from an alias. */
  within<T>(read: () => T): T;
  /** True while an alias is written out. */
  expanding(): boolean;
}

/**
 * The rule of go-yaml, which kubectl uses.
 * @see https://github.com/yaml/go-yaml/blob/v2.4.0/decode.go
 */
function createAliasBudget(): AliasBudget {
  let nodes = 0;
  let aliased = 0;
  let depth = 0;
  return {
    spend() {
      nodes++;
      if (depth > 0) aliased++;
      return aliased <= 100 || nodes <= 1000 || aliased / nodes <= allowedShare(nodes);
    },
    within(read) {
      depth++;
      const result = read();
      depth--;
      return result;
    },
    expanding: () => depth > 0,
  };
}

function allowedShare(nodes: number): number {
  if (nodes <= FREE_NODES) return 0.99;
  if (nodes >= STRICT_NODES) return 0.1;
  return 0.99 - 0.89 * ((nodes - FREE_NODES) / (STRICT_NODES - FREE_NODES));
}

/** What a scalar can mean; dates stay strings. */
type ScalarValue = string | number | boolean | null;

const WORDS: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ...entries('y Y yes Yes YES true True TRUE on On ON', true),
  ...entries('n N no No NO false False FALSE off Off OFF', false),
  ...entries('~ null Null NULL', null),
  ['', null],
]);
const INFINITY = /^[-+]?\.(?:inf|Inf|INF)$/;
const NOT_A_NUMBER = /^\.(?:nan|NaN|NAN)$/;
const FRACTION = /^\.[0-9]+(?:[eE][-+]?[0-9]+)?$/;
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const WITH_BASE = /^([-+]?)(?:0[oO]?([0-7]+)|(0[xX][0-9a-fA-F]+|0[bB][01]+))$/;

/**
 * What a scalar without quotes and tag means to kubectl: YAML 1.1, where `yes` and `on` are booleans and `0777` is
 * octal, but `1:30` and dates are strings.
 * @see https://github.com/yaml/go-yaml/blob/v2.4.0/resolve.go
 */
function resolvePlain(text: string): ScalarValue {
  const word = WORDS.get(text);
  if (word !== undefined) return word;
  if (INFINITY.test(text)) return text.startsWith('-') ? -Infinity : Infinity;
  if (NOT_A_NUMBER.test(text)) return NaN;
  if (text.startsWith('.')) return FRACTION.test(text) ? Number(text) : text;
  return /^[-+0-9]/.test(text) ? resolveNumber(text) : text;
}

function resolveNumber(text: string): number | string {
  const digits = text.replaceAll('_', '');
  const [matched, sign, octal = '', literal] = WITH_BASE.exec(digits) ?? [];
  if (matched !== undefined) return signed(sign, Number(literal ?? `0o${octal}`));
  const number = FLOAT.test(digits) ? Number(digits) : NaN;
  if (!Number.isFinite(number)) return text;
  // There is no integer -0.
  return /^-0+$/.test(digits) ? 0 : number;
}

function signed(sign: string | undefined, value: number): number {
  return sign === '-' ? 0 - value : value;
}

const CORE_TAG = 'tag:yaml.org,2002:';
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** What a scalar with a tag means, quotes or not; `undefined` if the text does not fit the tag. */
function resolveTagged(tag: string, text: string): ScalarValue | undefined {
  const value = resolvePlain(text);
  switch (tag) {
    case `${CORE_TAG}null`:
      return value === null ? null : undefined;
    case `${CORE_TAG}bool`:
      return typeof value === 'boolean' ? value : undefined;
    case `${CORE_TAG}int`:
      return Number.isInteger(value) ? value : undefined;
    case `${CORE_TAG}float`:
      return typeof value === 'number' ? value : undefined;
    case `${CORE_TAG}binary`:
      return decodeBase64(text.replaceAll(/\s/g, ''));
    default:
      return text;
  }
}

function decodeBase64(text: string): string | undefined {
  return BASE64.test(text) ? Buffer.from(text, 'base64').toString() : undefined;
}

/** A key as JSON has it; `undefined` for null, which cannot be a key. */
function printKey(value: ScalarValue): string | undefined {
  if (value === null) return undefined;
  if (typeof value !== 'number' || Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? '.nan' : `${value < 0 ? '-' : ''}.inf`;
}

function entries<T>(words: string, value: T): [string, T][] {
  return words.split(' ').map((word) => [word, value]);
}

/** Reads one document from the nodes of the library; good for one. */
interface YamlReader {
  /** The value with its places, aliases written out; worth nothing after a failure. */
  read(node: Node | null): TextNode;
  readonly duplicateKeys: readonly DuplicateKey[];
  failure(): Failure | undefined;
}

function createYamlReader(): YamlReader {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node | undefined>();
  const open = new Set<Node>();
  const budget = createAliasBudget();
  const duplicateKeys: DuplicateKey[] = [];
  const path: (string | number)[] = [];
  let failure: Failure | undefined;

  const fail = (offset: number, message: string): TextNode => {
    failure ??= { offset, message };
    return { value: null, offset };
  };

  function read(node: Node | null): TextNode {
    const offset = startOf(node);
    if (failure || node === null) return { value: null, offset };
    if (path.length > MAX_DEPTH) return fail(offset, TOO_DEEP);
    if (!budget.spend()) return fail(offset, 'document contains excessive aliasing');
    if (isAlias(node)) return expand(node, offset);
    if (node.anchor && !budget.expanding()) anchors.set(node.anchor, node);
    open.add(node);
    const result = readContent(node, offset);
    open.delete(node);
    return result;
  }

  function readContent(node: Node, offset: number): TextNode {
    if (isScalar(node)) return readScalar(node, offset);
    if (isMap<Node, Node | null>(node)) return objectNode(offset, membersOf(node.items));
    const items = isSeq<Node | null>(node) ? node.items : [];
    return listNode(
      offset,
      items.map((item, index) => below(index, item)),
    );
  }

  function below(step: string | number, node: Node | null): TextNode {
    path.push(step);
    const result = read(node);
    path.pop();
    return result;
  }

  /** What the alias stands for; of several anchors with its name the last one before it. */
  function expand(alias: Alias, offset: number): TextNode {
    if (!targets.has(alias)) targets.set(alias, anchors.get(alias.source));
    const target = targets.get(alias);
    if (!target) return fail(offset, `unknown anchor '${alias.source}' referenced`);
    if (open.has(target)) return fail(offset, `anchor '${alias.source}' value contains itself`);
    return budget.within(() => read(target));
  }

  function readScalar(node: Scalar, offset: number): TextNode {
    const value = valueOf(node);
    if (value === undefined) return fail(offset, wrongTag(node));
    if (typeof value === 'number' && !Number.isFinite(value)) return fail(offset, `unsupported value: ${value}`);
    return { value, offset };
  }

  function membersOf(pairs: readonly Pair<Node, Node | null>[]): Map<string, Member> {
    const members = new Map<string, Member>();
    for (const { key, value } of pairs) {
      const keyOffset = startOf(key);
      if (isMergeKey(key)) merge(members, value);
      else {
        const name = readKey(key);
        if (name === undefined) break;
        if (members.has(name) && !budget.expanding()) duplicateKeys.push({ path: [...path, name], offset: keyOffset });
        members.set(name, { keyOffset, node: below(name, value) });
      }
    }
    return members;
  }

  function readKey(key: Node): string | undefined {
    const offset = startOf(key);
    const value = isScalar(key) ? valueOf(key) : read(key).value;
    const name = isScalarValue(value) ? printKey(value) : undefined;
    if (name === undefined) fail(offset, 'unsupported map key');
    return name;
  }

  /** Adds the members that `<<` brings. As with kubectl they win over earlier keys; of several maps the first wins. */
  function merge(members: Map<string, Member>, value: Node | null): void {
    const source = below('<<', value);
    for (const node of source.items?.toReversed() ?? [source]) {
      if (!node.members) fail(node.offset, 'map merge requires map or sequence of maps as the value');
      for (const [name, member] of node.members ?? []) members.set(name, member);
    }
  }

  return { read, duplicateKeys, failure: () => failure };
}

function startOf(node: Node | null): number {
  return node?.range?.[0] ?? 0;
}

/** What a scalar says, or `undefined` if its text does not fit its tag. */
function valueOf(node: Scalar): ScalarValue | undefined {
  const text = String(node.source);
  if (node.tag !== undefined) return resolveTagged(node.tag, text);
  return node.type === 'PLAIN' ? resolvePlain(text) : text;
}

function isMergeKey(key: Node): boolean {
  return isScalar(key) && key.source === '<<' && key.type === 'PLAIN' && (key.tag ?? MERGE_TAG) === MERGE_TAG;
}

const MERGE_TAG = 'tag:yaml.org,2002:merge';

function isScalarValue(value: unknown): value is ScalarValue {
  return value === null || typeof value !== 'object';
}

function wrongTag({ source, tag = '' }: Scalar): string {
  return `cannot decode !!str \`${String(source)}\` as a ${tag.replace(/^tag:yaml\.org,2002:/, '!!')}`;
}

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
interface DuplicateKeyPosition extends Position {
  readonly path: Path;
}

/** What could not be read, and where. */
interface ManifestError extends Position {
  readonly file: string;
  readonly message: string;
}

/** One document of a text, or why it cannot be read, and how much of the text has been read with it, from 0 to 1. */
interface Step {
  readonly document?: ManifestDocument;
  readonly error?: ManifestError;
  readonly share: number;
}

/** Splits a text into its documents and reads each by itself. */
function* readSteps(text: string, file: string): Generator<Step, void> {
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

/** The path that stands for the standard input, and its name in messages. */
const STDIN = { path: '-', name: 'stdin' } as const;

/** A larger file is no manifest, and would not fit into memory several times. */
const MAX_FILE_BYTES = 256 * 1024 * 1024;

const EXTENSIONS = /\.(?:ya?ml|json)$/i;

/**
 * The files that the paths name, each once. A folder gives its .yaml, .yml and .json files, those of subfolders too,
 * sorted by name; nothing hidden, and no folders behind symbolic links.
 * @throws {UserError} for a path that does not exist, and for a folder without manifests
 */
async function listManifestFiles(paths: readonly string[]): Promise<string[]> {
  const files = new Map<string, string>();
  for (const path of paths) {
    for (const file of await filesAt(path)) {
      const identity = file === STDIN.path ? file : resolve(file);
      if (!files.has(identity)) files.set(identity, file);
    }
  }
  return [...files.values()];
}

async function filesAt(path: string): Promise<string[]> {
  if (path === STDIN.path) return [path];
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const found = await filesBelow(path);
    if (found.length > 0) return found;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw new UserError(`the path "${path}" does not exist`, { cause: error });
    if (codeOf(error) !== undefined)
      throw new UserError(`cannot read ${path}: ${failureReason(error)}`, { cause: error });
    throw error;
  }
  throw new UserError(`no .yaml, .yml or .json file in ${path}`);
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const found: string[] = [];
  for (const entry of entries.sort((a, b) => compareBytes(a.name, b.name))) {
    const path = join(folder, entry.name);
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) for (const file of await filesBelow(path)) found.push(file);
    else if (EXTENSIONS.test(entry.name) && (entry.isFile() || (await linksToFile(path)))) found.push(path);
  }
  return found;
}

/** A link that leads nowhere counts as a file, so that it is reported when it is read. */
async function linksToFile(path: string): Promise<boolean> {
  return await stat(path).then(
    (target) => target.isFile(),
    () => true,
  );
}

/** The text of a file, or why it has none and where. */
type FileText = { readonly text: string } | (Position & { readonly message: string });

interface TextOptions {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  /** Stops the reading when it is aborted. */
  readonly signal?: AbortSignal;
}

/**
 * Reads a file, or the standard input for `-`. A file that cannot be read gives a message, so that others go on.
 * Rejects when the signal is aborted.
 */
async function readManifestText(path: string, { stdin, signal }: TextOptions): Promise<FileText> {
  try {
    const stream = path === STDIN.path ? stdin : (await openRegularFile(path)).createReadStream();
    // The other end of a pipe may stay silent for ever.
    if (signal && stream instanceof Readable) addAbortSignal(signal, stream);
    const bytes = await readBytes(stream);
    return bytes === undefined ? problem(`larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB`) : decode(bytes);
  } catch (error) {
    if (signal?.aborted || codeOf(error) === undefined) throw error;
    if (codeOf(error) === NOT_REGULAR) return problem('not a regular file; use - to read the standard input');
    return problem(failureReason(error));
  }
}

async function readBytes(stream: AsyncIterable<unknown>): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : Buffer.from(chunk as Uint8Array);
    length += bytes.length;
    if (length > MAX_FILE_BYTES) return undefined;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

function decode(bytes: Buffer): FileText {
  const text = bytes.toString('utf8');
  if (isUtf8(bytes)) return { text };
  const position = createLineIndex(text)(Math.max(text.indexOf('\ufffd'), 0));
  return { ...position, message: 'not a text file in UTF-8' };
}

function problem(message: string): FileText {
  return { message, line: 1, column: 1 };
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** An object of the Kubernetes API in a document: the whole, or an item of a list. */
export interface ManifestObject extends Position {
  readonly document: ManifestDocument;
  /** Where the object lies in the document; empty for the whole. */
  readonly path: Path;
  readonly apiVersion: string;
  readonly kind: string;
  readonly value: JsonObject;
  /** Where a field of the object begins, or its nearest parent that exists. */
  positionOf(path: Path): Position;
}

interface ManifestObjects {
  readonly objects: readonly ManifestObject[];
  readonly errors: readonly ManifestError[];
}

/** The objects of a document, lists taken apart; what is no object of the Kubernetes API is an error. */
export function manifestObjects(document: ManifestDocument): ManifestObjects {
  const objects: ManifestObject[] = [];
  const errors: ManifestError[] = [];

  function add(value: unknown, path: Path, inherited: TypeMeta): void {
    const type = typeMetaOf(value, inherited);
    if ('message' in type) {
      errors.push({ file: document.file, ...document.positionOf([...path, ...type.path]), message: type.message });
      return;
    }
    const items = type.kind.endsWith('List') ? type.value.items : undefined;
    if (Array.isArray(items)) {
      const itemType = type.kind === 'List' ? {} : { apiVersion: type.apiVersion, kind: type.kind.slice(0, -4) };
      items.forEach((item, index) => add(item, [...path, 'items', index], itemType));
    } else objects.push(createObject(document, path, type));
  }

  add(document.value, [], {});
  return { objects, errors };
}

/** What the items of a `PodList` are, which the API server does not repeat in each. */
interface TypeMeta {
  readonly apiVersion?: string;
  readonly kind?: string;
}

/** An object with its type, or what is wrong with it and where. */
type Typed =
  | { readonly apiVersion: string; readonly kind: string; readonly value: JsonObject }
  | { readonly path: Path; readonly message: string };

function typeMetaOf(value: unknown, inherited: TypeMeta): Typed {
  if (!isObject(value)) return { path: [], message: 'expected an object with apiVersion and kind' };
  const { apiVersion, kind } = value.apiVersion == null && value.kind == null ? inherited : value;
  if (kind == null || kind === '') return { path: [], message: "Object 'Kind' is missing" };
  if (apiVersion == null || apiVersion === '') return { path: [], message: "Object 'apiVersion' is missing" };
  if (typeof kind !== 'string') return { path: ['kind'], message: 'kind must be a string' };
  if (typeof apiVersion !== 'string') return { path: ['apiVersion'], message: 'apiVersion must be a string' };
  return { apiVersion, kind, value: value.kind == null ? { ...value, apiVersion, kind } : value };
}

function createObject(
  document: ManifestDocument,
  path: Path,
  typed: Pick<ManifestObject, 'apiVersion' | 'kind' | 'value'>,
): ManifestObject {
  return {
    ...typed,
    document,
    path,
    ...document.positionOf(path),
    positionOf: (below) => document.positionOf([...path, ...below]),
  };
}

// * Manifests: YAML or JSON as kubectl reads it, with the place of every field.
//
// Only here and in the folder beside it the YAML library is known. What is read is unknown data: nothing here knows a kind.

/** Everything that a text holds; a document that cannot be read is among the errors and does not hide the others. */
interface Documents {
  readonly documents: readonly ManifestDocument[];
  readonly errors: readonly ManifestError[];
}

/** Reads a stream of YAML documents or JSON values; `file` is for messages. Empty documents are left out. */
export function readDocuments(text: string, file: string): Documents {
  const steps = [...readSteps(text, file)];
  return {
    documents: steps.flatMap(({ document }) => document ?? []),
    errors: steps.flatMap(({ error }) => error ?? []),
  };
}

/** The objects of several files, in order. */
export interface Manifests extends Documents, ManifestObjects {}

interface ReadOptions extends TextOptions {
  /** Called at each percent of each file. */
  readonly onProgress?: (progress: ReadProgress) => void;
}

/** The file that is read now, the number of the file among all, and how much of it has been read. */
interface ReadProgress {
  readonly file: string;
  readonly number: number;
  readonly files: number;
  readonly percent: number;
}

/**
 * Reads all objects from files, folders and, for `-`, the standard input.
 * @throws {UserError} for a path that does not exist, and for a folder without manifests
 */
export async function readManifests(paths: readonly string[], options: ReadOptions): Promise<Manifests> {
  const found: Found = { documents: [], objects: [], errors: [] };
  const files = await listManifestFiles(paths);
  for (const [index, path] of files.entries()) {
    const file = path === STDIN.path ? STDIN.name : path;
    const onPercent = async (percent: number): Promise<void> => {
      options.onProgress?.({ file, number: index + 1, files: files.length, percent });
      // Reading is work without pause: let signals in.
      await setImmediate(undefined, options.signal ? { signal: options.signal } : {});
    };
    await onPercent(0);
    const content = await readManifestText(path, options);
    if ('message' in content) found.errors.push({ file, ...content });
    else await readInto(found, readSteps(content.text, file), onPercent);
  }
  return found;
}

/** What has been found so far. */
interface Found {
  readonly documents: ManifestDocument[];
  readonly objects: ManifestObject[];
  readonly errors: ManifestError[];
}

async function readInto(
  found: Found,
  steps: Iterable<Step>,
  onPercent: (percent: number) => Promise<void>,
): Promise<void> {
  let last = 0;
  for (const { document, error, share } of steps) {
    if (error) found.errors.push(error);
    if (document) {
      const { objects, errors } = manifestObjects(document);
      found.documents.push(document);
      for (const object of objects) found.objects.push(object);
      for (const one of errors) found.errors.push(one);
    }
    const percent = Math.floor(share * 100);
    if (percent > last) await onPercent((last = percent));
  }
}

/** Texts that kubectl would not read as texts if they were not quoted, and some others. */
const AMBIGUOUS = {
  tag: '!ambiguous',
  default: true,
  test: /^(?:[-+.~\d].*|<<|null|y|yes|n|no|true|false|on|off)$/is,
  resolve: (text: string) => text,
} as const;

/** Texts of several lines stand as they are: of folded ones with indented lines kubectl reads other texts. */
const MANIFESTS_OPTIONS = { compat: [AMBIGUOUS], aliasDuplicateObjects: false, blockQuote: 'literal' as const };

/** Writes values as YAML documents, one after the other, such that kubectl reads the same values. */
export function printYaml(values: readonly unknown[]): string {
  return values.map((value) => stringify(value, MANIFESTS_OPTIONS)).join('---\n');
}
