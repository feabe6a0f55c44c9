/**
 * Changes values in YAML and JSON text. All text outside the changed fields is unchanged, including comments, order,
 * quotes, white space and other documents.
 */
import { parseAllDocuments, isAlias, isMap, isScalar, isSeq, type Node } from 'yaml';
import { deepEqual } from '../kube/equality.ts';
import { findSimilar, quote } from '../kube/text.ts';
import { withValueAt, isObject, type JsonObject } from '../kube/types.ts';
import {
  AMBIGUOUS,
  type Layout,
  readLayout,
  Refusal,
  columnAt,
  endOf,
  lineStart,
  type Mapping,
  type Member,
  nextLine,
  printFlowMember,
  printInline,
  printLike,
  printMember,
  printMembers,
  type Sequence,
  startOf,
} from './yaml-layout.ts';
import { type ManifestDocument, type Path, READ_OPTIONS, readDocuments } from './yaml.ts';

/** A new value of a field. It shares unchanged parts with the old value. */
export interface FieldValue {
  readonly document: ManifestDocument;
  readonly path: Path;
  readonly value: unknown;
}

/**
 * The result of applying the possible changes, and the reasons why the remaining changes are not possible, by index.
 */
interface Rewritten {
  readonly text: string;
  /** The changes to whole lines, in order. They do not overlap. */
  readonly changedLines: readonly Splice[];
  readonly refusals: ReadonlyMap<number, string>;
}

/** Writes new field values into a text. No field in the list may contain another field in the list. */
export function rewrite(text: string, values: readonly FieldValue[]): Rewritten {
  const refusals = new Map<number, string>();
  const parts = Map.groupBy(values.entries(), ([, { document }]) => document.source.start);
  const splices = [...parts.values()].flatMap((entries) => rewritePart(text, entries, refusals));
  return { text: applySplices(text, splices), changedLines: extendToLines(text, splices), refusals };
}

type Entry = readonly [index: number, value: FieldValue];

/** Returns the splices for the changes in one part of the text, and records the refusals. */
function rewritePart(text: string, entries: readonly Entry[], refusals: Map<number, string>): readonly Splice[] {
  const { start = 0, end = 0 } = entries[0]?.[1].document.source ?? {};
  const part = text.slice(start, end);
  const lineAt = (offset: number): number => text.slice(0, start + offset).split('\n').length;
  // Reads the layout of each document only once, because reading it visits the whole document.
  const layouts = parseAllDocuments(part, READ_OPTIONS).map((document) => readLayout(part, document, lineAt));
  const results = entries.map((entry) => ({ entry, splices: findSplices(layouts, entry[1]) }));
  const found = results.flatMap(({ entry, splices }) => (typeof splices === 'string' ? [] : [{ entry, splices }]));
  const accepted = verifyChanges(part, found);
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
  layouts: readonly Layout[],
  { document: { value: before }, path, value }: FieldValue,
): readonly Splice[] | string {
  try {
    const [layout] = layouts;
    if (layout === undefined) return AMBIGUOUS;
    return changeNode(layout.contents, before, withValueAt(before, path, value), layout);
  } catch (error) {
    if (error instanceof Refusal) return error.message;
    throw error;
  }
}

interface Change {
  readonly entry: Entry;
  readonly splices: readonly Splice[];
}

/** Maximum number of times that the changes in a document are verified, because each time parses the document. */
const MAX_VERIFICATIONS = 50;

/**
 * Returns the changes after which the text parses to exactly the new values. If one of the changes is not possible,
 * verifies halves of the list to find it.
 */
function verifyChanges(part: string, changes: readonly Change[]): readonly Change[] {
  const { length: errorCount } = readDocuments(part, '').errors;
  let verifications = 0;
  const verify = (accepted: readonly Change[], rest: readonly Change[]): readonly Change[] => {
    if (rest.length === 0 || ++verifications > MAX_VERIFICATIONS) return accepted;
    const all = [...accepted, ...rest];
    if (readsAs(part, all, errorCount)) return all;
    if (rest.length === 1) return accepted;
    const middle = Math.floor(rest.length / 2);
    return verify(verify(accepted, rest.slice(0, middle)), rest.slice(middle));
  };
  return verify([], changes);
}

/** Returns true if the changed text parses to exactly the new values, without additional errors. */
function readsAs(part: string, changes: readonly Change[], errorCount: number): boolean {
  const [first] = changes;
  const expected = changes.reduce<unknown>(
    (document, { entry: [, { path, value }] }) => withValueAt(document, path, value),
    first?.entry[1].document.value,
  );
  const changed = applySplices(
    part,
    changes.flatMap(({ splices }) => splices),
  );
  const { documents, errors } = readDocuments(changed, '');
  return errors.length <= errorCount && deepEqual(documents[0]?.value, expected);
}

function applySplices(text: string, splices: readonly Splice[]): string {
  let result = '';
  let position = 0;
  for (const { start, end, text: inserted } of sortSplices(splices)) {
    result += text.slice(position, start) + inserted;
    position = end;
  }
  return result + text.slice(position);
}

/** Extends splices to whole lines, and combines the splices in the same lines. */
function extendToLines(text: string, splices: readonly Splice[]): readonly Splice[] {
  const groups: { readonly start: number; end: number; readonly splices: Splice[] }[] = [];
  for (const splice of sortSplices(splices)) {
    const [start, end] = [lineStart({ text }, splice.start), nextLine({ text }, splice.end)];
    const last = groups.at(-1);
    if (last === undefined || start >= last.end) groups.push({ start, end, splices: [splice] });
    else {
      last.end = Math.max(last.end, end);
      last.splices.push(splice);
    }
  }
  return groups.map(({ start, end, splices: own }) => {
    const moved = own.map((splice) => ({ ...splice, start: splice.start - start, end: splice.end - start }));
    return { start, end, text: applySplices(text.slice(start, end), moved) };
  });
}

/** Sorts splices by their offsets. At the same offset, insertions precede replacements. */
function sortSplices(splices: readonly Splice[]): readonly Splice[] {
  return splices.toSorted((a, b) => a.start - b.start || a.end - b.end);
}

/** A replacement of a range of text. */
export interface Splice {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

type Splices = readonly Splice[];

/** Returns the splices that change the value of a node. */
function changeNode(node: Node | null, before: unknown, after: unknown, layout: Layout): Splices {
  if (before === after || deepEqual(before, after)) return [];
  refuseShared(node, layout);
  if (isMap<Node, Node | null>(node) && isObject(before) && isObject(after)) {
    return changeMap(node, before, after, layout);
  }
  if (isSeq<Node | null>(node) && Array.isArray(before) && Array.isArray(after)) {
    return changeList(node, before, after, layout);
  }
  if (!isScalar(node) || !node.range) throw new Refusal(AMBIGUOUS);
  return [{ start: node.range[0], end: node.range[1], text: printInline(layout, after) }];
}

function refuseShared(node: Node | null, layout: Layout): void {
  const name = isAlias(node) ? node.source : node?.anchor;
  if (name === undefined || !layout.referenced.has(name)) return;
  throw new Refusal(
    `${printAnchor(name, node, layout)} is also used for other fields: replace its aliases with copies`,
  );
}

/** Formats the last anchor with the given name before the end of the node as `the anchor "x" on line 3`. */
function printAnchor(name: string, node: Node | null, { text, lineAt }: Layout): string {
  let offset = node?.range?.[1] ?? text.length;
  do offset = text.lastIndexOf(`&${name}`, offset - 1);
  while (offset > 0 && /[\w-]/.test(text.charAt(offset + name.length + 1)));
  return `the anchor ${quote(name)} on line ${lineAt(offset)}`;
}

function changeMap(node: Mapping, before: JsonObject, after: JsonObject, layout: Layout): Splices {
  const members = Map.groupBy(node.items, ({ key }) => (isScalar(key) ? String(key.value) : ''));
  const changed: Splice[] = [];
  const removed = new Set<Member>();
  const inserted: (readonly [key: string, value: unknown])[] = [];
  const column = (): number => columnAt(layout, startOf(node));
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [was, is] = [before[key], after[key]];
    if (was === is || deepEqual(was, is)) continue;
    const own = members.get(key);
    if (own === undefined) {
      if (was !== undefined) throw new Refusal(mergeMessage(node, layout));
      inserted.push([key, is]);
    } else if (is === undefined) for (const member of own) removed.add(member);
    else changed.push(...changeMember({ parent: node, member: own.at(-1), was, is }, layout));
  }
  // A renamed field keeps its position, comments and style.
  const added = inserted.filter(([key, is]) => {
    const name = findSimilar(
      key,
      [...members.keys()].filter((other) => after[other] === undefined),
    );
    const [member, ...others] = (name !== undefined && members.get(name)) || [];
    if (name === undefined || !member?.key.range || others.length > 0 || !removed.delete(member)) return true;
    const [start, end] = member.key.range;
    changed.push({ start, end, text: printLike(layout, member.key, key) });
    changed.push(...changeMember({ parent: node, member, was: before[name], is }, layout));
    return false;
  });
  if (removed.size === node.items.length && removed.size > 0) {
    const isBlock = node.flow !== true && added.length > 0;
    const lines = isBlock ? printMembers(layout, after, column()) : [printInline(layout, after)];
    return [...changed, replace(node, lines.join(layout.eol).trimStart())];
  }
  if (node.flow === true) {
    const printed = added.map(([key, value]) => printFlowMember(layout, node, key, value));
    return [...changed, ...changeFlow(node, removed, printed, layout)];
  }
  const lines = added.flatMap(([key, value]) => printMember(layout, key, value, column()));
  return [
    ...changed,
    ...removeMembers(node, removed, layout),
    ...(lines.length === 0 ? [] : [insertLines(nextLine(layout, endOf(node)), lines, layout)]),
  ];
}

interface MemberChange {
  readonly parent: Mapping;
  readonly member: Member | undefined;
  readonly was: unknown;
  readonly is: unknown;
}

function changeMember({ parent, member, was, is }: MemberChange, layout: Layout): Splices {
  const key = member?.key.range;
  if (!member || !key) throw new Refusal(AMBIGUOUS);
  const { value } = member;
  const isWithoutValue = was === null && (value === null || (isScalar(value) && value.source === ''));
  if (!isWithoutValue) return changeNode(value, was, is, layout);
  refuseShared(value, layout);
  const offset = layout.text.indexOf(':', key[1]) + 1;
  if (parent.flow === true || !isObject(is)) {
    return [{ start: offset, end: offset, text: ` ${printInline(layout, is)}` }];
  }
  const lines = printMembers(layout, is, columnAt(layout, key[0]) + layout.step);
  return [insertLines(nextLine(layout, offset), lines, layout)];
}

function mergeMessage(node: Mapping, layout: Layout): string {
  const merged = node.items.find(({ key }) => isScalar(key) && key.source === '<<')?.value;
  const sources = isSeq(merged) ? merged.items : [merged];
  const names = sources.flatMap((source) => (isAlias(source) ? [printAnchor(source.source, source, layout)] : []));
  return names.length === 0
    ? AMBIGUOUS
    : `the field is merged from ${names.join(', ')}, which other fields also use: replace the merge key with a copy`;
}

function removeMembers({ items }: Mapping, removed: ReadonlySet<Member>, layout: Layout): Splices {
  const keyOf = (member: Member | undefined): number => member?.key.range?.[0] ?? 0;
  // The first field of a list item follows `- `.
  const isInline = (member: Member | undefined): boolean =>
    /\S/.test(layout.text.slice(lineStart(layout, keyOf(member)), keyOf(member)));
  const first = items.findIndex((member) => !removed.has(member));
  const isFirstInline = isInline(items[0]);
  return items.flatMap((member, index) => {
    if (!removed.has(member) || (isFirstInline && index > 0 && index < first)) return [];
    if (!isFirstInline || index > first)
      return [removeLines(lineStart(layout, keyOf(member)), nextLine(layout, endOf(member)), layout)];
    // The first remaining field moves to the first line, with the comments on the lines before it.
    const comments = items
      .slice(0, first)
      .map((item, before) => layout.text.slice(nextLine(layout, endOf(item)), keyOf(items[before + 1])));
    return [{ start: keyOf(member), end: keyOf(items[first]), text: comments.join('').trimStart() }];
  });
}

/**
 * Aligns two lists. Detects changed items in lists of equal length, removed items, items with corrected spelling next
 * to removed items, and items appended at the end.
 */
function changeList(node: Sequence, before: readonly unknown[], after: readonly unknown[], layout: Layout): Splices {
  if (node.items.length !== before.length) throw new Refusal(AMBIGUOUS);
  const changed: Splice[] = [];
  const removed = new Set<Node | null>();
  let next = 0;
  for (const [index, item] of before.entries()) {
    const child = node.items[index] ?? null;
    if (deepEqual(item, after[next])) next++;
    else if (before.length === after.length || isRespelled(item, after[next]))
      changed.push(...changeNode(child, item, after[next++], layout));
    else removed.add(child);
  }
  const added = after.slice(next);
  if (removed.size === node.items.length) return [...changed, replace(node, printInline(layout, after))];
  if (node.flow === true) {
    const printed = added.map((item) => printLike(layout, node.items[0], item));
    return [...changed, ...changeFlow(node, removed, printed, layout)];
  }
  const indent = (): string => ' '.repeat(columnAt(layout, dash(node.items[0] ?? null, layout)));
  const lines = added.map((item) => `${indent()}- ${printInline(layout, item)}`);
  return [
    ...changed,
    ...Array.from(removed, (item) =>
      removeLines(lineStart(layout, dash(item, layout)), nextLine(layout, endOf(item)), layout),
    ),
    ...(added.length === 0 ? [] : [insertLines(nextLine(layout, endOf(node)), lines, layout)]),
  ];
}

/** Returns true for names, or named objects, that differ only in capitalization, separators and the prefix `CAP_`. */
function isRespelled(before: unknown, after: unknown): boolean {
  if (isObject(before) && isObject(after)) return isRespelled(before['name'], after['name']);
  const [was, is] = [before, after].map((name) =>
    String(name)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]/g, ''),
  );
  return typeof before === 'string' && typeof after === 'string' && (was === is || was === `cap${is}`);
}

/** Returns the offset of the hyphen before a block list item, which may begin on a later line than the hyphen. */
function dash(item: Node | null, layout: Layout): number {
  for (let end = startOf(item); ;) {
    const from = lineStart(layout, end);
    const line = layout.text.slice(from, end);
    const [prefix] = /^ *-(?=\s|$)/.exec(line) ?? [];
    if (prefix !== undefined) return from + prefix.length - 1;
    if (from === 0 || !/^\s*(?:#[^]*)?$/.test(line)) throw new Refusal(AMBIGUOUS);
    end = from - 1;
  }
}

function changeFlow(
  node: Mapping | Sequence,
  removed: ReadonlySet<unknown>,
  added: readonly string[],
  layout: Layout,
): Splices {
  const { text, eol, isCompact } = layout;
  const items: readonly (Member | Node | null)[] = node.items;
  const lastKept = items.findLastIndex((item) => !removed.has(item));
  const last = items[lastKept];
  const cuts = items.flatMap((item, index) =>
    removed.has(item) ? [cutFlowItem(items, index, index > lastKept, layout)] : [],
  );
  const comma = last === undefined ? undefined : endOfComma(last, layout);
  // Without a comma after the last item, the last remaining item must not have one either.
  if (last !== undefined && comma !== undefined && endOfComma(items.at(-1) ?? null, layout) === undefined)
    cuts.push({ start: text.slice(endOf(last), comma).includes('#') ? comma - 1 : endOf(last), end: comma, text: '' });
  if (added.length === 0) return cuts;
  if (last === undefined) return [...cuts, insertion(startOf(node) + 1, added.join(', '))];
  const first = startOf(items[0] ?? null);
  const isMultiLine = text.slice(startOf(node), first).includes('\n');
  const separator = isMultiLine ? `,${eol}${text.slice(lineStart(layout, first), first)}` : isCompact ? ',' : ', ';
  return [...cuts, insertion(endOf(last), added.map((item) => separator + item.replaceAll('\n', eol)).join(''))];
}

/** Returns the offset after the comma that follows a flow collection item, or `undefined` if there is no comma. */
function endOfComma(item: Member | Node | null, { text }: Layout): number | undefined {
  const comma = /\s*(?:#[^\n]*\n\s*)*,/y;
  comma.lastIndex = endOf(item);
  return comma.test(text) ? comma.lastIndex : undefined;
}

/**
 * Removes a flow collection item and its comma. Removes whole lines, with the comment at their end, if they contain
 * nothing else. Comments on other lines remain.
 */
function cutFlowItem(
  items: readonly (Member | Node | null)[],
  index: number,
  isTrailing: boolean,
  layout: Layout,
): Splice {
  const { text } = layout;
  const [previous, item, next] = [items[index - 1], items[index] ?? null, items[index + 1]];
  const [start, end] = [startOf(item), endOfComma(item, layout) ?? endOf(item)];
  const from = lineStart(layout, start);
  const [ending] = /^[^\S\n]*(?:#[^\n]*)?\n/.exec(text.slice(end)) ?? [];
  if (ending !== undefined && text.slice(from, start).trim() === '')
    return { start: from, end: end + ending.length, text: '' };
  const gap = isTrailing
    ? text.slice(previous === undefined ? start : endOf(previous), start)
    : text.slice(end, next === undefined ? end : startOf(next));
  const rest = isTrailing ? gap.trimEnd() : gap.trimStart();
  const space = gap.includes('#') ? 0 : gap.length - rest.length;
  return isTrailing ? { start: start - space, end, text: '' } : { start, end: end + space, text: '' };
}

function insertion(offset: number, text: string): Splice {
  return { start: offset, end: offset, text };
}

/** Inserts lines before the line at the offset. The last line of the text may lack a line break. */
function insertLines(offset: number, lines: readonly string[], { text, eol }: Layout): Splice {
  const isUnterminated = offset === text.length && text[offset - 1] !== '\n';
  return insertion(offset, lines.map((line) => (isUnterminated ? eol + line : line + eol)).join(''));
}

/** Removes whole lines. At the end of a text without a final line break, removes the preceding line break instead. */
function removeLines(from: number, to: number, { text, eol }: Layout): Splice {
  const isUnterminated = to === text.length && text[to - 1] !== '\n';
  return { start: isUnterminated ? Math.max(from - eol.length, 0) : from, end: to, text: '' };
}

function replace(node: Mapping | Sequence, text: string): Splice {
  return { start: startOf(node), end: endOf(node), text };
}
