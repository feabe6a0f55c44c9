import {
  parseIdBlock,
  NAMESPACE_RANGE_ANNOTATIONS,
  type RangeAllocation,
  parseIdBlocks,
  type IdBlock,
} from '../../kube/scc.ts';
import type { Namespace, Result } from '../../kube/types.ts';
import { emptyBitmap, type Bitmap, type NumberRange, parseBitmap } from './bitmap.ts';
import {
  parseMcsLabel,
  labelRank,
  isInMcsRange,
  type RangeSettings,
  blockCount,
  blocksTouching,
  indexOfBlock,
  type UidRange,
  formatMcsLabel,
  labelAt,
  blockAt,
  formatBlock,
  parseUidRange,
  formatUidRange,
} from './ranges.ts';
import { quote, compareBytes } from '../../kube/text.ts';

const { uidRange: UID_RANGE, mcs: MCS } = NAMESPACE_RANGE_ANNOTATIONS;

/** The index of the block of a namespace; `undefined` if its IDs are not exactly one block of the range. */
function namespaceBlock(namespace: Namespace, range: UidRange): number | undefined {
  const block = parseIdBlock(namespace.metadata?.annotations?.[UID_RANGE] ?? '');
  return 'value' in block ? indexOfBlock(range, block.value) : undefined;
}

/**
 * Creates the function that returns the blocks in use: a namespace has some of their IDs or their label. The function
 * keeps its result, and reads only the namespaces that changed since the last call.
 */
export function createBlocksInUse(settings: RangeSettings): (namespaces: readonly Namespace[]) => Bitmap {
  let seen: readonly Namespace[] = [];
  let inUse = emptyBitmap();
  return (namespaces) => {
    if (namespaces === seen) return inUse;
    const isLess =
      namespaces.length < seen.length || seen.some((before, index) => lostRanges(before, namespaces[index]));
    if (isLess) inUse = emptyBitmap();
    const fresh = isLess ? namespaces : namespaces.filter((namespace, index) => namespace !== seen[index]);
    const blocks = fresh.flatMap((namespace) => blocksOf(namespace, settings));
    for (const { first, last } of mergeRanges(blocks)) inUse.addRange(first, last);
    seen = namespaces;
    return inUse;
  };
}

/** Merges overlapping ranges: IDs that were set manually may span all blocks, in many namespaces. */
function mergeRanges(blocks: readonly NumberRange[]): readonly NumberRange[] {
  const rows: NumberRange[] = [];
  for (const row of blocks.toSorted((a, b) => a.first - b.first)) {
    const before = rows.at(-1);
    if (before && row.first <= before.last + 1) {
      rows[rows.length - 1] = { first: before.first, last: Math.max(before.last, row.last) };
    } else rows.push(row);
  }
  return rows;
}

/** True if a namespace was replaced by one without its IDs or its label. */
function lostRanges(before: Namespace, now: Namespace | undefined): boolean {
  if (before === now) return false;
  const { annotations: old } = before.metadata ?? {};
  const { annotations } = now?.metadata ?? {};
  return [UID_RANGE, MCS].some((key) => old?.[key] !== undefined && old[key] !== annotations?.[key]);
}

function blocksOf(namespace: Namespace, settings: RangeSettings): readonly NumberRange[] {
  const annotations = namespace.metadata?.annotations ?? {};
  const byIds = blocksOfIds(annotations[UID_RANGE], settings.uidRange);
  const byLabel = blockOfLabel(annotations[MCS], settings);
  return [...(byIds ? [byIds] : []), ...(byLabel ? [byLabel] : [])];
}

function blocksOfIds(ids: string | undefined, range: UidRange): NumberRange | undefined {
  const block = parseIdBlock(ids ?? '');
  return 'value' in block ? blocksTouching(range, block.value) : undefined;
}

function blockOfLabel(text: string | undefined, settings: RangeSettings): NumberRange | undefined {
  const label = parseMcsLabel(text ?? '');
  if ('error' in label || !isInMcsRange(settings.mcsRange, label.value)) return undefined;
  const index = Math.floor(labelRank(label.value.categories) / Math.max(1, settings.labelsPerBlock));
  return index < blockCount(settings.uidRange) ? { first: index, last: index } : undefined;
}

/**
 * Creates the function that chooses the next block: the lowest free one, preferably without IDs or a label that were set
 * manually on a namespace. It returns `undefined` if no block is free.
 */
export function createAllocator(
  settings: RangeSettings,
): (taken: Bitmap, namespaces: readonly Namespace[]) => number | undefined {
  const blocksInUse = createBlocksInUse(settings);
  const count = blockCount(settings.uidRange);
  return (taken, namespaces) =>
    // IDs that were set manually may span all blocks.
    taken.lowestClear(count, blocksInUse(namespaces)) ?? taken.lowestClear(count);
}

const { uidRange, supplementalGroups, mcs } = NAMESPACE_RANGE_ANNOTATIONS;

/** A block, the missing annotations of the block that the namespace has, or nothing. */
type NamespaceNeed = 'block' | { readonly annotations: Readonly<Record<string, string>> } | undefined;

/** Returns what a namespace needs. A namespace with IDs outside of the blocks needs nothing. */
export function findNamespaceNeed(namespace: Namespace, settings: RangeSettings): NamespaceNeed {
  const annotations = namespace.metadata?.annotations ?? {};
  const deletionTimestamp = namespace.metadata?.deletionTimestamp;
  if (deletionTimestamp !== undefined) return undefined;
  if (annotations[uidRange] === undefined) return 'block';
  if (annotations[mcs] !== undefined && annotations[supplementalGroups] !== undefined) return undefined;
  const block = namespaceBlock(namespace, settings.uidRange);
  return block === undefined ? undefined : { annotations: blockAnnotations(block, namespace, settings) };
}

/** The annotations of a namespace with this block. Existing values are kept. */
export function blockAnnotations(
  index: number,
  namespace: Namespace,
  { uidRange: range, mcsRange, labelsPerBlock }: RangeSettings,
): Readonly<Record<string, string>> {
  const present = namespace.metadata?.annotations ?? {};
  const block = formatBlock(blockAt(range, index));
  return {
    [uidRange]: present[uidRange] ?? block,
    [supplementalGroups]: present[supplementalGroups] ?? block,
    [mcs]: present[mcs] ?? formatMcsLabel(labelAt(mcsRange, index * Math.max(1, labelsPerBlock))),
  };
}

/** The name of the object with the allocated blocks. */
export const RANGE_ALLOCATION_NAME = 'scc-uid';

type RangeState = Required<Pick<RangeAllocation, 'range' | 'data'>>;

/** Reads the allocated blocks. The result is an error if the object has another range or is invalid. */
export function readState(object: RangeAllocation, range: UidRange): Result<Bitmap> {
  const expected = formatUidRange(range);
  if (object.range !== expected) {
    return { error: `conflicting UID range; expected ${expected}, got ${object.range ?? ''}` };
  }
  const taken = parseBitmap(object.data ?? '');
  return taken ? { value: taken } : { error: `data of RangeAllocation ${quote(RANGE_ALLOCATION_NAME)} is not base64` };
}

export function formatState(range: UidRange, taken: Bitmap): RangeState {
  return { range: formatUidRange(range), data: taken.toBase64() };
}

/** The blocks of namespaces. IDs that are not exactly one block are ignored. */
export function namespaceBlocks(namespaces: readonly Namespace[], range: UidRange): Bitmap {
  const taken = emptyBitmap();
  for (const namespace of namespaces) {
    const index = namespaceBlock(namespace, range);
    if (index !== undefined) taken.add(index);
  }
  return taken;
}

/** The blocks of the range that overlap the allocated blocks of a state object, which may have another range. */
export function recordedBlocks(object: RangeAllocation, range: UidRange): Bitmap {
  const recorded = parseUidRange(object.range ?? '');
  const taken = emptyBitmap();
  if ('error' in recorded) return taken;
  const count = blockCount(recorded.value);
  for (const { first, last } of parseBitmap(object.data ?? '')?.ranges() ?? []) {
    if (first >= count) break;
    const { min } = blockAt(recorded.value, first);
    const { max } = blockAt(recorded.value, Math.min(last, count - 1));
    const touched = blocksTouching(range, { min, max });
    if (touched) taken.addRange(touched.first, touched.last);
  }
  return taken;
}

/** The allocated blocks without a namespace, by the time (in ms) at which they were found. */
export type Orphans = ReadonlyMap<number, Bitmap>;

interface RepairInput {
  readonly range: UidRange;
  readonly namespaces: readonly Namespace[];
  /** Absent if it does not exist. */
  readonly state: RangeAllocation | undefined;
  readonly orphans: Orphans;
  readonly nowMs: number;
}

export interface Repair {
  readonly taken: Bitmap;
  readonly orphans: Orphans;
  readonly isFull: boolean;
}

/** How long an allocated block is kept for a namespace that is not annotated yet. */
export const ORPHANED_MS = 5 * 60_000;

/** Computes the allocated blocks: those of namespaces, and those that may belong to a namespace soon. */
export function planRepair({ range, namespaces, state, orphans: known, nowMs }: RepairInput): Repair {
  const taken = namespaceBlocks(namespaces, range);
  const fresh = state ? recordedBlocks(state, range) : emptyBitmap();
  fresh.removeAll(taken);
  const orphans = new Map<number, Bitmap>();
  for (const [sinceMs, blocks] of known) {
    const still = blocks.intersection(fresh);
    if (nowMs - sinceMs < ORPHANED_MS && !still.isEmpty()) orphans.set(sinceMs, still);
    fresh.removeAll(blocks);
  }
  if (!fresh.isEmpty()) {
    fresh.addAll(orphans.get(nowMs) ?? emptyBitmap());
    orphans.set(nowMs, fresh);
  }
  for (const blocks of orphans.values()) taken.addAll(blocks);
  return { taken, orphans, isFull: taken.lowestClear(blockCount(range)) === undefined };
}

const {
  uidRange: RANGE_PROBLEMS_UID_RANGE,
  supplementalGroups: GROUPS,
  mcs: RANGE_PROBLEMS_MCS,
} = NAMESPACE_RANGE_ANNOTATIONS;

interface Reading {
  readonly name: string;
  readonly ids: IdBlock | undefined;
  /** The problems of the annotations, without regard to other namespaces. */
  readonly problems: readonly string[];
}

/** Returns the problems of ranges that were set manually, by namespace name. */
export function findRangeProblems(namespaces: readonly Namespace[]): ReadonlyMap<string, readonly string[]> {
  const readings = namespaces.map(readRanges);
  const found = new Map<string, string[]>();
  const add = (name: string, problem: string): void => {
    const known = found.get(name);
    if (known) known.push(problem);
    else found.set(name, [problem]);
  };
  for (const { name, problems } of readings) for (const problem of problems) add(name, problem);
  for (const [name, other] of findSharing(readings)) add(name, `shares IDs with namespace ${quote(other)}`);
  return found;
}

/** Returns the namespaces that share IDs with another one, each with the name of one such namespace. */
function findSharing(readings: readonly Reading[]): ReadonlyMap<string, string> {
  const blocks = readings.flatMap(({ name, ids }) => (ids && ids.min <= ids.max ? [{ name, ...ids }] : []));
  blocks.sort((a, b) => a.min - b.min || compareBytes(a.name, b.name));
  const shared = new Map<string, string>();
  let reaching: (typeof blocks)[number] | undefined;
  for (const block of blocks) {
    if (reaching && block.min <= reaching.max) {
      shared.set(block.name, reaching.name);
      if (!shared.has(reaching.name)) shared.set(reaching.name, block.name);
    }
    if (!reaching || block.max > reaching.max) reaching = block;
  }
  return shared;
}

function readRanges({ metadata: { name = '', annotations = {}, deletionTimestamp } = {} }: Namespace): Reading {
  // The namespace gets no more pods.
  if (deletionTimestamp !== undefined) return { name, ids: undefined, problems: [] };
  const ids =
    annotations[RANGE_PROBLEMS_UID_RANGE] === undefined
      ? undefined
      : parseIdBlock(annotations[RANGE_PROBLEMS_UID_RANGE]);
  const groups = annotations[GROUPS] === undefined ? undefined : parseIdBlocks(annotations[GROUPS]);
  const problems = [
    ...(ids === undefined ? [] : 'error' in ids ? [formatInvalid(ids.error)] : blockProblems(ids.value)).map(
      (why) => `${RANGE_PROBLEMS_UID_RANGE}=${quote(annotations[RANGE_PROBLEMS_UID_RANGE] ?? '')} ${why}`,
    ),
    ...(groups === undefined
      ? []
      : 'error' in groups
        ? [formatInvalid(groups.error)]
        : groups.value.flatMap(blockProblems)
    ).map((why) => `${GROUPS}=${quote(annotations[GROUPS] ?? '')} ${why}`),
    ...(annotations[RANGE_PROBLEMS_MCS] === undefined || LEVEL.test(annotations[RANGE_PROBLEMS_MCS])
      ? []
      : [`${RANGE_PROBLEMS_MCS}=${quote(annotations[RANGE_PROBLEMS_MCS])} is not an SELinux level`]),
  ];
  return { name, ids: ids && 'value' in ids ? ids.value : undefined, problems };
}

const CATEGORIES = '(?::c\\d+(?:[.,]c\\d+)*)?';
const LEVEL = new RegExp(`^s\\d+${CATEGORIES}(?:-s\\d+${CATEGORIES})?$`);

function formatInvalid(error: string): string {
  return `is invalid (${error})`;
}

function blockProblems({ min, max }: IdBlock): readonly string[] {
  if (min > max) return [`contains no IDs: ${min} is greater than ${max}`];
  return min < 1 ? ['includes 0, the UID of root'] : [];
}
