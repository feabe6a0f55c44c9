/**
 * Plans the allocation of UID blocks and SELinux labels to namespaces, and the content of the RangeAllocation that
 * stores the allocated blocks.
 */
import {
  type IdBlock,
  NAMESPACE_RANGE_ANNOTATIONS,
  parseIdBlock,
  parseIdBlocks,
  type RangeAllocation,
} from '../../kube/scc.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import type { Namespace, Result } from '../../kube/types.ts';
import {
  type BlockRange,
  type Blocks,
  formatBlocks,
  lowestFreeBlock,
  parseBlocks,
  subtractBlocks,
  uniteBlocks,
} from './blocks.ts';
import {
  blockAt,
  blockCount,
  blocksTouching,
  formatBlock,
  formatMcsLabel,
  formatUidRange,
  indexOfBlock,
  isInMcsRange,
  labelAt,
  labelRank,
  parseMcsLabel,
  parseUidRange,
  type RangeSettings,
  type UidRange,
} from './ranges.ts';

const { uidRange: UID_RANGE, supplementalGroups: GROUPS, mcs: MCS } = NAMESPACE_RANGE_ANNOTATIONS;

/** Returns the index of a namespace's block, or `undefined` if its IDs do not match exactly one block of the range. */
function namespaceBlock(namespace: Namespace, range: UidRange): number | undefined {
  const block = parseIdBlock(namespace.metadata?.annotations?.[UID_RANGE] ?? '');
  return 'value' in block ? indexOfBlock(range, block.value) : undefined;
}

/** Returns the blocks of all namespaces. Ignores IDs that do not match exactly one block. */
export function namespaceBlocks(namespaces: readonly Namespace[], range: UidRange): Blocks {
  const indexes = namespaces.map((namespace) => namespaceBlock(namespace, range));
  return uniteBlocks(indexes.flatMap((index) => (index === undefined ? [] : [{ first: index, last: index }])));
}

/**
 * Creates a function that returns the blocks in use. A block is in use if a namespace uses any of its IDs or its label.
 * The function caches its result and reads only the namespaces that have changed since the last call.
 */
function createBlocksInUse(settings: RangeSettings): (namespaces: readonly Namespace[]) => Blocks {
  let seen: readonly Namespace[] = [];
  let inUse: Blocks = [];
  return (namespaces) => {
    if (namespaces === seen) return inUse;
    const isLess =
      namespaces.length < seen.length || seen.some((before, index) => lostRanges(before, namespaces[index]));
    const changed = isLess ? namespaces : namespaces.filter((namespace, index) => namespace !== seen[index]);
    const blocks = changed.flatMap((namespace) => usedBlocks(namespace, settings));
    inUse = uniteBlocks(isLess ? blocks : [...inUse, ...blocks]);
    seen = namespaces;
    return inUse;
  };
}

/** Returns true if the IDs or the label of a namespace were changed or removed. */
function lostRanges(before: Namespace, now: Namespace | undefined): boolean {
  if (before === now) return false;
  const { annotations: old } = before.metadata ?? {};
  const { annotations } = now?.metadata ?? {};
  return [UID_RANGE, MCS].some((key) => old?.[key] !== undefined && old[key] !== annotations?.[key]);
}

function usedBlocks(namespace: Namespace, settings: RangeSettings): readonly BlockRange[] {
  const annotations = namespace.metadata?.annotations ?? {};
  const ids = parseIdBlock(annotations[UID_RANGE] ?? '');
  const byIds = 'value' in ids ? blocksTouching(settings.uidRange, ids.value) : undefined;
  const byLabel = labelBlock(annotations[MCS] ?? '', settings);
  return [byIds, byLabel].filter((blocks) => blocks !== undefined);
}

function labelBlock(text: string, { uidRange, mcsRange, labelsPerBlock }: RangeSettings): BlockRange | undefined {
  const label = parseMcsLabel(text);
  if ('error' in label || !isInMcsRange(mcsRange, label.value)) return undefined;
  const index = Math.floor(labelRank(label.value.categories) / Math.max(1, labelsPerBlock));
  return index < blockCount(uidRange) ? { first: index, last: index } : undefined;
}

/**
 * Creates a function that returns the lowest free block. If possible, it avoids blocks whose IDs or label were set
 * manually on a namespace. It returns `undefined` if no block is free.
 */
export function createAllocator(
  settings: RangeSettings,
): (taken: Blocks, namespaces: readonly Namespace[]) => number | undefined {
  const blocksInUse = createBlocksInUse(settings);
  const count = blockCount(settings.uidRange);
  return (taken, namespaces) =>
    // Manually set IDs might span all blocks.
    lowestFreeBlock(uniteBlocks([...taken, ...blocksInUse(namespaces)]), count) ?? lowestFreeBlock(taken, count);
}

/** The need of a namespace, which is a new block, the missing annotations for its existing block, or nothing. */
type NamespaceNeed = 'block' | { readonly annotations: Readonly<Record<string, string>> } | undefined;

/**
 * Returns what must be added to a namespace. Returns `undefined` if nothing is missing, or if its IDs do not match a
 * block.
 */
export function findMissingRanges(namespace: Namespace, settings: RangeSettings): NamespaceNeed {
  const { annotations = {}, deletionTimestamp } = namespace.metadata ?? {};
  if (deletionTimestamp !== undefined) return undefined;
  if (annotations[UID_RANGE] === undefined) return 'block';
  if (annotations[MCS] !== undefined && annotations[GROUPS] !== undefined) return undefined;
  const block = namespaceBlock(namespace, settings.uidRange);
  return block === undefined ? undefined : { annotations: blockAnnotations(block, namespace, settings) };
}

/** Returns the annotations for a namespace that has the given block. Keeps existing values. */
export function blockAnnotations(
  index: number,
  namespace: Namespace,
  { uidRange: range, mcsRange, labelsPerBlock }: RangeSettings,
): Readonly<Record<string, string>> {
  const present = namespace.metadata?.annotations ?? {};
  const block = formatBlock(blockAt(range, index));
  return {
    [UID_RANGE]: present[UID_RANGE] ?? block,
    [GROUPS]: present[GROUPS] ?? block,
    [MCS]: present[MCS] ?? formatMcsLabel(labelAt(mcsRange, index * Math.max(1, labelsPerBlock))),
  };
}

/**
 * Creates a function that adds to a namespace the annotations that it would get if SCCs were enforced. Only namespaces
 * that enforce SCCs get ranges, so report mode and previews need this function.
 */
export function createRangePreview(
  getSettings: () => RangeSettings,
): (namespace: Namespace, all: readonly Namespace[]) => Namespace {
  let settings = getSettings();
  let allocate = createAllocator(settings);
  return (namespace, all) => {
    if (settings !== getSettings()) allocate = createAllocator((settings = getSettings()));
    const missing = findMissingRanges(namespace, settings);
    if (missing === undefined) return namespace;
    const { metadata } = namespace;
    const added =
      missing === 'block' ? blockAnnotations(allocate([], all) ?? 0, namespace, settings) : missing.annotations;
    return { ...namespace, metadata: { ...metadata, annotations: { ...metadata?.annotations, ...added } } };
  };
}

/** Name of the object that stores the allocated blocks. */
export const RANGE_ALLOCATION_NAME = 'scc-uid';

/** Parses the allocated blocks. Returns an error if the object is invalid or has a different range. */
export function readState(object: RangeAllocation, range: UidRange): Result<Blocks> {
  const expected = formatUidRange(range);
  if (object.range !== expected) {
    return { error: `conflicting UID range; expected ${expected}, got ${object.range ?? ''}` };
  }
  const taken = parseBlocks(object.data ?? '');
  return taken ? { value: taken } : { error: `data of RangeAllocation ${quote(RANGE_ALLOCATION_NAME)} is not base64` };
}

export function formatState(range: UidRange, taken: Blocks): Required<Pick<RangeAllocation, 'range' | 'data'>> {
  return { range: formatUidRange(range), data: formatBlocks(taken) };
}

/** Returns the blocks of the range that overlap the blocks in a RangeAllocation, which may have a different range. */
export function recordedBlocks(object: RangeAllocation, range: UidRange): Blocks {
  const recorded = parseUidRange(object.range ?? '');
  if ('error' in recorded) return [];
  const count = blockCount(recorded.value);
  const blocks = parseBlocks(object.data ?? '') ?? [];
  return uniteBlocks(
    blocks.flatMap(({ first, last }) => {
      const { min } = blockAt(recorded.value, first);
      const { max } = blockAt(recorded.value, Math.min(last, count - 1));
      return blocksTouching(range, { min, max }) ?? [];
    }),
  );
}

/** Allocated blocks that belong to no namespace, by the time in milliseconds when they were found. */
export type Orphans = ReadonlyMap<number, Blocks>;

interface RepairInput {
  readonly range: UidRange;
  readonly namespaces: readonly Namespace[];
  /** The stored RangeAllocation. Absent if it does not exist. */
  readonly state: RangeAllocation | undefined;
  readonly orphans: Orphans;
  readonly nowMs: number;
}

interface Repair {
  readonly taken: Blocks;
  readonly orphans: Orphans;
}

/** Time for which an allocated block is reserved for a namespace that has not been annotated yet. */
export const ORPHANED_MS = 5 * 60_000;

/**
 * Computes the allocated blocks. These are the blocks of namespaces and the blocks that may soon belong to a namespace.
 */
export function planRepair({ range, namespaces, state, orphans: known, nowMs }: RepairInput): Repair {
  const used = namespaceBlocks(namespaces, range);
  // If the object was deleted, other replicas may still annotate namespaces with blocks that they have already taken.
  const recorded = state ? recordedBlocks(state, range) : uniteBlocks([...known.values()].flat());
  let unused = subtractBlocks(recorded, used);
  const orphans = new Map<number, Blocks>();
  for (const [sinceMs, blocks] of known) {
    const others = subtractBlocks(unused, blocks);
    const remaining = subtractBlocks(unused, others);
    if (nowMs - sinceMs < ORPHANED_MS && remaining.length > 0) orphans.set(sinceMs, remaining);
    unused = others;
  }
  if (unused.length > 0) orphans.set(nowMs, uniteBlocks([...unused, ...(orphans.get(nowMs) ?? [])]));
  const taken = uniteBlocks([used, ...orphans.values()].flat());
  return { taken, orphans };
}

interface NamespaceIds extends IdBlock {
  readonly name: string;
}

/** Returns the problems with manually set ranges, by namespace name. Ignores terminating namespaces. */
export function findRangeProblems(namespaces: readonly Namespace[]): ReadonlyMap<string, readonly string[]> {
  const problems = new Map<string, readonly string[]>();
  const add = (name: string, more: readonly string[]): void => {
    if (more.length > 0) problems.set(name, [...(problems.get(name) ?? []), ...more]);
  };
  const blocks: NamespaceIds[] = [];
  for (const { metadata: { name = '', annotations = {}, deletionTimestamp } = {} } of namespaces) {
    if (deletionTimestamp !== undefined) continue;
    add(name, annotationProblems(annotations));
    const ids = parseIdBlock(annotations[UID_RANGE] ?? '');
    if ('value' in ids) blocks.push({ name, ...ids.value });
  }
  for (const [name, other] of findSharing(blocks)) add(name, [`shares IDs with namespace ${quote(other)}`]);
  return problems;
}

/** Returns the namespaces that share IDs with other namespaces. The value is the name of one of these. */
function findSharing(all: readonly NamespaceIds[]): ReadonlyMap<string, string> {
  const blocks = all.filter(({ min, max }) => min <= max).sort((a, b) => a.min - b.min || compareBytes(a.name, b.name));
  const shared = new Map<string, string>();
  let furthest: NamespaceIds | undefined;
  for (const block of blocks) {
    if (furthest && block.min <= furthest.max) {
      shared.set(block.name, furthest.name);
      if (!shared.has(furthest.name)) shared.set(furthest.name, block.name);
    }
    if (!furthest || block.max > furthest.max) furthest = block;
  }
  return shared;
}

const CATEGORIES = '(?::c\\d+(?:[.,]c\\d+)*)?';
const LEVEL = new RegExp(`^s\\d+${CATEGORIES}(?:-s\\d+${CATEGORIES})?$`);

/** Pairs of an annotation and a function that returns the problems with its value. */
const CHECKS: readonly (readonly [annotation: string, check: (text: string) => readonly string[]])[] = [
  [UID_RANGE, (text) => blockProblems(parseSingleBlock(text))],
  [GROUPS, (text) => blockProblems(parseIdBlocks(text))],
  [MCS, (text) => (LEVEL.test(text) ? [] : ['is not an SELinux level'])],
];

function annotationProblems(annotations: Readonly<Record<string, string>>): readonly string[] {
  return CHECKS.flatMap(([annotation, check]) => {
    const text = annotations[annotation];
    return text === undefined ? [] : check(text).map((problem) => `${annotation}=${quote(text)} ${problem}`);
  });
}

/** Parses one block. Ignores any text after the block, unlike the parser for lists. */
function parseSingleBlock(text: string): Result<readonly IdBlock[]> {
  const block = parseIdBlock(text);
  return 'error' in block ? block : { value: [block.value] };
}

function blockProblems(blocks: Result<readonly IdBlock[]>): readonly string[] {
  if ('error' in blocks) return [`is invalid (${blocks.error})`];
  return blocks.value.flatMap(({ min, max }) => {
    if (min > max) return [`contains no IDs: ${min} is greater than ${max}`];
    return min < 1 ? ['includes 0, the UID of root'] : [];
  });
}
