/**
 * Changes of values in YAML and JSON text. All text outside of the changed fields remains as it is: comments, order, quotes,
 * white space and other documents.
 */
import { isAlias, isCollection, isMap, isPair, isScalar, isSeq, parseAllDocuments, visit } from 'yaml';
import type { Document, Node, Pair, YAMLMap, YAMLSeq } from 'yaml';
import { deepEqual } from '../kube/equality.ts';
import { quote } from '../kube/text.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { READ_OPTIONS, readDocuments, type ManifestDocument, type Path } from './yaml.ts';

/** A new value of a field. It shares the unchanged parts with the old value. */
export interface FieldValue {
  readonly document: ManifestDocument;
  readonly path: Path;
  readonly value: unknown;
}

/** A replacement of a part of a text. */
interface Splice {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The reason why a change is impossible without a change of other fields. */
class Refusal extends Error {}

/** The changes of a text that are possible, and the reasons for the others, by their index. */
export interface Rewritten {
  readonly text: string;
  readonly refusals: ReadonlyMap<number, string>;
}

const AMBIGUOUS = 'the form of the YAML does not allow this change without others';

/** Writes new values of fields into a text. No field may contain another one. */
export function rewrite(text: string, values: readonly FieldValue[]): Rewritten {
  const refusals = new Map<number, string>();
  const parts = Map.groupBy(values.entries(), ([, { document }]) => document.source.start);
  const splices = [...parts.values()].flatMap((entries) => rewritePart(text, entries, refusals));
  return { text: applySplices(text, splices), refusals };
}

type Entry = readonly [index: number, value: FieldValue];

/** Returns the splices of the changes in one part of the text, and adds the refusals. */
function rewritePart(text: string, entries: readonly Entry[], refusals: Map<number, string>): readonly Splice[] {
  const { start = 0, end = 0 } = entries[0]?.[1].document.source ?? {};
  const part = text.slice(start, end);
  const documents: Document.Parsed[] = parseAllDocuments(part, READ_OPTIONS);
  // Creating a rewriter visits the whole document.
  const lineAt = (offset: number): number => text.slice(0, start + offset).split('\n').length;
  const rewriters = documents.map((document) => createRewriter(part, document, lineAt));
  const results = entries.map((entry) => ({ entry, splices: findSplices(rewriters, entry[1]) }));
  const found = results.flatMap(({ entry, splices }) => (typeof splices === 'string' ? [] : [{ entry, splices }]));
  const isVerified = readsAs(part, found);
  const accepted = isVerified ? found : found.filter((one) => readsAs(part, [one]));
  const rewritten = new Set(accepted.map(({ entry }) => entry));
  for (const { entry, splices } of results) {
    if (rewritten.has(entry)) continue;
    refusals.set(entry[0], typeof splices === 'string' ? splices : AMBIGUOUS);
  }
  return accepted
    .flatMap(({ splices }) => splices)
    .map((splice) => ({ ...splice, start: splice.start + start, end: splice.end + start }));
}

function findSplices(
  rewriters: readonly ReturnType<typeof createRewriter>[],
  { document: { source, value: before }, path, value }: FieldValue,
): readonly Splice[] | string {
  try {
    return rewriters[source.index]?.(before, withField(before, path, value)) ?? AMBIGUOUS;
  } catch (error) {
    if (error instanceof Refusal) return error.message;
    throw error;
  }
}

/** True if the changed text is read as the documents with the new values, and nothing else. */
function readsAs(
  part: string,
  changes: readonly { readonly entry: Entry; readonly splices: readonly Splice[] }[],
): boolean {
  const expected = new Map<number, unknown>();
  for (const {
    entry: [, { document, path, value }],
  } of changes) {
    const { index } = document.source;
    expected.set(index, withField(expected.get(index) ?? document.value, path, value));
  }
  const changed = applySplices(
    part,
    changes.flatMap(({ splices }) => splices),
  );
  const { documents, errors } = readDocuments(changed, '');
  if (errors.length > readDocuments(part, '').errors.length) return false;
  const read = new Map(documents.map((document) => [document.source.index, document.value]));
  return [...expected].every(([index, value]) => deepEqual(read.get(index), value));
}

/** Returns a copy of a value with another value of one field. Missing objects on the way are created. */
export function withField(value: unknown, [step, ...rest]: Path, field: unknown): unknown {
  if (step === undefined) return field;
  if (typeof step === 'number')
    return Array.isArray(value) ? value.with(step, withField(value[step], rest, field)) : value;
  const object = isObject(value) ? value : {};
  return { ...object, [step]: withField(object[step], rest, field) };
}

/** Splices of one offset are applied in their order; insertions come before a replacement. */
function applySplices(text: string, splices: readonly Splice[]): string {
  let result = '';
  let position = 0;
  for (const { start, end, text: inserted } of splices.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
    result += text.slice(position, start) + inserted;
    position = end;
  }
  return result + text.slice(position);
}

type Member = Pair<Node, Node | null>;
type Mapping = YAMLMap<Node, Node | null>;
type Sequence = YAMLSeq<Node | null>;

/**
 * Returns a function that returns the splices of a change of the document. It throws a `Refusal`. `lineAt` returns the line
 * of an offset for messages.
 */
function createRewriter(text: string, document: Document.Parsed, lineAt: (offset: number) => number) {
  let splices: Splice[] = [];
  const eol = /\r?\n/.exec(text)?.[0] ?? '\n';
  const referenced = new Set<string>();
  visit(document, { Alias: (_key, { source }) => void referenced.add(source) });
  const isJson = /^\s*\{/.test(text);
  const step = findStep(text, document);

  const splice = (start: number, end: number, inserted: string): void =>
    void splices.push({ start, end, text: inserted });
  const lineStart = (offset: number): number => text.lastIndexOf('\n', offset - 1) + 1;
  const nextLine = (offset: number): number => {
    if (text[offset - 1] === '\n') return offset;
    const end = text.indexOf('\n', offset);
    return end < 0 ? text.length : end + 1;
  };
  const column = (offset: number): number => offset - lineStart(offset);

  /** Inserts lines before the line at the offset. The last line of a text may have no line end. */
  const insertLines = (offset: number, lines: readonly string[]): void => {
    const isUnterminated = offset === text.length && text[offset - 1] !== '\n';
    splice(
      offset,
      offset,
      isUnterminated ? lines.map((line) => eol + line).join('') : lines.map((line) => line + eol).join(''),
    );
  };

  /** Removes whole lines. At the end of a text without a last line end, the line end before them is removed. */
  const removeLines = (start: number, end: number): void => {
    const isUnterminated = end === text.length && text[end - 1] !== '\n';
    const before = isUnterminated ? Math.max(start - eol.length, 0) : start;
    splice(before, end, '');
  };

  const change = (node: Node | null, before: unknown, after: unknown): void => {
    if (before === after || deepEqual(before, after)) return;
    refuseShared(node);
    if (isMap<Node, Node | null>(node) && isObject(before) && isObject(after)) changeMap(node, before, after);
    else if (isSeq<Node | null>(node) && Array.isArray(before) && Array.isArray(after)) changeList(node, before, after);
    else if (isScalar(node) && node.range) splice(node.range[0], node.range[1], printInline(after));
    else throw new Refusal(AMBIGUOUS);
  };

  const refuseShared = (node: Node | null): void => {
    const name = isAlias(node) ? node.source : node?.anchor;
    if (name === undefined || !referenced.has(name)) return;
    throw new Refusal(`${printAnchor(name, node)} is used for other fields, too: replace its aliases by copies`);
  };

  /** `the anchor "x" in line 3`: the last one of that name before the end of the node. */
  const printAnchor = (name: string, node: Node | null): string => {
    const offset = text.slice(0, node?.range?.[1]).lastIndexOf(`&${name}`);
    return `the anchor ${quote(name)} in line ${lineAt(offset)}`;
  };

  const changeMap = (node: Mapping, before: JsonObject, after: JsonObject): void => {
    const members = new Map<string, Member[]>();
    for (const member of node.items) {
      const name = isScalar(member.key) ? String(member.key.value) : '';
      members.set(name, [...(members.get(name) ?? []), member]);
    }
    const removed = new Set<Member>();
    const added: [string, unknown][] = [];
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const [was, is] = [before[key], after[key]];
      if (was === is || deepEqual(was, is)) continue;
      const own = members.get(key);
      if (own === undefined) {
        if (was !== undefined) throw new Refusal(mergeMessage(node));
        added.push([key, is]);
      } else if (is === undefined) for (const member of own) removed.add(member);
      else changeMember(node, own.at(-1), was, is);
    }
    if (removed.size === node.items.length && removed.size > 0) {
      const { start, end } = extent(node);
      const isBlock = node.flow !== true && added.length > 0;
      splice(start, end, isBlock ? printMembers(after, column(start)).join(eol).trimStart() : printInline(after));
    } else if (node.flow === true)
      changeFlow(
        node,
        removed,
        added.map(([key, value]) => printFlowMember(node, key, value)),
      );
    else {
      removeMembers(node, removed);
      if (added.length > 0)
        insertLines(
          endLine(node),
          added.flatMap(([key, value]) => printMember(key, value, column(offsetOf(node)))),
        );
    }
  };

  const changeMember = (parent: Mapping, member: Member | undefined, was: unknown, is: unknown): void => {
    const key = member?.key.range;
    if (!member || !key) throw new Refusal(AMBIGUOUS);
    const { value } = member;
    // A key without a value.
    if (was === null && (value === null || (isScalar(value) && value.source === ''))) {
      refuseShared(value);
      const offset = text.indexOf(':', key[1]) + 1;
      if (parent.flow === true || !isObject(is)) splice(offset, offset, ` ${printInline(is)}`);
      else insertLines(nextLine(offset), printMembers(is, column(key[0]) + step));
    } else change(value, was, is);
  };

  const mergeMessage = (node: Mapping): string => {
    const merged = node.items.find(({ key }) => isScalar(key) && key.source === '<<')?.value;
    const sources = isSeq(merged) ? merged.items : [merged];
    const names = sources.flatMap((one) => (isAlias(one) ? [printAnchor(one.source, one)] : []));
    return names.length === 0
      ? AMBIGUOUS
      : `the field is merged from ${names.join(', ')}, which other fields use, too: replace the merge key by a copy`;
  };

  const removeMembers = ({ items }: Mapping, removed: ReadonlySet<Member>): void => {
    const first = items.findIndex((member) => !removed.has(member));
    for (const [index, member] of items.entries()) {
      if (!removed.has(member)) continue;
      const start = member.key.range?.[0] ?? 0;
      const isInline = /\S/.test(text.slice(lineStart(start), start));
      // The members after the first one of an item do not begin after `- `.
      if (isInline) splice(start, items[first]?.key.range?.[0] ?? start, '');
      else if (index > first || !isInlineStart(items[0])) removeLines(lineStart(start), nextLine(endOf(member)));
    }
  };

  const isInlineStart = (member: Member | undefined): boolean => {
    const start = member?.key.range?.[0] ?? 0;
    return /\S/.test(text.slice(lineStart(start), start));
  };

  /** Aligns the lists: items that changed in lists of one length, removed items, and items added at the end. */
  const changeList = (node: Sequence, before: readonly unknown[], after: readonly unknown[]): void => {
    if (node.items.length !== before.length) throw new Refusal(AMBIGUOUS);
    const removed = new Set<Node | null>();
    let next = 0;
    for (const [index, item] of before.entries()) {
      const child = node.items[index] ?? null;
      if (deepEqual(item, after[next])) next++;
      else if (before.length === after.length) change(child, item, after[next++]);
      else removed.add(child);
    }
    const added = after.slice(next);
    if (removed.size === node.items.length) {
      const { start, end } = extent(node);
      splice(start, end, printInline(after));
    } else if (node.flow === true)
      changeFlow(
        node,
        removed,
        added.map((item) => printLike(node.items[0], item)),
      );
    else {
      for (const item of removed) removeLines(lineStart(dash(item)), nextLine(endOf(item)));
      const indent = ' '.repeat(column(dash(node.items[0] ?? null)));
      if (added.length > 0)
        insertLines(
          endLine(node),
          added.map((item) => `${indent}- ${printInline(item)}`),
        );
    }
  };

  /** The offset of the hyphen before an item of a block list. */
  const dash = (item: Node | null): number => {
    const start = offsetOf(item);
    const [prefix] = /^ *-(?=\s)/.exec(text.slice(lineStart(start), start)) ?? [];
    if (prefix === undefined) throw new Refusal(AMBIGUOUS);
    return lineStart(start) + prefix.length - 1;
  };

  const changeFlow = (node: Mapping | Sequence, removed: ReadonlySet<unknown>, added: readonly string[]): void => {
    const items: readonly (Member | Node | null)[] = node.items;
    const lastKept = items.findLastIndex((item) => !removed.has(item));
    const kept = items[lastKept];
    for (const [index, item] of items.slice(0, Math.max(lastKept, 0)).entries())
      if (removed.has(item)) splice(startOf(item), startOf(items[index + 1] ?? null), '');
    if (kept !== undefined && lastKept < items.length - 1) splice(endOf(kept), endOf(items.at(-1) ?? null), '');
    if (added.length === 0) return;
    const { start } = extent(node);
    if (kept === undefined) {
      splice(start + 1, start + 1, added.join(', '));
      return;
    }
    const first = startOf(items[0] ?? null);
    const isMultiLine = text.slice(start, first).includes('\n');
    const separator = isMultiLine ? `,${eol}${text.slice(lineStart(first), first)}` : isCompact ? ',' : ', ';
    splice(endOf(kept), endOf(kept), added.map((one) => separator + one.replaceAll('\n', eol)).join(''));
  };

  /** True for JSON without white space. */
  const isCompact = isJson && !/":\s/.test(text);

  const printFlowMember = (node: Mapping, key: string, value: unknown): string => {
    if (!isJson) return `${key}: ${printInline(value)}`;
    const first = node.items[0] ? startOf(node.items[0]) : extent(node).start;
    const isMultiLine = text.slice(extent(node).start, first).includes('\n');
    if (!isMultiLine) return `${JSON.stringify(key)}:${isCompact ? '' : ' '}${printInline(value)}`;
    const indent = text.slice(lineStart(first), first);
    const unit = indent.includes('\t') ? '\t' : step;
    return `${JSON.stringify(key)}: ${JSON.stringify(value, undefined, unit).replaceAll('\n', `\n${indent}`)}`;
  };

  const pad = /\{["\w]/.test(text) && !/\{ ["\w]/.test(text) ? '' : ' ';
  const printInline = (value: unknown): string => (isCompact ? JSON.stringify(value) : printFlow(value));

  const printFlow = (value: unknown): string => {
    if (Array.isArray(value)) return `[${value.map((item) => JSON.stringify(item)).join(', ')}]`;
    if (isObject(value)) {
      const members = Object.entries(value).map(
        ([key, member]) => `${isJson ? JSON.stringify(key) : key}: ${printFlow(member)}`,
      );
      return members.length === 0 ? '{}' : `{${pad}${members.join(', ')}${pad}}`;
    }
    return !isJson && typeof value === 'string' && PLAIN.test(value) ? value : JSON.stringify(value);
  };

  /** Prints a scalar in the quotes of another. */
  const printLike = (node: Node | null | undefined, value: unknown): string => {
    const mark = isJson ? undefined : text[offsetOf(node ?? null)];
    return mark === '"' || mark === "'" ? mark + String(value) + mark : printInline(value);
  };

  const printMember = (key: string, value: unknown, indent: number): readonly string[] => {
    const pad = ' '.repeat(indent);
    return isObject(value)
      ? [`${pad}${key}:`, ...printMembers(value, indent + step)]
      : [`${pad}${key}: ${printFlow(value)}`];
  };

  const printMembers = (value: JsonObject, indent: number): readonly string[] =>
    Object.entries(value).flatMap(([key, member]) => printMember(key, member, indent));

  /** The offset of a block collection is that of its first key or item. */
  const offsetOf = (node: Node | null): number => {
    const offset = node?.range?.[0];
    if (offset === undefined) throw new Refusal(AMBIGUOUS);
    return isMap<Node, Node | null>(node) && node.flow !== true ? (node.items[0]?.key.range?.[0] ?? offset) : offset;
  };

  const startOf = (item: Member | Node | null): number => (isPair(item) ? offsetOf(item.key) : offsetOf(item));

  /** The end of the last scalar: the range of a collection includes comments. */
  const endOf = (item: Member | Node | null): number => {
    if (isPair<Node, Node | null>(item))
      return item.value?.range ? Math.max(endOf(item.value), item.key.range?.[1] ?? 0) : (item.key.range?.[1] ?? 0);
    const last = isCollection(item) && item.flow !== true ? item.items.at(-1) : undefined;
    if (last != null) return endOf(last as Member | Node);
    const end = item?.range?.[1];
    if (end === undefined) throw new Refusal(AMBIGUOUS);
    return end;
  };

  const endLine = (node: Mapping | Sequence): number => nextLine(endOf(node));
  const extent = (node: Mapping | Sequence) => ({ start: offsetOf(node), end: endOf(node) });

  return (before: unknown, after: unknown): readonly Splice[] => {
    splices = [];
    change(document.contents, before, after);
    return splices;
  };
}

/** The indentation of the first nested map; two spaces if there is none. */
function findStep(text: string, document: Document.Parsed): number {
  let step = 2;
  const column = (node: Node | undefined): number => {
    const offset = node?.range?.[0] ?? 0;
    return offset - text.lastIndexOf('\n', offset - 1) - 1;
  };
  visit(document, {
    Pair(_key, { key, value }) {
      if (!isMap<Node>(value) || value.flow === true || !isScalar(key)) return undefined;
      step = column(value.items[0]?.key) - column(key);
      return visit.BREAK;
    },
  });
  return step;
}

/** Words that are strings in YAML 1.1 without quotes. */
const PLAIN = /^(?!(?:y|yes|n|no|true|false|on|off|null)$)[a-z][\w/-]*$/i;
