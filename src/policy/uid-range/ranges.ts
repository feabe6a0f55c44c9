import type { IdBlock } from '../../kube/scc.ts';
import type { Result } from '../../kube/types.ts';
import type { BlockRange } from './blocks.ts';

/** A range of 32-bit user IDs, divided into blocks of equal size. Each namespace gets one block. */
export interface UidRange {
  readonly start: number;
  /** The last ID, inclusive. */
  readonly end: number;
  readonly blockSize: number;
}

const FORMAT = /^(\d+)-(\d+)\/(\d+)$/;
const MAX_ID = 0xffffffff;

/**
 * Parses `<start>-<end>/<block size>`.
 * @see https://github.com/openshift/library-go/blob/master/pkg/security/uid/uid.go
 */
export function parseUidRange(text: string): Result<UidRange> {
  const [start = NaN, end = NaN, blockSize = NaN] = FORMAT.exec(text)?.slice(1).map(Number) ?? [];
  if (!(start <= MAX_ID && end <= MAX_ID && blockSize <= MAX_ID)) {
    return { error: 'range not in the format "<start>-<end>/<blockSize>"' };
  }
  if (start > end) return { error: `start ${start} must be less than end ${end}` };
  if (blockSize === 0) return { error: 'block size must be a positive integer' };
  if (end - start < blockSize) return { error: 'block size must be less than or equal to the range' };
  return { value: { start, end, blockSize } };
}

/** Formats a range as `parseUidRange` parses it. */
export function formatUidRange({ start, end, blockSize }: UidRange): string {
  return `${start}-${end}/${blockSize}`;
}

/** Returns the number of complete blocks. Block indexes start at 0. */
export function blockCount({ start, end, blockSize }: UidRange): number {
  return Math.floor((end - start + 1) / blockSize);
}

/** Returns the IDs of the block at the index. */
export function blockAt({ start, blockSize }: UidRange, index: number): IdBlock {
  const min = start + index * blockSize;
  return { min, max: min + blockSize - 1 };
}

/** Formats a block as `<start>/<size>`, as in the namespace annotation. */
export function formatBlock({ min, max }: IdBlock): string {
  return `${min}/${max - min + 1}`;
}

/** Returns the index of a block, or `undefined` if the IDs do not match exactly one block of the range. */
export function indexOfBlock(range: UidRange, { min, max }: IdBlock): number | undefined {
  const index = (min - range.start) / range.blockSize;
  const isBlock = Number.isInteger(index) && index >= 0 && max <= range.end && max - min + 1 === range.blockSize;
  return isBlock ? index : undefined;
}

/** Returns the indexes of the first and last blocks that contain any of the IDs, or `undefined` if no block does. */
export function blocksTouching(range: UidRange, { min, max }: IdBlock): BlockRange | undefined {
  const first = Math.max(0, Math.floor((min - range.start) / range.blockSize));
  const last = Math.min(blockCount(range) - 1, Math.floor((max - range.start) / range.blockSize));
  return min <= max && first <= last ? { first, last } : undefined;
}

/** Number of SELinux categories, from `c0` to `c1023`. */
const CATEGORIES = 1024;

/** An SELinux level with categories, such as `s0:c26,c5`. */
interface McsLabel {
  /** Text before the categories, including the colon. */
  readonly prefix: string;
  /** Distinct categories, in descending order. */
  readonly categories: readonly number[];
}

/**
 * Parses a label. The categories may be in any order.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/mcs/label.go
 */
export function parseMcsLabel(text: string): Result<McsLabel> {
  const colon = text.lastIndexOf(':');
  const list = text.slice(colon + 1);
  const categories: number[] = [];
  for (const category of list.split(',')) {
    if (!/^c\d+$/.test(category)) return { error: `categories must start with 'c': ${list}` };
    categories.push(Number(category.slice(1)));
  }
  if (new Set(categories).size < categories.length) {
    return { error: `labels may not contain duplicate categories: ${text}` };
  }
  return { value: { prefix: text.slice(0, colon + 1), categories: categories.sort((a, b) => b - a) } };
}

export function formatMcsLabel({ prefix, categories }: McsLabel): string {
  return prefix + categories.map((category) => `c${category}`).join(',');
}

/**
 * Returns the rank of a set of categories among all sets of the same size, in the combinatorial number system. The rank
 * is exact for up to 5 SELinux categories.
 * @see https://en.wikipedia.org/wiki/Combinatorial_number_system
 */
export function labelRank(categories: readonly number[]): number {
  return categories.reduce((rank, category, index) => rank + binomial(category, categories.length - index), 0);
}

/**
 * Returns the set of categories that has the given non-negative rank. A rank beyond the last set yields invalid
 * categories.
 */
export function categoriesAt(rank: number, length: number): readonly number[] {
  const categories: number[] = [];
  let rest = rank;
  for (let size = length; size > 0; size--) {
    const category = highestWithin(rest, size);
    categories.push(category);
    rest -= binomial(category, size);
  }
  return categories;
}

/** Returns the highest category below which there are at most `rest` sets of `size` categories. */
function highestWithin(rest: number, size: number): number {
  let low = 0;
  let high = CATEGORIES;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (binomial(middle, size) <= rest) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Returns the binomial coefficient. Intermediate results stay below 2^53 for `n` up to 1024 and `k` up to 5. */
function binomial(n: number, k: number): number {
  if (n < k) return 0;
  let sets = 1;
  for (let i = 0; i < k; i++) sets = (sets * (n - i)) / (i + 1);
  return sets;
}

/** A range of labels that have the same prefix and number of categories. */
interface McsRange {
  readonly prefix: string;
  /** Number of categories in a label, from 1 to 5. */
  readonly length: number;
  /** Number of available categories, starting at `c0`. */
  readonly categories: number;
}

const MCS_RANGE_FORMAT = /^([^/]*)\/(\d+)(?:,(\d+))?$/;

/**
 * Parses `<prefix>/<categories per label>[,<available categories>]`.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/mcs/label.go
 */
export function parseMcsRange(text: string): Result<McsRange> {
  const [, prefix, k, n = String(CATEGORIES)] = MCS_RANGE_FORMAT.exec(text) ?? [];
  if (prefix === undefined) return { error: 'range not in the format "<prefix>/<numLabel>[,<maxCategory>]"' };
  const length = Number(k);
  const categories = Number(n);
  if (length > 5) return { error: 'range may not include more than 5 labels' };
  if (categories > CATEGORIES) return { error: `range may not include more than ${CATEGORIES} categories` };
  if (categories === 0) return { error: 'label max value must be a positive integer' };
  if (length === 0) return { error: 'label length must be a positive integer' };
  return { value: { prefix, length, categories } };
}

/** Formats a range as `parseMcsRange` parses it. */
export function formatMcsRange({ prefix, length, categories }: McsRange): string {
  return `${prefix}/${length}${categories === CATEGORIES ? '' : `,${categories}`}`;
}

export function labelCount({ length, categories }: McsRange): number {
  return binomial(categories, length);
}

export function isInMcsRange({ length, categories, ...range }: McsRange, label: McsLabel): boolean {
  return (
    label.prefix === withSeparator(range.prefix) &&
    label.categories.length === length &&
    label.categories.every((category) => category < categories)
  );
}

/**
 * Returns the label that has the given rank in the range. A rank beyond the last label yields categories outside the
 * range.
 */
export function labelAt({ prefix, length }: McsRange, rank: number): McsLabel {
  return { prefix: withSeparator(prefix), categories: categoriesAt(rank, length) };
}

function withSeparator(prefix: string): string {
  return prefix === '' || /[:,]$/.test(prefix) ? prefix : `${prefix}:`;
}

/** The ranges from which namespaces get their IDs and labels. */
export interface RangeSettings {
  readonly uidRange: UidRange;
  readonly mcsRange: McsRange;
  /** Number of labels for each ID block. The namespace gets the first of these labels. 0 is treated as 1. */
  readonly labelsPerBlock: number;
}

/** OpenShift's defaults, which allow 100,000 blocks. */
export const DEFAULT_RANGES: RangeSettings = {
  uidRange: { start: 1_000_000_000, end: 1_999_999_999, blockSize: 10_000 },
  mcsRange: { prefix: 's0:', length: 2, categories: 1024 },
  labelsPerBlock: 5,
};

/** Maximum number of blocks. Limits the size of the RangeAllocation, because etcd stores objects of up to 1.5 MiB. */
const MAX_BLOCKS = 8_000_000;

/** Returns an error if the settings contradict each other. */
export function validateRangeSettings({ uidRange, mcsRange, labelsPerBlock }: RangeSettings): string | undefined {
  if (uidRange.start === 0) return `uid range ${formatUidRange(uidRange)} contains UID 0 (root)`;
  const blocks = blockCount(uidRange);
  if (blocks > MAX_BLOCKS) return `uid range ${formatUidRange(uidRange)} has ${blocks} blocks, more than ${MAX_BLOCKS}`;
  const needed = blocks * Math.max(1, labelsPerBlock);
  const labels = labelCount(mcsRange);
  if (needed <= labels) return undefined;
  return `mcs range ${formatMcsRange(mcsRange)} has ${labels} labels, but ${needed} are needed for the ${blocks} blocks of uid range ${formatUidRange(uidRange)}`;
}
