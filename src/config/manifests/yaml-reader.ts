import { isAlias, isMap, isScalar, isSeq, type Alias, type Node, type Pair, type Scalar } from 'yaml';
import { createAliasBudget } from './alias-budget.ts';
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
import { printKey, resolvePlain, resolveTagged, type ScalarValue } from './scalar.ts';

/** Reads one document from the nodes of the library; good for one. */
export interface YamlReader {
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
