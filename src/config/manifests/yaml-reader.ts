import { isAlias, isMap, isScalar, isSeq, type Alias, type Node, type Pair, type Scalar } from 'yaml';
import {
  listNode,
  MAX_DEPTH,
  objectNode,
  TOO_DEEP,
  type DuplicateKey,
  type Failure,
  type Member,
  type TextNode,
} from './node.ts';

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

export function createYamlReader(): YamlReader {
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
