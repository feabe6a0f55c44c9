/**
 * Reads the first document in a YAML text in the same way as kubectl, which uses go-yaml v2 and converts the result to
 * JSON.
 * @see https://github.com/yaml/go-yaml/blob/v2.4.4/decode.go
 * @see https://github.com/kubernetes-sigs/yaml/blob/v1.6.0/yaml.go
 */
import { defined } from '../kube/defined.ts';
import { LIMITS } from '../kube/limits.ts';
import { quote } from '../kube/text.ts';
import { createScanner, type Scanner, type Tag, type TokenType, YamlError } from './yaml-scanner.ts';

/** Offsets of a value and its parts in the text. */
export interface Location {
  readonly offset: number;
  readonly members?: Members;
  readonly items?: readonly Location[];
}

export type Members = Map<string, { readonly keyOffset: number; readonly value: Location }>;

export interface ParsedYaml {
  /** Value that JSON can represent. `null` for an empty document. */
  readonly value: unknown;
  /** Location of the value. A field from an alias or a merge key has the position of its anchor. */
  readonly location: Location;
  readonly repetitions: readonly Repetition[];
  /** Offset of text after the document, which kubectl ignores. */
  readonly ignoredFrom?: number;
}

/** A key that occurs more than once in an object. The last value applies. */
export interface Repetition {
  readonly path: readonly (string | number)[];
  /** Offset of the last occurrence. */
  readonly offset: number;
  /** True if the last occurrence is in a merge key, which has a lower priority in many other tools. */
  readonly isMerged?: true;
}

/** Error for text that is nested too deeply. The limit allows consumers of the value to recurse safely. */
export const TOO_DEEP = `nested more than ${LIMITS.yamlNestingLevels} levels deep`;

/**
 * Reads the first document and ignores the text after it. Offsets are relative to a containing text, in which this text
 * starts at `base`.
 * @throws {YamlError} if kubectl rejects the text, or if it exceeds a limit
 */
export function parseYaml(text: string, base = 0): ParsedYaml {
  const source = text.endsWith('\n') ? text : `${text}\n`;
  const scanner = createScanner(source, base);
  const root = parseDocument(scanner);
  if (root === undefined) return { value: null, location: { offset: base }, repetitions: [] };
  const repetitions: Repetition[] = [];
  const { value, location } = createDecoder(repetitions)(root);
  const ignoredFrom = findIgnored(scanner);
  return { value, location, repetitions, ...defined({ ignoredFrom }) };
}

/** Returns the offset of the first token after the end of the document, or `undefined` if there is none. */
function findIgnored({ peek, next }: Scanner): number | undefined {
  try {
    while (peek().type === 'documentEnd') next();
    const { type, offset } = peek();
    return type === 'streamEnd' ? undefined : offset;
  } catch (error) {
    if (error instanceof YamlError) return error.offset;
    throw error;
  }
}

// Nodes

interface ScalarNode {
  readonly kind: 'scalar';
  readonly offset: number;
  readonly value: string;
  /** Tag in its long form, such as `tag:yaml.org,2002:str`. Empty without a tag. */
  readonly tag: string;
  /** True if the content determines the type. */
  readonly isImplicit: boolean;
  /** True if an alias can refer to the node. */
  readonly isAnchored: boolean;
}

interface CollectionNode {
  readonly kind: 'sequence' | 'mapping';
  readonly offset: number;
  /** Items of a sequence, or alternating keys and values of a mapping. */
  readonly children: Node[];
  readonly isAnchored: boolean;
}

interface AliasNode {
  readonly kind: 'alias';
  readonly offset: number;
  readonly name: string;
  readonly target: Node;
}

type Node = ScalarNode | CollectionNode | AliasNode;

const TAG_PREFIX = 'tag:yaml.org,2002:';

function longTag({ handle, suffix }: Tag, offset: number): string {
  if (handle === '!!') return TAG_PREFIX + suffix;
  if (handle === '' || handle === '!') return handle + suffix;
  throw new YamlError(offset, 'found undefined tag handle');
}

/** Tokens after which a document has no content. */
const NO_CONTENT: readonly TokenType[] = ['directive', 'documentStart', 'documentEnd', 'streamEnd'];
const NO_BLOCK_VALUE: readonly TokenType[] = ['key', 'value', 'blockEnd'];
const NO_INDENTLESS_ITEM: readonly TokenType[] = ['blockEntry', ...NO_BLOCK_VALUE];
const NO_BLOCK_ITEM: readonly TokenType[] = ['blockEntry', 'blockEnd'];

function parseDocument(scanner: Scanner): Node | undefined {
  const first = scanner.peek();
  if (first.type === 'streamEnd') return undefined;
  if (first.type === 'directive') throw new YamlError(first.offset, 'did not find expected <document start>');
  if (first.type === 'documentStart') {
    scanner.next();
    if (NO_CONTENT.includes(scanner.peek().type)) return undefined;
  }
  const root = createParser(scanner)();
  // Like go-yaml, reads one token to find the end of the document.
  scanner.peek();
  return root;
}

function createParser({ peek, next }: Scanner): () => Node {
  const anchors = new Map<string, Node>();
  let depth = 0;

  const empty = (offset: number): Node => ({
    kind: 'scalar',
    offset,
    value: '',
    tag: '',
    isImplicit: true,
    isAnchored: false,
  });
  /** Parses a node, or returns an empty node if the next token does not begin a node. */
  const parseUnless = (excluded: readonly TokenType[], offset: number, parse: () => Node): Node =>
    excluded.includes(peek().type) ? empty(offset) : parse();
  const parseBlock = (): Node => parseNode(true, false);
  const parseBlockValue = (): Node => parseNode(true, true);
  const parseFlow = (): Node => parseNode(false, false);

  const parseNode = (isBlock: boolean, allowsIndentless: boolean): Node => {
    if (peek().type === 'alias') {
      const { offset, value: name } = next();
      const target = anchors.get(name) ?? fail(offset, `unknown anchor '${name}' referenced`);
      return { kind: 'alias', offset, name, target };
    }
    let anchor: string | undefined;
    let tag: string | undefined;
    const start = peek().offset;
    for (let token = peek(); ; token = peek()) {
      if (token.type === 'anchor' && anchor === undefined) anchor = token.value;
      else if (token.type === 'tag' && token.tag && tag === undefined) tag = longTag(token.tag, token.offset);
      else break;
      next();
    }
    const isAnchored = anchor !== undefined;
    const define = <N extends Node>(node: N): N => {
      if (anchor !== undefined) anchors.set(anchor, node);
      return node;
    };
    const { type, offset, value, isPlain = false } = peek();
    if (type === 'scalar') {
      next();
      const isImplicit = tag === undefined ? isPlain : tag === '!';
      return define({ kind: 'scalar', offset, value, tag: tag ?? '', isImplicit, isAnchored });
    }
    const collect = (kind: 'sequence' | 'mapping', parse: (children: Node[]) => void): Node => {
      const node = define({ kind, offset, children: [], isAnchored });
      if (depth++ > LIMITS.yamlNestingLevels) fail(offset, TOO_DEEP);
      parse(node.children);
      depth--;
      return node;
    };
    if (type === 'blockEntry' && allowsIndentless) return collect('sequence', parseIndentlessItems);
    if (type === 'flowSequenceStart') return collect('sequence', parseFlowItems);
    if (type === 'flowMappingStart') return collect('mapping', parseFlowMembers);
    if (type === 'blockSequenceStart' && isBlock) return collect('sequence', parseBlockItems);
    if (type === 'blockMappingStart' && isBlock) return collect('mapping', parseBlockMembers);
    if (anchor === undefined && tag === undefined) fail(offset, 'did not find expected node content');
    return define({
      kind: 'scalar',
      offset: start,
      value: '',
      tag: tag ?? '',
      isImplicit: tag === undefined,
      isAnchored,
    });
  };

  const parseIndentlessItems = (items: Node[]): void => {
    while (peek().type === 'blockEntry') items.push(parseUnless(NO_INDENTLESS_ITEM, next().offset, parseBlock));
  };
  const parseBlockItems = (items: Node[]): void => {
    next();
    while (peek().type === 'blockEntry') items.push(parseUnless(NO_BLOCK_ITEM, next().offset, parseBlock));
    if (peek().type !== 'blockEnd') fail(peek().offset, "did not find expected '-' indicator");
    next();
  };
  const parseBlockMembers = (members: Node[]): void => {
    next();
    while (peek().type === 'key') {
      members.push(parseUnless(NO_BLOCK_VALUE, next().offset, parseBlockValue));
      const { type, offset } = peek();
      if (type === 'value') next();
      members.push(type === 'value' ? parseUnless(NO_BLOCK_VALUE, offset, parseBlockValue) : empty(offset));
    }
    if (peek().type !== 'blockEnd') fail(peek().offset, 'did not find expected key');
    next();
  };

  /** Calls `parse` for each entry of a flow collection. */
  const parseEntries = (end: 'flowSequenceEnd' | 'flowMappingEnd', problem: string, parse: () => void): void => {
    next();
    for (let isFirst = true; peek().type !== end; isFirst = false) {
      if (!isFirst) {
        if (peek().type !== 'flowEntry') fail(peek().offset, problem);
        next();
        if (peek().type === end) break;
      }
      parse();
    }
    next();
  };
  const parseFlowItems = (items: Node[]): void => {
    const absent: readonly TokenType[] = ['flowEntry', 'flowSequenceEnd'];
    parseEntries('flowSequenceEnd', "did not find expected ',' or ']'", () => {
      const { type, offset } = peek();
      if (type !== 'key') {
        items.push(parseFlow());
        return;
      }
      next();
      const isEmpty = peek().type === 'value' || absent.includes(peek().type);
      // Like go-yaml, drops the token after an empty key.
      const key = isEmpty ? empty(next().offset) : parseFlow();
      const { type: after } = peek();
      if (after === 'value') next();
      const value = after === 'value' ? parseUnless(absent, offset, parseFlow) : empty(offset);
      items.push({ kind: 'mapping', offset, children: [key, value], isAnchored: false });
    });
  };
  const parseFlowMembers = (members: Node[]): void => {
    const absent: readonly TokenType[] = ['flowEntry', 'flowMappingEnd'];
    parseEntries('flowMappingEnd', "did not find expected ',' or '}'", () => {
      const { type, offset } = peek();
      if (type !== 'key') {
        members.push(parseFlow(), empty(offset));
        return;
      }
      next();
      members.push(parseUnless(['value', ...absent], offset, parseFlow));
      const { type: after } = peek();
      if (after === 'value') next();
      members.push(after === 'value' ? parseUnless(absent, offset, parseFlow) : empty(offset));
    });
  };

  return parseBlock;
}

function fail(offset: number, problem: string): never {
  throw new YamlError(offset, problem);
}

// Values

interface Decoded {
  readonly value: unknown;
  readonly location: Location;
  /** Number of levels below the value. */
  readonly height: number;
  /** Number of nodes that go-yaml decodes for the value. */
  readonly nodes: number;
}

/** Returns the share of nodes that may come from aliases. As in go-yaml, it is lower for large documents. */
function allowedAliasShare(nodes: number): number {
  const low = LIMITS.aliasedNodes;
  const high = low * 10;
  if (nodes <= low) return 0.99;
  return nodes >= high ? 0.1 : 0.99 - (0.89 * (nodes - low)) / (high - low);
}

const WANTS_MAP = 'map merge requires map or sequence of maps as the value';

/** Creates a function that decodes a node. Values of anchors are shared, because they can be large. */
function createDecoder(repetitions: Repetition[]): (node: Node) => Decoded {
  const anchored = new Map<Node, Decoded>();
  const open = new Set<Node>();
  const path: (string | number)[] = [];
  // The document itself counts as a node.
  let nodes = 1;
  let aliased = 0;
  let aliasDepth = 0;

  const count = (more: number, offset: number): void => {
    nodes += more;
    if (aliasDepth > 0) aliased += more;
    if (aliased > 100 && nodes > 1000 && aliased / nodes > allowedAliasShare(nodes))
      fail(offset, 'document contains excessive aliasing');
  };

  const decodeChild = (step: string | number, node: Node): Decoded => {
    path.push(step);
    const decoded = decode(node);
    path.pop();
    return requireFinite(decoded, node.offset);
  };
  const decode = (node: Node): Decoded => {
    if (node.kind === 'alias') return decodeAlias(node);
    const known = anchored.get(node);
    if (known) {
      count(known.nodes, node.offset);
      if (path.length + known.height > LIMITS.yamlNestingLevels) fail(node.offset, TOO_DEEP);
      return known;
    }
    const before = nodes;
    count(1, node.offset);
    const decoded = { ...decodeContent(node), nodes: nodes - before };
    if (node.isAnchored) anchored.set(node, decoded);
    return decoded;
  };
  const decodeAlias = ({ offset, name, target }: AliasNode): Decoded => {
    count(1, offset);
    if (open.has(target)) fail(offset, `anchor '${name}' value contains itself`);
    aliasDepth++;
    const decoded = decode(target);
    aliasDepth--;
    return { ...decoded, nodes: decoded.nodes + 1 };
  };
  const decodeContent = (node: ScalarNode | CollectionNode): Omit<Decoded, 'nodes'> => {
    const { kind, offset } = node;
    if (path.length > LIMITS.yamlNestingLevels) fail(offset, TOO_DEEP);
    if (kind === 'scalar') {
      return { value: decodeScalar(node), location: { offset }, height: 0 };
    }
    open.add(node);
    const decoded = kind === 'sequence' ? decodeItems(node) : decodeMembers(node);
    open.delete(node);
    return decoded;
  };
  const decodeItems = ({ offset, children }: CollectionNode): Omit<Decoded, 'nodes'> => {
    const items = children.map((child, index) => decodeChild(index, child));
    return {
      value: items.map(({ value }) => value),
      location: { offset, items: items.map(({ location }) => location) },
      height: maxHeight(items),
    };
  };
  const decodeMembers = ({ offset, children }: CollectionNode): Omit<Decoded, 'nodes'> => {
    const values = new Map<string, unknown>();
    const members: Members = new Map();
    const explicit = new Set<string>();
    const parts: Decoded[] = [];
    for (let index = 0; index < children.length; index += 2) {
      const [key, child] = [children[index], children[index + 1]];
      if (!key || !child) continue;
      if (isMergeKey(key)) {
        for (const source of mergedNodes(child)) {
          const part = decode(source);
          parts.push(part);
          for (const [name, member] of part.location.members ?? []) {
            if (explicit.has(name)) repetitions.push({ path: [...path, name], offset: key.offset, isMerged: true });
            members.set(name, member);
            values.set(name, (part.value as Readonly<Record<string, unknown>>)[name]);
          }
        }
        continue;
      }
      const name = keyName(decode(key).value, key);
      const part = decodeChild(name, child);
      parts.push(part);
      if (explicit.has(name)) repetitions.push({ path: [...path, name], offset: key.offset });
      explicit.add(name);
      values.set(name, part.value);
      members.set(name, { keyOffset: key.offset, value: part.location });
    }
    return { value: Object.fromEntries(values), location: { offset, members }, height: maxHeight(parts) };
  };

  return (root) => requireFinite(decode(root), root.offset);
}

/** Rejects infinite values and NaN, except as keys. */
function requireFinite(decoded: Decoded, offset: number): Decoded {
  const { value } = decoded;
  if (typeof value === 'number' && !Number.isFinite(value)) fail(offset, `JSON cannot represent ${value}`);
  return decoded;
}

function maxHeight(parts: readonly Decoded[]): number {
  return parts.reduce((most, { height }) => Math.max(most, height + 1), 0);
}

function isMergeKey(node: Node): boolean {
  if (node.kind !== 'scalar' || node.value !== '<<') return false;
  return node.isImplicit || node.tag === `${TAG_PREFIX}merge`;
}

/**
 * Returns the merged mappings in the order in which go-yaml applies them, so the first item of a list takes precedence.
 */
function mergedNodes(node: Node): readonly Node[] {
  const isMapping = (source: Node): boolean => (source.kind === 'alias' ? source.target : source).kind === 'mapping';
  const sources = node.kind === 'sequence' ? node.children.toReversed() : [node];
  const other = sources.find((source) => !isMapping(source));
  if (other) fail(other.offset, WANTS_MAP);
  return sources;
}

/** Returns the JSON name of a key. */
function keyName(value: unknown, node: Node): string {
  const { offset } = node;
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  if (typeof value !== 'number')
    return fail(offset, value === null ? 'a key must not be null' : 'a key must be a string');
  const text = scalarText(node);
  const integer = parseInteger(text);
  if (integer === undefined) return Number.isFinite(value) ? formatFloat32(value) : formatSpecial(value);
  return integer < MAX_INT64 ? String(integer) : fail(offset, `the key ${quote(text)} exceeds 64 bits`);
}

function scalarText(node: Node): string {
  if (node.kind === 'alias') return scalarText(node.target);
  return node.kind === 'scalar' ? node.value : '';
}

function formatSpecial(value: number): string {
  if (Number.isNaN(value)) return '.nan';
  return value > 0 ? '.inf' : '-.inf';
}

/** Formats a number with the precision of a 32-bit number, like Go's `FormatFloat(value, 'g', -1, 32)`. */
function formatFloat32(value: number): string {
  const rounded = Math.fround(value);
  let text = '';
  for (let digits = 1; digits <= 9; digits++) {
    text = rounded.toExponential(digits - 1);
    if (Math.fround(Number(text)) === rounded) break;
  }
  const [mantissa = '', exponent = '0'] = text.split('e');
  const power = Number(exponent);
  if (power >= -4 && power < 6) return Number(text).toString();
  return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

/** Texts of plain scalars that are not strings, by value. */
const CONSTANT_TEXTS: readonly (readonly [value: unknown, texts: string])[] = [
  [true, 'y Y yes Yes YES true True TRUE on On ON'],
  [false, 'n N no No NO false False FALSE off Off OFF'],
  [null, ' ~ null Null NULL'],
  [Number.NaN, '.nan .NaN .NAN'],
  [Infinity, '.inf .Inf .INF +.inf +.Inf +.INF'],
  [-Infinity, '-.inf -.Inf -.INF'],
];
const CONSTANTS: ReadonlyMap<string, unknown> = new Map(
  CONSTANT_TEXTS.flatMap(([value, texts]) => texts.split(' ').map((text) => [text, value] as const)),
);

const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const INTEGER = /^([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))$/;
const TIMESTAMP =
  /^\d{4}-\d{1,2}-\d{1,2}(?:[Tt]\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})| \d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?)?$/;

/** Tags that go-yaml supports. A scalar with any other tag is a string. */
const TYPES: Readonly<Record<string, (value: unknown, text: string) => boolean>> = {
  bool: (value) => typeof value === 'boolean',
  int: (_value, text) => parseInteger(text) !== undefined,
  float: (value) => typeof value === 'number',
  null: (value) => value === null,
  timestamp: (_value, text) => TIMESTAMP.test(text),
};

function decodeScalar({ offset, value: text, tag, isImplicit }: ScalarNode): unknown {
  if (tag === '') return isImplicit ? resolve(text) : text;
  const type = tag.startsWith(TAG_PREFIX) ? tag.slice(TAG_PREFIX.length) : '';
  if (type === 'binary') return decodeBase64(text, offset);
  const isType = Object.hasOwn(TYPES, type) ? TYPES[type] : undefined;
  if (!isType) return text;
  const value = resolve(text);
  if (!isType(value, text)) fail(offset, `cannot decode ${quote(text.slice(0, 100))} as a !!${type}`);
  return type === 'timestamp' ? text : value;
}

function decodeBase64(text: string, offset: number): string {
  const compact = text.replaceAll(/[\r\n]/g, '');
  const bytes = /^[0-9A-Za-z+/]*={0,2}$/.test(compact) && compact.length % 4 === 0 ? atob(compact) : undefined;
  if (bytes === undefined) return fail(offset, '!!binary value contains invalid base64 data');
  return new TextDecoder().decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
}

const MAX_INT64 = 2n ** 63n;

/** Parses an integer. Returns `undefined` for other text, and for integers that Go cannot represent in 64 bits. */
function parseInteger(text: string): bigint | undefined {
  const [, sign = '', hex, binary, octal, decimal] = INTEGER.exec(text.replaceAll('_', '')) ?? [];
  const digits =
    (hex !== undefined && `0x${hex}`) ||
    (binary !== undefined && `0b${binary}`) ||
    (octal !== undefined && `0o${octal}`) ||
    decimal;
  if (digits === undefined) return undefined;
  const size = BigInt(digits);
  if (sign === '-') return size <= MAX_INT64 ? -size : undefined;
  // Go parses unsigned integers only if they have no sign.
  return size < (sign === '+' ? MAX_INT64 : MAX_INT64 * 2n) ? size : undefined;
}

/** Returns the value of a plain scalar. */
function resolve(text: string): unknown {
  if (CONSTANTS.has(text)) return CONSTANTS.get(text);
  if (!/^[-+.0-9]/.test(text)) return text;
  const integer = parseInteger(text);
  if (integer !== undefined) return Number(integer);
  // Go ignores underscores only in numbers that begin with a digit or a sign, and rejects numbers that overflow.
  const plain = text.startsWith('.') ? text : text.replaceAll('_', '');
  const value = FLOAT.test(plain) ? Number(plain) : Infinity;
  return Number.isFinite(value) ? value : text;
}
