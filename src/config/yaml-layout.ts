/**
 * Determines the layout of a YAML or JSON document, which consists of the positions of its nodes and its style, and
 * formats values in this style.
 */
import {
  type Document,
  isCollection,
  isMap,
  isPair,
  isScalar,
  type Node,
  type Pair,
  visit,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { isObject, type JsonObject } from '../kube/types.ts';

export type Member = Pair<Node, Node | null>;
export type Mapping = YAMLMap<Node, Node | null>;
export type Sequence = YAMLSeq<Node | null>;

/** Text and style of a document. */
export interface Layout {
  readonly text: string;
  readonly contents: Node | null;
  readonly eol: string;
  readonly isJson: boolean;
  /** True for JSON without white space. */
  readonly isCompact: boolean;
  /** Indentation of the first nested map, or two spaces if there is none. */
  readonly step: number;
  /** Padding inside the braces of flow maps. */
  readonly pad: string;
  /** Names of the anchors to which aliases refer. */
  readonly referenced: ReadonlySet<string>;
  /** Returns the line number of an offset, for messages. */
  lineAt(offset: number): number;
}

export function readLayout(text: string, document: Document.Parsed, lineAt: Layout['lineAt']): Layout {
  const isJson = /^\s*\{\s*"/.test(text);
  const referenced = new Set<string>();
  visit(document, { Alias: (_key, { source }) => void referenced.add(source) });
  return {
    text,
    contents: document.contents,
    eol: /\r?\n/.exec(text)?.[0] ?? '\n',
    isJson,
    isCompact: isJson && !/":\s/.test(text),
    step: findStep(text, document),
    pad: /\{["\w]/.test(text) && !/\{ ["\w]/.test(text) ? '' : ' ',
    referenced,
    lineAt,
  };
}

function findStep(text: string, document: Document.Parsed): number {
  let step = 2;
  const column = (node: Node | undefined): number => columnAt({ text }, node?.range?.[0] ?? 0);
  visit(document, {
    Pair(_key, { key, value }) {
      if (!isMap<Node>(value) || value.flow === true || !isScalar(key)) return undefined;
      step = column(value.items[0]?.key) - column(key);
      return visit.BREAK;
    },
  });
  return step;
}

type Text = Pick<Layout, 'text'>;

/** Returns the offset of the start of a line. */
export function lineStart({ text }: Text, offset: number): number {
  return text.lastIndexOf('\n', offset - 1) + 1;
}

/** Returns the offset of the next line, or the given offset if it is at the start of a line. */
export function nextLine({ text }: Text, offset: number): number {
  if (text[offset - 1] === '\n') return offset;
  const end = text.indexOf('\n', offset);
  return end < 0 ? text.length : end + 1;
}

export function columnAt(layout: Text, offset: number): number {
  return offset - lineStart(layout, offset);
}

/** Error for a value that cannot be changed without changing other fields. */
export class Refusal extends Error {}

export const AMBIGUOUS = 'the YAML does not allow this change without changing other fields';

/** Returns the start of a node, which for a block map is the start of its first key. */
export function startOf(item: Member | Node | null): number {
  const node = isPair<Node, Node | null>(item) ? item.key : item;
  const offset = node?.range?.[0];
  if (offset === undefined) throw new Refusal(AMBIGUOUS);
  return isMap<Node, Node | null>(node) && node.flow !== true ? (node.items[0]?.key.range?.[0] ?? offset) : offset;
}

/** Returns the end of the last scalar in a node, because the range of a collection includes comments. */
export function endOf(item: Member | Node | null): number {
  if (isPair<Node, Node | null>(item)) {
    const end = item.key.range?.[1] ?? 0;
    return item.value?.range ? Math.max(endOf(item.value), end) : end;
  }
  const last = isCollection(item) && item.flow !== true ? item.items.at(-1) : undefined;
  const end = last == null ? item?.range?.[1] : endOf(last as Member | Node);
  if (end === undefined) throw new Refusal(AMBIGUOUS);
  return end;
}

/** Matches words that are strings in YAML 1.1 even without quotes. */
const PLAIN = /^(?!(?:y|yes|n|no|true|false|on|off|null)$)[a-z][\w/-]*$/i;

/** Formats a value on one line. */
export function printInline(layout: Layout, value: unknown): string {
  return layout.isCompact ? JSON.stringify(value) : printFlow(layout, value);
}

function printFlow(layout: Layout, value: unknown): string {
  const { isJson, pad } = layout;
  if (Array.isArray(value)) return `[${value.map((item) => JSON.stringify(item)).join(', ')}]`;
  if (isObject(value)) {
    const members = Object.entries(value).map(
      ([key, member]) => `${isJson ? JSON.stringify(key) : key}: ${printFlow(layout, member)}`,
    );
    return members.length === 0 ? '{}' : `{${pad}${members.join(', ')}${pad}}`;
  }
  return !isJson && typeof value === 'string' && PLAIN.test(value) ? value : JSON.stringify(value);
}

/** Formats a scalar with the same quotes as another scalar. */
export function printLike(layout: Layout, node: Node | null | undefined, value: unknown): string {
  const mark = layout.isJson ? undefined : layout.text[startOf(node ?? null)];
  return mark === '"' || mark === "'" ? mark + String(value) + mark : printInline(layout, value);
}

/** Formats a block map entry as lines. */
export function printMember(layout: Layout, key: string, value: unknown, indent: number): readonly string[] {
  const pad = ' '.repeat(indent);
  return isObject(value) && Object.keys(value).length > 0
    ? [`${pad}${key}:`, ...printMembers(layout, value, indent + layout.step)]
    : [`${pad}${key}: ${printFlow(layout, value)}`];
}

export function printMembers(layout: Layout, value: JsonObject, indent: number): readonly string[] {
  return Object.entries(value).flatMap(([key, member]) => printMember(layout, key, member, indent));
}

/** Formats a flow map entry. In multi-line JSON, all lines but the first are indented like the map's first member. */
export function printFlowMember(layout: Layout, node: Mapping, key: string, value: unknown): string {
  const { text, isJson, isCompact, step } = layout;
  if (!isJson) return `${key}: ${printInline(layout, value)}`;
  const start = startOf(node);
  const first = node.items[0] ? startOf(node.items[0]) : start;
  const isMultiLine = text.slice(start, first).includes('\n');
  if (!isMultiLine) return `${JSON.stringify(key)}:${isCompact ? '' : ' '}${printInline(layout, value)}`;
  const indent = text.slice(lineStart(layout, first), first);
  const unit = indent.includes('\t') ? '\t' : step;
  return `${JSON.stringify(key)}: ${JSON.stringify(value, undefined, unit).replaceAll('\n', `\n${indent}`)}`;
}
